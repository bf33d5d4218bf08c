"""The diffs of `services.FakeService`: each is over as soon as it is begun, and finds all equal.

What tests steer:

    looks = 3                 the next three looks at a diff see it running
    unequal = True            from now on every diff finds one row that differs
    fails = "a lock"          from now on every diff fails, and this is why
    orders                    every order that was recorded
"""

import dataclasses
import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from lockgate.model.diffs import (
    DiffColumn,
    DiffDocument,
    DiffOrder,
    DiffProgress,
    DiffSample,
    DiffState,
    DiffSummary,
    DiffTable,
    RowKind,
)
from lockgate.model.errors import Conflict, NotFound, UsageError
from lockgate.model.feed_config import FeedConfig
from lockgate.model.move_status import MoveStatus
from lockgate.model.moves import MoveState

SAMPLES = (
    DiffSample(RowKind.DIFFERENT, {"id": "7"}, (DiffColumn("note", "NULL", None),)),
    DiffSample(RowKind.MISSING, {"id": "8"}, (DiffColumn("note", "a\nb", None),)),
    DiffSample(RowKind.EXTRA, {"id": "9"}, (DiffColumn("note", None, "[red]x"),)),
)


class FakeDiffs:
    """An `api.ports.Diffs`."""

    def __init__(
        self,
        call: Callable[..., AbstractContextManager[Any]],
        chosen: Callable[[str, str, Sequence[str]], list[str]],
        feed: Callable[[str], FeedConfig],
        move: Callable[[str], MoveStatus],
        note: Callable[[str, str, str, str], None],
    ) -> None:
        self._call = call
        self._chosen = chosen
        self._feed = feed
        self._move = move
        self._note = note
        self._diffs: dict[str, DiffDocument] = {}
        self.looks = 0
        self.unequal = False
        self.fails = ""
        self.orders: list[DiffOrder] = []

    def run(self, order: DiffOrder, who: str, diff: str = "") -> DiffDocument:
        """A new one; the same again is no error."""
        with self._call("run_diff", who):
            if order.feed:
                config = self._feed(order.feed)
                source, target = config.source.reveal(), config.target.reveal()
                patterns = order.tables or config.tables
            else:
                source, target, patterns = order.source, order.target, order.tables
                if not (source and target and patterns):
                    raise UsageError("something is missing", object_="from", hint="say all")
            tables = self._chosen(source, target, patterns)
            return self._begun(order, source, target, tables, who, diff)

    def run_of_move(
        self, move: str, who: str, diff: str = "", *, repair: bool = False
    ) -> DiffDocument:
        """One of a move."""
        with self._call("run_diff_of_move", who):
            status = self._move(move)
            if status.state not in {MoveState.RUNNING, MoveState.SWITCHED}:
                raise Conflict("the move is not level", object_=move, hint="wait")
            back = status.traffic == "target"
            ends = (status.source, status.target)[:: -1 if back else 1]
            feed = status.reverse if back else status.forward
            order = DiffOrder(
                source=ends[0],
                target=ends[1],
                tables=(),
                feed="" if feed is None else feed.feed,
                move=move,
                repair=repair,
            )
            return self._begun(order, *ends, status.tables, who, diff)

    def resume(self, diff: str, who: str) -> DiffDocument:
        """Over at once, too."""
        with self._call("resume_diff", who):
            found = self._one(diff)
            if found.state is DiffState.FINISHED:
                raise Conflict("the diff is finished", object_=diff, hint="run it anew")
            self._diffs[diff] = self._ended(dataclasses.replace(found, error=""))
            return self._diffs[diff]

    def cancel(self, diff: str, who: str) -> DiffDocument:
        """Whatever it is, unless it is finished."""
        with self._call("cancel_diff", who):
            found = self._one(diff)
            if found.state is DiffState.FINISHED and not self.looks:
                raise Conflict("the diff is finished", object_=diff, hint="show it")
            self.looks = 0
            off = dataclasses.replace(
                found, state=DiffState.FAILED, equal=None, error=f"it was called off by {who}"
            )
            self._diffs[diff] = off
            return off

    def all(self) -> list[DiffSummary]:
        """The newest first."""
        with self._call("diffs"):
            return [_summary(each) for each in reversed(self._diffs.values())]

    def one(self, diff: str) -> DiffDocument:
        """One of them."""
        with self._call("diff"):
            found = self._one(diff)
            if self.looks:
                self.looks -= 1
                return _running(found)
            return found

    def last_of_move(self, move: str) -> DiffDocument:
        """The newest of a move."""
        with self._call("last_diff_of_move"):
            self._move(move)
            for found in reversed(self._diffs.values()):
                if found.move == move:
                    return found
            raise NotFound("there is no diff of the move", object_=move, hint="run one")

    # --- inside -----------------------------------------------------------------------------------

    def _one(self, diff: str) -> DiffDocument:
        if diff not in self._diffs:
            raise NotFound("there is no such diff", object_=diff, hint="lockgate diff list")
        return self._diffs[diff]

    def _begun(
        self,
        order: DiffOrder,
        source: str,
        target: str,
        tables: Sequence[str],
        who: str,
        diff: str,
    ) -> DiffDocument:
        name = diff or secrets.token_hex(5)
        if name not in self._diffs:
            self.orders.append(order)
            number = len(self._diffs)
            self._diffs[name] = self._ended(
                DiffDocument(
                    id=name,
                    state=DiffState.RUNNING,
                    equal=None,
                    source=source,
                    target=target,
                    tables=tuple(DiffTable(each, 1000, True, 0, 0, 0) for each in tables),
                    position="0/16B3748" if order.feed else "",
                    seconds=0.5,
                    rows_per_s=2000.0 * len(tables),
                    progress=DiffProgress(1000, 1000, 100.0, 0.0),
                    feed=order.feed,
                    move=order.move,
                    repair=order.repair,
                    node="a",
                    started=f"2026-03-01T09:30:{number:02d}.000Z",
                )
            )
            self._note(who, "diff run", name, "")
        return self._diffs[name]

    def _ended(self, found: DiffDocument) -> DiffDocument:
        if self.fails:
            steps = (f"lockgate diff resume {found.id}",)
            return dataclasses.replace(
                found, state=DiffState.FAILED, error=self.fails, next_steps=steps
            )
        tables = found.tables
        if self.unequal:
            first = dataclasses.replace(
                tables[0], equal=False, missing=1, extra=1, different=1, samples=SAMPLES
            )
            tables = (first, *tables[1:])
        equal = not self.unequal
        return dataclasses.replace(found, state=DiffState.FINISHED, equal=equal, tables=tables)


def _running(found: DiffDocument) -> DiffDocument:
    return dataclasses.replace(
        found,
        state=DiffState.RUNNING,
        equal=None,
        progress=DiffProgress(250, 1000, 25.0, 1.5),
    )


def _summary(found: DiffDocument) -> DiffSummary:
    return DiffSummary(
        id=found.id,
        state=found.state,
        equal=found.equal,
        source=found.source,
        target=found.target,
        tables=len(found.tables),
        rows=sum(each.rows for each in found.tables),
        unequal=sum(each.missing + each.extra + each.different for each in found.tables),
        seconds=found.seconds,
        feed=found.feed,
        move=found.move,
        repair=found.repair,
        node=found.node,
        started=found.started,
        error=found.error,
    )
