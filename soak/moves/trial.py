"""One cell: freeze, kill, let others see to it, and see whether all is well."""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
import psycopg
from psycopg import sql

from lockgate.client.moves import Moves
from lockgate.model.errors import LockgateError
from lockgate.model.moves import Command, MoveState
from soak.failpoints import FailPoint
from soak.moves.cells import MoveCell
from soak.moves.hook import HOOK, wrongly_told
from soak.moves.judge import judge, notes_at
from soak.moves.ledger import Ledger
from soak.moves.prober import Prober
from soak.moves.world import NODES, SOON_S, TIMEOUT_S, MoveWorld, Unhealthy
from soak.moves.writer import Writer, either

__all__ = ["MoveOutcome", "attempt"]

FREEZE_S: Final = 120.0
SLACK_S: Final = 5.0
"""By which a prober on a busy machine may be late itself."""
FLIPS: Final = "flips"
"""The one move that all flips are tried on."""
_NUMBERS: Final = itertools.count(1)
_TRAFFIC: Final = {Command.SWITCH: "source", Command.REVERSE: "target"}
_REST: Final = {"source": MoveState.RUNNING, "target": MoveState.SWITCHED}


class MoveOutcome(msgspec.Struct, frozen=True):
    """What came of a cell."""

    cell: MoveCell
    passed: bool
    closed_s: float = 0.0
    """The longest time in which nobody could write at either side."""
    resumed_s: float = 0.0
    """From the kill to the end of the command."""
    seconds: float = 0.0
    changes: int = 0
    """That were acknowledged meanwhile, and are there."""
    why: str = ""


def attempt(world: MoveWorld, cell: MoveCell) -> MoveOutcome:
    """Try a cell. What is left of it does not stand in the way of the next one."""
    began = time.monotonic()
    trial = _Trial(world, cell)
    try:
        trial.run()
    except (Unhealthy, LockgateError, psycopg.Error, RuntimeError) as why:
        with contextlib.suppress(Unhealthy, LockgateError, RuntimeError):
            world.heal()
        return trial.outcome(False, time.monotonic() - began, f"{type(why).__name__}: {why}")
    return trial.outcome(True, time.monotonic() - began)


