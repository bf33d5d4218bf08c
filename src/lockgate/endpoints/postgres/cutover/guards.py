"""Guards: block writes until a deadline, seal, unblock; close a side that is not open yet, open it.

What keeps the promise of a seal:

- A writer has its lock on the table (ROW EXCLUSIVE) *before* the guard is asked, and until its
  transaction ends. Who has the tables locked against writers is alone with them: nobody is between
  the guard's answer and his commit.
- A guard lets a writer through when the deadline is over, by the server's clock.
- The seal looks at that clock once it has the locks. If the deadline is not over then, it was not
  over for anybody before: nobody was let through. And until the seal commits, nobody can ask.

The margin is for clocks that are set back meanwhile, by less than that.
"""

from collections.abc import Sequence
from typing import Final

from lockgate.endpoints.postgres.cutover import triggers
from lockgate.endpoints.postgres.cutover.blocking import block
from lockgate.endpoints.postgres.cutover.locks import NO_WRITERS, NotHad, lock
from lockgate.endpoints.postgres.cutover.picture import logged_since, picture
from lockgate.endpoints.postgres.cutover.relations import Relation, relations
from lockgate.endpoints.postgres.cutover.row import MoveMark, MoveRow, SideState, write
from lockgate.endpoints.postgres.cutover.standing import (
    conflict,
    disarm,
    is_of,
    refuse_others,
    sweep,
)
from lockgate.endpoints.postgres.cutover.triggers import Guard, GuardKind, Standing
from lockgate.endpoints.postgres.cutover.visit import PATIENCE_S, Visit, clock_us, visiting
from lockgate.endpoints.postgres.sink.rows import Cursor
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import EndpointBusy, ObjectMissing
from lockgate.model.positions import Position
from lockgate.model.secret import Secret
from lockgate.model.tables import TableName

__all__ = ["block", "guard", "is_sealed", "open_tables", "seal", "unblock"]

_GUARD_WAIT_S: Final = 10.0


# --- the giving side ------------------------------------------------------------------------------


def seal(
    url: PostgresUrl | str | Secret,
    mark: MoveMark,
    tables: Sequence[TableName],
    *,
    blocked_at: Position,
    margin_s: float = 0.5,
) -> bool:
    """Make the block's guard permanent: the point of no return. True: it is sealed.

    False: this block is not sealed and never will be, because its deadline is (nearly) over, the
    tables were changed behind its position, or it is not the last one. Asked again it says the
    same.
    """
    with visiting(url, mark, "seal") as visit:
        with visit.transaction() as cursor:
            row = visit.row(cursor)
            left_us = (row.until_us or 0) - clock_us(cursor)
        if row.state is SideState.SEALED:
            return _sealed(visit, row, blocked_at)

        def attempt(cursor: Cursor) -> bool:
            row = visit.row(cursor)
            if row.state is SideState.SEALED:
                return _sealed(visit, row, blocked_at)
            if row.state is not SideState.BLOCKED or row.blocked_at != blocked_at:
                return False
            try:
                found = visit.locked(cursor, tables, NO_WRITERS)
            except ObjectMissing:
                return _void(cursor, row)
            if not _holds(cursor, row, found, margin_s):
                return _void(cursor, row)
            triggers.put(
                cursor, found, Guard(GuardKind.MOVED, mark.move, mark.birth, None, row.moved_to)
            )
            write(cursor, row, state=SideState.SEALED)
            return True

        try:
            return visit.politely(left_us / 1e6 - margin_s, attempt)
        except EndpointBusy as busy:
            if not isinstance(busy.__cause__, NotHad):
                raise
        with visit.transaction() as cursor:
            row = visit.row(cursor)
            if row.state is SideState.BLOCKED and row.blocked_at == blocked_at:
                _void(cursor, row)
        return False


def _sealed(visit: Visit, row: MoveRow, blocked_at: Position) -> bool:
    if row.blocked_at != blocked_at:
        raise conflict(visit, f"another block is sealed here, of position {row.blocked_at}")
    return True


def _void(cursor: Cursor, row: MoveRow) -> bool:
    """Nobody can seal this block any more, whatever becomes of clocks and tables."""
    write(cursor, row, blocked_at=None)
    return False


def _holds(cursor: Cursor, row: MoveRow, found: list[Relation], margin_s: float) -> bool:
    """Nobody can have written, and the tables are what they were. Asked under the locks."""
    if row.until_us is None or clock_us(cursor) + round(margin_s * 1e6) >= row.until_us:
        return False
    there = triggers.standing(cursor, found)
    for each in found:
        one = there.get(each.oid)
        if one is None or not one.always or not is_of(one.guard, MoveMark(row.move, row.birth, 0)):
            return False
        if one.guard.until_us != row.until_us:
            return False
    if logged_since(cursor, found, row.ddl_seen):
        return False
    return picture(cursor, found) == row.picture


