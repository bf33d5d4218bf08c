"""There and back under load, by writers that follow the routes.

Each writer goes where the routes say and keeps its ledger (`ledger`). In the end every key is, at
both sides, what the last acknowledged change made of it (`judge`). And nobody is refused but while
he has to be:

- before a flip is asked for, nobody is refused at all;
- from the first change that the taking side lets in, nobody is told to wait any more (LK002,
  LK003): it opens for all at once;
- who comes to the giving side after that learns where the table is (LK001), once: he asks the
  routes, and goes there.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from lockgate.client.routes import RouteFollower
from soak.matrix.world import Unhealthy
from soak.moves.judge import judge, notes_at
from soak.moves.ledger import Ledger
from soak.moves.world import TIMEOUT_S, MoveWorld
from soak.moves.writer import MOVED, Where, Writer

__all__ = ["Flip", "FlipsReport", "quantile", "run_flips", "wrongly_refused"]

MOVE: Final = "load"
TABLE: Final = "public.load"
CHANGES_BETWEEN: Final = 50
"""That each writer gets in between two flips."""
_SIDES: Final = {"shop": "source", "copy": "target"}


class Flip(msgspec.Struct, frozen=True):
    """One of them, by the clock of who asked."""

    to: str
    asked: float
    answered: float


class FlipsReport(msgspec.Struct, frozen=True):
    """What came of it."""

    flips: int
    writers: int
    seconds: float
    changes: dict[str, int]
    """That were acknowledged, by their kinds."""
    refusals: dict[str, int]
    """By the guards' codes."""
    blocked_ms_p50: float
    """How long writers waited that were refused, until they were let in."""
    blocked_ms_p99: float
    blocked_ms_max: float
    problems: list[str]


def run_flips(world: MoveWorld, flips: int, writers: int) -> FlipsReport:
    """Flip so often, with so many writers."""
    began = time.monotonic()
    world.make_tables(TABLE)
    world.create(MOVE, [TABLE])
    done: list[Flip] = []
    with contextlib.ExitStack() as stack:
        known = stack.enter_context(RouteFollower(world.client().routes))
        urls = {"source": world.source, "target": world.target}
        made = [
            stack.enter_context(Writer(Ledger(), urls, TABLE, _routed(known)))
            for _ in range(writers)
        ]
        for number in range(flips):
            _write_more(world, made)
            to = ("target", "source")[number % 2]
            asked = time.time()
            world.flip(MOVE, to)
            done.append(Flip(to, asked, time.time()))
        _write_more(world, made)
    ledgers = [writer.ledger for writer in made]
    problems = [problem for ledger in ledgers for problem in ledger.problems]
    problems += wrongly_refused(done, ledgers)
    [feed] = world.client().feeds.list()
    if not world.client().feeds.wait(feed.name, timeout_s=120.0).level:
        problems.append(f"{feed.name} does not become level")
    found = {side: sorted(notes_at(url, TABLE)) for side, url in urls.items()}
    for side, notes in found.items():
        for writer in made:
            wrong = judge(notes, side, writer.ledger, writer.tag)
            problems += [f"{side}: {one}" for one in wrong]
    if found["source"] != found["target"]:  # also what no ledger knows of
        problems.append("the sides do not hold the same rows")
    waits = sorted(wait for ledger in ledgers for wait in ledger.waits_s())
    return FlipsReport(
        flips,
        writers,
        time.monotonic() - began,
        dict(Counter(one.change.kind.value for ledger in ledgers for one in ledger.changes)),
        dict(Counter(one.code for ledger in ledgers for one in ledger.refusals)),
        quantile(waits, 0.5) * 1000,
        quantile(waits, 0.99) * 1000,
        quantile(waits, 1.0) * 1000,
        problems,
    )


def wrongly_refused(flips: Sequence[Flip], ledgers: Sequence[Ledger]) -> list[str]:
    """Who was refused when he had not to be. An attempt that began before something was so may
    end after it; so what counts is when it began."""
    found = []
    for number, flip in enumerate(flips):
        until = flips[number + 1].asked if number + 1 < len(flips) else float("inf")
        let_in = [
            one.ended
            for ledger in ledgers
            for one in ledger.changes
            if one.side == flip.to and flip.asked <= one.ended < until
        ]
        opened = min(let_in, default=until)
        for ledger in ledgers:
            late = [one for one in ledger.refusals if opened < one.began < until and one.at < until]
            told = [one for one in late if one.code == MOVED]
            if len(told) < len(late):
                found.append(f"flip {number + 1}: told to wait when {flip.to} was open")
            if len(told) > 1:
                found.append(f"flip {number + 1}: sent on {len(told)} times by one writer")
    first = flips[0].asked if flips else float("inf")
    if any(one.at < first for ledger in ledgers for one in ledger.refusals):
        found.append("refused before anybody had asked for a flip")
    return found


def _routed(known: RouteFollower) -> Where:
    """Where the routes say. Who is told that a table has moved asks them at once."""

    def where(last: str, code: str) -> str:
        del last
        endpoint = known.refresh(TABLE) if code == MOVED else known.table(TABLE)
        return _SIDES[endpoint]

    return where


def _write_more(world: MoveWorld, writers: Sequence[Writer]) -> None:
    wanted = [writer.written + CHANGES_BETWEEN for writer in writers]

    def wrote() -> bool:
        if not all(writer.alive for writer in writers):
            raise Unhealthy(f"a writer met {[writer.ledger.problems for writer in writers]}")
        return all(writer.written >= most for writer, most in zip(writers, wanted, strict=True))

    world.until(wrote, lambda: "writers are let in nowhere", TIMEOUT_S)


def quantile(sorted_: Sequence[float], share: float) -> float:
    """Of nothing: 0."""
    if not sorted_:
        return 0.0
    return sorted_[min(len(sorted_) - 1, int(share * len(sorted_)))]
