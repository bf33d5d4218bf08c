"""Blocking writes to tables that are in use.

    all at once ──────────────────────────────────────────────┐
        │ not had in a moment                                 ▼
        └──► one by one ──► all of them are guarded ──►  picture, then the position

All at once is best: nobody is refused at one table while another is still waited for. It takes all
locks together, though, and where writers take tables in orders of their own, somebody has always
one of them and waits for another, behind us; on a busy system that would never end. One by one it
does: who waits holds nothing, and a writer that comes to a guarded table is refused at once, which
makes him let go of what he has. Tables that are held for long come first, while nobody is refused.

The position comes last. Whoever wrote to a table has committed before its guard was there, for the
guard is put up under a lock that waits for him. So what he wrote lies below.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from lockgate.endpoints.postgres.cutover import triggers
from lockgate.endpoints.postgres.cutover.locks import NO_WRITERS, NotHad, holders, lock
from lockgate.endpoints.postgres.cutover.picture import ddl_seen, picture
from lockgate.endpoints.postgres.cutover.relations import Relation, relations
from lockgate.endpoints.postgres.cutover.row import MoveMark, MoveRow, SideState, write
from lockgate.endpoints.postgres.cutover.standing import conflict, disarm, refuse_others, sweep
from lockgate.endpoints.postgres.cutover.triggers import Guard, GuardKind, Standing
from lockgate.endpoints.postgres.cutover.visit import Visit, clock_us, visiting
from lockgate.endpoints.postgres.sink.rows import Cursor
from lockgate.endpoints.postgres.source.heartbeat import beat
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import EndpointBusy, LockgateError
from lockgate.model.positions import Position
from lockgate.model.secret import Secret
from lockgate.model.tables import TableName

__all__ = ["block"]

_AT_ONCE_S: Final = 0.4
"""How long it is tried to have all tables together."""
_RELEASE_S: Final = 2.0


def block(
    url: PostgresUrl | str | Secret,
    mark: MoveMark,
    tables: Sequence[TableName],
    *,
    moved_to: str,
    deadline_s: float,
    patience_s: float,
) -> Position:
    """Let nobody write to the tables until `deadline_s` from now, by the server's clock.

    Waits for who writes there, `patience_s` at most, and then raises EndpointBusy that names them,
    with nothing left behind. Answers a position behind everything that was written. Done again it
    is another block, with a deadline and a position of its own; the one before cannot be sealed.
    """
    with visiting(url, mark, "block writes") as visit:
        with visit.transaction() as cursor:
            until_us = clock_us(cursor) + round(deadline_s * 1e6)
            # What it costs to read the catalog for the first time is no time of the writers.
            picture(cursor, relations(cursor, tables))
        given = Guard(GuardKind.MOVING, mark.move, mark.birth, until_us, moved_to)
        number = _Block(visit, tables, given, min(patience_s, deadline_s)).put_up()
        visit.connection.autocommit = True
        position = beat(visit.connection, mark.move)
        visit.connection.autocommit = False
        with visit.transaction() as cursor:
            row = _mine(visit, cursor, number)
            write(cursor, row, blocked_at=position)
        return position


class _Block:
    """One attempt to block: the guards are on all tables in the end, or on none."""

    def __init__(
        self, visit: Visit, tables: Sequence[TableName], given: Guard, patience_s: float
    ) -> None:
        self._visit = visit
        self._tables = tables
        self._given = given
        self._until = time.monotonic() + patience_s

    def put_up(self) -> int:
        """The number of the block."""
        try:
            return self._visit.politely(min(_AT_ONCE_S, self._left_s), self._at_once)
        except EndpointBusy as busy:
            if not isinstance(busy.__cause__, NotHad) or self._left_s <= 0:
                raise
        with self._visit.transaction() as cursor:
            number = self._begun(cursor).block
            found = relations(cursor, self._tables)
            refuse_others(cursor, self._visit, found)
            held = {one.table: one.age_s for one in holders(cursor, found, NO_WRITERS)[::-1]}
        try:
            for each in sorted(found, key=lambda one: -held.get(one.table, -1.0)):
                self._one(each, number)
            self._visit.politely(self._left_s, lambda cursor: self._all_there(cursor, number))
        except LockgateError:
            self._release(number)
            raise
        return number

    @property
    def _left_s(self) -> float:
        return self._until - time.monotonic()

    def _at_once(self, cursor: Cursor) -> int:
        row = self._begun(cursor)
        found = self._visit.locked(cursor, self._tables, NO_WRITERS)
        refuse_others(cursor, self._visit, found)
        self._put(cursor, found)
        return self._pictured(cursor, row, found)

    def _begun(self, cursor: Cursor) -> MoveRow:
        """It is recorded before a guard is there: whoever comes after finds what to take down."""
        row = self._visit.row(cursor)
        if row.state.is_closed:
            raise conflict(
                self._visit, f"the tables are {row.state.value}: another side has the traffic"
            )
        return write(
            cursor,
            row,
            state=SideState.BLOCKED,
            block=row.block + 1,
            moved_to=self._given.other,
            until_us=self._given.until_us,
            blocked_at=None,
            picture=None,
        )

    def _one(self, relation: Relation, number: int) -> None:
        def attempt(cursor: Cursor) -> None:
            _mine(self._visit, cursor, number)
            # It holds nothing else, so it may wait for longer than what is polite with many.
            lock(cursor, [relation], NO_WRITERS, 2 * self._visit.budget_s(cursor))
            self._put(cursor, [relation])

        self._visit.politely(self._left_s, attempt)

    def _put(self, cursor: Cursor, found: Sequence[Relation]) -> None:
        if clock_us(cursor) >= (self._given.until_us or 0):
            raise EndpointBusy(
                "the deadline was over before the tables were had",
                object_=f"{self._visit.mark}, {self._visit.label}",
                hint="nothing was changed; try again with more time",
                operation=self._visit.operation,
            )
        triggers.put(cursor, found, self._given)

    def _all_there(self, cursor: Cursor, number: int) -> None:
        """Who alters a table now is waited for, too: what he does shall be in the picture."""
        row = _mine(self._visit, cursor, number)
        found = self._visit.locked(cursor, self._tables, NO_WRITERS)
        there = triggers.standing(cursor, found)
        self._put(cursor, [each for each in found if not self._is_on(there.get(each.oid))])
        self._pictured(cursor, row, found)

    def _is_on(self, one: Standing | None) -> bool:
        """False for a partition that has come meanwhile."""
        return one is not None and one.always and one.guard.until_us == self._given.until_us

    def _pictured(self, cursor: Cursor, row: MoveRow, found: Sequence[Relation]) -> int:
        seen = picture(cursor, found), ddl_seen(cursor)
        return write(cursor, row, picture=seen[0], ddl_seen=seen[1]).block

    def _release(self, number: int) -> None:
        """Nothing is left behind; and if that fails as well, the deadline sees to it."""

        def each_alone(relation: Relation) -> None:
            def attempt(cursor: Cursor) -> None:
                _mine(self._visit, cursor, number)
                lock(cursor, [relation], NO_WRITERS, self._visit.budget_s(cursor))
                disarm(cursor, self._visit, [relation])

            self._visit.politely(_RELEASE_S, attempt)

        with suppress(LockgateError):
            with self._visit.transaction() as cursor:
                found = relations(cursor, self._tables, skip_missing=True)
                guarded = triggers.standing(cursor, found)
            for relation in found:
                if relation.oid in guarded:
                    each_alone(relation)
            with self._visit.transaction() as cursor:
                write(cursor, _mine(self._visit, cursor, number), state=SideState.OPEN)
            sweep(self._visit, self._tables)


def _mine(visit: Visit, cursor: Cursor, number: int) -> MoveRow:
    row = visit.row(cursor)
    if row.state is not SideState.BLOCKED or row.block != number:
        raise conflict(visit, "somebody else ended this block")
    return row