class _Trial:
    def __init__(self, world: MoveWorld, cell: MoveCell) -> None:
        self._world = world
        self._cell = cell
        self._closed_s = self._resumed_s = 0.0
        self._changes = 0

    def outcome(self, passed: bool, seconds: float, why: str = "") -> MoveOutcome:
        return MoveOutcome(
            self._cell, passed, self._closed_s, self._resumed_s, seconds, self._changes, why
        )

    def run(self) -> None:
        command = Command(self._cell.command)
        if self._cell.flips:
            self._flip(command)
        elif command is Command.CREATE:
            self._create()
        else:
            self._end(command)

    # --- switch and reverse -----------------------------------------------------------------------

    def _flip(self, command: Command) -> None:
        world, cell = self._world, self._cell
        table = f"public.{FLIPS}"
        if world.status(FLIPS) is None:
            world.make_tables(table, f"{table}_too")
            world.create(FLIPS, [f"{table}*"], HOOK)
        giving = _TRAFFIC[command]
        world.flip(FLIPS, giving)
        world.start(*NODES)

        def ask(moves: Moves) -> None:
            verb = moves.switch if command is Command.SWITCH else moves.reverse
            verb(FLIPS, timeout_s=TIMEOUT_S, max_lag_s=TIMEOUT_S)

        with self._watched(FLIPS, table) as (prober, writer):
            if cell.undo:
                self._freeze(FLIPS, FailPoint(FLIPS, "step", "way-back", "after"), ask)
                self._kill(FailPoint(FLIPS, "undo", cell.step, cell.when))
                self._await_frozen(FLIPS)
            else:
                self._freeze(FLIPS, FailPoint(FLIPS, "step", cell.step, cell.when), ask)
            self._kill_and_resume(
                lambda: world.rested(FLIPS, MoveState.RUNNING, MoveState.SWITCHED)
            )
            traffic = world.traffic(FLIPS)
            world.until(lambda: prober.open_side == traffic, lambda: f"{traffic} is not open", 30.0)
        self._require_hook(FLIPS, traffic)
        if (traffic != giving) not in cell.outcomes:
            raise Unhealthy(f"the traffic is at the {traffic}, it was at the {giving}")
        feed = self._one_feed(traffic)
        if not world.client().feeds.wait(feed, timeout_s=SOON_S).level:
            raise Unhealthy(f"{feed} does not become level")
        self._require_rows(table, writer, "target" if traffic == "source" else "source")

    def _require_hook(self, move: str, traffic: str) -> None:
        hook = self._world.hook
        if wrong := wrongly_told(hook.told(move), holds=hook.holds(move), traffic=traffic):
            raise Unhealthy("; ".join(wrong))

    def _one_feed(self, traffic: str) -> str:
        """From the side that has the traffic, and nothing of another one."""
        world = self._world
        feeds = [each.name for each in world.client().feeds.list()]
        if len(feeds) != 1:
            raise Unhealthy(f"the move has one feed, and there are {feeds}")
        for side, url in (("source", world.source), ("target", world.target)):
            slots, rows = _slots(url), _sinks(url)
            wanted = (1, []) if side == traffic else (0, feeds)
            if (len(slots), rows) != wanted:
                raise Unhealthy(f"{side} has slots {slots} and the sink of {rows}, not {wanted}")
        routes = {each.endpoint for each in world.client().routes.all().routes}
        if routes != {"shop" if traffic == "source" else "copy"}:
            raise Unhealthy(f"routes go to {routes}, traffic is at the {traffic}")
        return feeds[0]

    # --- create, complete, cancel -----------------------------------------------------------------

    def _create(self) -> None:
        """Killed, it is created all the same; then it is cancelled, and nothing is left."""
        world = self._world
        move, table = self._fresh()

        def ask(moves: Moves) -> None:
            moves.create(move, source="shop", target="copy", tables=[table], hook=HOOK)

        with self._writing(move, table) as writer:
            self._freeze(move, FailPoint(move, "step", self._cell.step, self._cell.when), ask)
            self._kill_and_resume(lambda: world.rested(move, MoveState.RUNNING))
            self._move_on(writer)
        world.flip(move, "target")  # whatever was written is at the other side, or it is refused
        self._require_rows(table, writer, "target")
        self._require_hook(move, "target")
        world.flip(move, "source")
        self._until_over(move, lambda moves: moves.cancel(move), MoveState.CANCELLED)
        world.require_nothing_left()
        world.drop_tables(table)

    def _end(self, command: Command) -> None:
        world, cell = self._world, self._cell
        move, table = self._fresh()
        world.create(move, [table], HOOK)
        completes = command is Command.COMPLETE
        if completes:
            world.flip(move, "target")
        world.start(*NODES)

        def ask(moves: Moves) -> object:
            return moves.complete(move, "rename") if completes else moves.cancel(move)

        over = MoveState.COMPLETED if completes else MoveState.CANCELLED
        with self._watched(move, table):
            self._freeze(move, FailPoint(move, "step", cell.step, cell.when), ask)
            self._kill_and_resume(lambda: self._resting(move, over, ask))
        world.require_nothing_left()
        self._require_hook(move, "target" if completes else "source")
        self._require_tables(table, completes)
        world.client().moves.remove(move)
        world.drop_tables(table)

    def _resting(self, move: str, over: MoveState, ask: Callable[[Moves], object]) -> None:
        """A check that was lost is asked for again: nothing was changed by then."""
        self._until_over(move, ask, over) if self._cell.step.startswith("check") else None
        self._world.rested(move, over)

    def _until_over(self, move: str, ask: Callable[[Moves], object], over: MoveState) -> None:
        world = self._world

        def is_over() -> bool:
            status = world.status(move)
            if status is not None and status.state is over:
                return True
            with contextlib.suppress(LockgateError):
                ask(world.client().moves)
            return False

        world.until(is_over, lambda: world.status(move))

    def _require_tables(self, table: str, completed: bool) -> None:
        schema, name = table.split(".")
        source, target = (
            _tables(url, schema, name) for url in (self._world.source, self._world.target)
        )
        wanted = ([f"_{name}_old"], [name]) if completed else ([name], [])
        if (source, target) != wanted:
            raise Unhealthy(f"tables are {source} and {target}, not {wanted}")

    def _fresh(self) -> tuple[str, str]:
        """A move of a table of its own, alone in its databases."""
        world = self._world
        if (status := world.status(FLIPS)) is not None and status.state in _REST.values():
            world.flip(FLIPS, "source")
            self._until_over(FLIPS, lambda moves: moves.cancel(FLIPS), MoveState.CANCELLED)
            world.require_nothing_left()
        move = f"m{next(_NUMBERS)}"
        table = f"public.{move}"
        world.make_tables(table)
        world.start(*NODES)
        return move, table

    # --- common to all ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _writing(self, move: str, table: str) -> Iterator[Writer]:
        ledger = Ledger()
        urls = {"source": self._world.source, "target": self._world.target}
        traffic = self._world.status(move)
        first = "source" if traffic is None else traffic.traffic
        sides = ["source", "target"] if first == "source" else ["target", "source"]
        with Writer(ledger, urls, table, either(sides), pause_s=0.01) as writer:
            yield writer
        self._changes = len(ledger.changes)
        if ledger.problems:
            raise Unhealthy(f"a writer met {ledger.problems}")

    @contextlib.contextmanager
    def _watched(self, move: str, table: str) -> Iterator[tuple[Prober, Writer]]:
        """Prober and writer, and what they must find in the end."""
        world, cell = self._world, self._cell
        with (
            Prober(world.source, world.target, table) as prober,
            self._writing(move, table) as writer,
        ):
            yield prober, writer
            self._move_on(writer)
        self._closed_s = prober.longest_s
        if prober.bug is not None:
            raise Unhealthy(f"the prober met {prober.bug}")
        if prober.both_open:
            raise Unhealthy(prober.both_open[0])
        # Behind the seal somebody has to be there to open the other side.
        behind_seal = cell.flips and True in cell.outcomes
        may_take_s = TIMEOUT_S if cell.flips else 0.0
        if cell.victim == "all" and behind_seal:
            may_take_s += self._resumed_s
        if prober.longest_s > may_take_s + SLACK_S:
            raise Unhealthy(f"nobody could write for {prober.longest_s:.1f} s")
        status = world.status(move)
        at_target = status is not None and (
            status.traffic == "target" or status.state is MoveState.COMPLETED
        )
        self._require_rows(table, writer, "target" if at_target else "source")

    def _require_rows(self, table: str, writer: Writer, side: str) -> None:
        url = self._world.target if side == "target" else self._world.source
        if wrong := judge(notes_at(url, table), side, writer.ledger, writer.tag):
            raise Unhealthy(f"{side}: {'; '.join(wrong)}")

    def _move_on(self, writer: Writer) -> None:
        """It is let in somewhere."""
        wanted = writer.written + 5
        self._world.until(
            lambda: writer.written >= wanted or not writer.alive,
            lambda: "a writer is let in nowhere",
            TIMEOUT_S + SOON_S,
        )

    def _freeze(self, move: str, point: FailPoint, ask: Callable[[Moves], object]) -> None:
        """Begin the command, and wait until its keeper stands still at the step."""
        self._world.arm(point)
        self._world.ask(ask)
        self._await_frozen(move)

    def _await_frozen(self, move: str) -> None:
        self._world.until(
            self._world.frozen,
            lambda: f"{self._cell} does not come: {self._world.status(move)}",
            FREEZE_S,
        )

    def _kill(self, next_point: FailPoint | None = None) -> list[str]:
        """Whom the cell names; whoever takes over stands still at the next point, if there is one.
        They are started again at once."""
        world = self._world
        keeper = world.frozen()
        victims = [keeper] if self._cell.victim == "keeper" else list(NODES)
        others = [name for name in NODES if name not in victims]
        for name in others:
            if next_point is not None:
                world.points[name].arm(next_point)
            else:
                world.points[name].clear()
        world.kill(*victims)
        if next_point is not None:
            for name in victims:
                world.points[name].arm(next_point)
            world.start(*victims)
        return victims

    def _kill_and_resume(self, rests: Callable[[], object]) -> None:
        """Nobody but the others sees to it; where all are killed, they are started again."""
        world = self._world
        victims = self._kill()
        killed = time.monotonic()
        if self._cell.victim == "all":
            world.start(*NODES)
        rests()
        self._resumed_s = time.monotonic() - killed
        world.start(*victims, wait=False)


def _slots(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [
            name
            for (name,) in connection.execute(
                "SELECT slot_name::text FROM pg_replication_slots "
                "WHERE database = current_database() AND NOT temporary"
            )
        ]


def _sinks(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT feed FROM lockgate.feeds WHERE NOT closed ORDER BY 1")
        return [name for (name,) in found]


def _tables(url: str, schema: str, name: str) -> list[str]:
    with psycopg.connect(url) as connection:
        found = connection.execute(
            sql.SQL(
                "SELECT relname::text FROM pg_class WHERE relnamespace = {}::regnamespace "
                "AND relkind = 'r' AND relname IN (%s, %s) ORDER BY 1"
            ).format(sql.Literal(schema)),
            (name, f"_{name}_old"),
        )
        return [each for (each,) in found]
