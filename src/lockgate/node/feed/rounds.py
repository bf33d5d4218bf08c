"""What the next round does: who applies up to where, who only moves, who stands before a DDL.

Pure: dispatchers and the log's tail in, a plan out.

    low ──── changes of the table ──── next DDL that concerns it ──── resolved
         └── apply up to the DDL's position - 1, or to resolved ──┘

A feed that is held at a position goes on as if the log ended there.
"""

from collections.abc import Iterable
from typing import NamedTuple

from lockgate.model.ddl import Ddl
from lockgate.model.positions import Position
from lockgate.node.feed.running import Running
from lockgate.node.feed.tail import LogTail
from lockgate.store.changelog import Segment


class Work(NamedTuple):
    """One span's batch."""

    running: Running
    to: Position
    segments: list[Segment]

    @property
    def rows(self) -> int:
        return sum(segment.rows for segment in self.segments)


class Plan(NamedTuple):
    """One round."""

    apply: list[Work]
    advance: list[tuple[Running, Position]]
    """Nothing of theirs was changed: only the position moves."""
    blocked: list[tuple[Running, Ddl]]

    @property
    def empty(self) -> bool:
        return not (self.apply or self.advance or self.blocked)


def plan(
    running: Iterable[Running],
    tail: LogTail,
    now_s: float,
    rows_max: int,
    upto: Position | None = None,
) -> Plan:
    """The round for all dispatchers that may go on; `upto` is where the feed is held, if it is."""
    out = Plan([], [], [])
    end = tail.resolved if upto is None else min(tail.resolved, upto)
    for one in running:
        if not one.may_go_on(now_s):
            _follow(out, one, tail, end, now_s)
            continue
        low = one.low
        assert low >= tail.after, f"{one.span} stands at {low}, the tail begins after {tail.after}"
        ddl = tail.next_ddl(None if one.is_trigger else one.table, low)
        to = end
        if ddl is not None:
            to = min(to, ddl.position - 1)
        if to > low:
            _take(out, one, tail, to, rows_max)
        elif ddl is not None and ddl.position == low + 1 and ddl.position <= end:
            out.blocked.append((one, ddl))
    return out


def _follow(out: Plan, one: Running, tail: LogTail, end: Position, now_s: float) -> None:
    """A span without rows goes along with the schema only, until it is time to copy."""
    if not one.copying or one.floors is None or one.held or one.blocked or one.waits(now_s):
        return
    low = one.low
    ddl = tail.next_ddl(one.table, low)
    to = min(end, one.advance_to)
    if ddl is not None and ddl.position == low + 1 and ddl.position <= to:
        out.blocked.append((one, ddl))
        return
    if ddl is not None:
        to = min(to, ddl.position - 1)
    if to > low:
        out.advance.append((one, to))


def _take(out: Plan, one: Running, tail: LogTail, to: Position, rows_max: int) -> None:
    low = one.low
    if not one.is_trigger:
        to = tail.cut(one.table, low, to, rows_max)
        segments = tail.segments(one.table, low, to)
        if segments:
            out.apply.append(Work(one, to, segments))
            return
    out.advance.append((one, to))