def is_sealed(url: PostgresUrl | str | Secret, mark: MoveMark) -> bool:
    """Whether the side is sealed. From now on no keeper before this one can seal it."""
    with visiting(url, mark, "ask for the seal") as visit, visit.transaction() as cursor:
        return visit.row(cursor).state is SideState.SEALED


def unblock(url: PostgresUrl | str | Secret, mark: MoveMark, tables: Sequence[TableName]) -> None:
    """Let writers in again. Refuses, with Conflict, when the side is sealed."""
    with visiting(url, mark, "unblock writes") as visit:

        def attempt(cursor: Cursor) -> None:
            row = visit.row(cursor)
            if row.state is SideState.SEALED:
                raise conflict(visit, "it is sealed: the traffic is at the other side")
            if row.state is not SideState.BLOCKED:
                return
            found = visit.locked(cursor, tables, NO_WRITERS, skip_missing=True)
            disarm(cursor, visit, found)
            write(cursor, row, state=SideState.OPEN, blocked_at=None)

        try:
            visit.politely(PATIENCE_S, attempt)
        except EndpointBusy as busy:
            if not isinstance(busy.__cause__, NotHad) or not _ran_out(visit):
                raise
        sweep(visit, tables)


def _ran_out(visit: Visit) -> bool:
    """True when the deadline is over: everybody is let in, whether the guard is there or not."""
    with visit.transaction() as cursor:
        row = visit.row(cursor)
        if row.state is not SideState.BLOCKED or clock_us(cursor) < (row.until_us or 0):
            return False
        write(cursor, row, state=SideState.OPEN, blocked_at=None)
        return True


# --- the taking side ------------------------------------------------------------------------------


def guard(
    url: PostgresUrl | str | Secret,
    mark: MoveMark,
    tables: Sequence[TableName],
    *,
    at: str,
    skip_missing: bool = False,
    patience_s: float = 6 * PATIENCE_S,
) -> None:
    """Let nobody but Lockgate write to the tables, until they are opened; they are `at` there.

    One relation at a time: a copy may be writing there for long, and who holds nothing else may
    wait for it. A feed gives the partitions that it makes later their table's guard; one that
    anybody else made has none of its own until this is done again, for which a side that was
    sealed may be guarded, too.
    """
    with visiting(url, mark, "guard tables") as visit:
        # Again: a partition that came meanwhile may have come before its table had a guard.
        while True:
            with visit.transaction() as cursor:
                row = _unless_open(cursor, visit)
                found = relations(cursor, tables, skip_missing=skip_missing)
                refuse_others(cursor, visit, found)
                there = triggers.standing(cursor, found)
                lacking = [each for each in found if not _is_closed(there.get(each.oid))]
                if not lacking:
                    if row.state is SideState.NEW:
                        write(cursor, row, state=SideState.GUARDED)
                    return
            for each in lacking:

                def attempt(cursor: Cursor, each: Relation = each) -> None:
                    row = _unless_open(cursor, visit)
                    lock(cursor, [each], NO_WRITERS, _GUARD_WAIT_S)
                    sealed = row.state is SideState.SEALED
                    kind = GuardKind.MOVED if sealed else GuardKind.NOT_OPEN
                    triggers.put(cursor, [each], Guard(kind, mark.move, mark.birth, None, at))

                visit.politely(patience_s, attempt)


def _is_closed(one: Standing | None) -> bool:
    return one is not None and one.always and one.guard.until_us is None


def _unless_open(cursor: Cursor, visit: Visit) -> MoveRow:
    """The row of a side that may be closed."""
    row = visit.row(cursor)
    if row.state is not SideState.NEW and not row.state.is_closed:
        raise conflict(visit, f"the tables are {row.state.value} here: this side has the traffic")
    return row


def open_tables(
    url: PostgresUrl | str | Secret, mark: MoveMark, tables: Sequence[TableName]
) -> None:
    """Let everybody write to the tables, all at once: the traffic is here."""
    with visiting(url, mark, "open tables") as visit:

        def attempt(cursor: Cursor) -> None:
            row = visit.row(cursor)
            if row.state is SideState.OPEN:
                return
            if row.state is SideState.BLOCKED:
                raise conflict(visit, "the tables are blocked: this side gives the traffic away")
            found = visit.locked(cursor, tables, NO_WRITERS)
            disarm(cursor, visit, found)
            write(cursor, row, state=SideState.OPEN, blocked_at=None)

        visit.politely(PATIENCE_S, attempt)
        sweep(visit, tables)
