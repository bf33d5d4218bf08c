"""What becomes of tables that a move leaves behind: renamed or dropped, once, by a record.

By then nobody can apply to them: the feed that did is removed, with its tombstone at the sink. And
nobody else writes to them: a side is only disposed of while its guards stand (or, of a target that
was made and never guarded, before it was ever opened). A table of the same name that somebody made
in the meantime has no guard, and is not touched. Where there never was one, and no feed to fill the
tables, only what was made for the move and is still empty can be its own.

Which tables were done is written to the move's row in the same transaction, so a repetition finds
them done, whatever is called by their names now.
"""

from collections.abc import Callable, Collection, Sequence

import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.cutover import triggers
from lockgate.endpoints.postgres.cutover.locks import ALONE, attempted
from lockgate.endpoints.postgres.cutover.relations import Relation
from lockgate.endpoints.postgres.cutover.row import MoveMark, MoveRow, SideState, write
from lockgate.endpoints.postgres.cutover.visit import PATIENCE_S, Visit, visiting
from lockgate.endpoints.postgres.schema.identifiers import identifier, set_aside
from lockgate.endpoints.postgres.sink.rows import Cursor
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import Conflict
from lockgate.model.ids import TableId
from lockgate.model.secret import Secret
from lockgate.model.tables import TableName

__all__ = ["drop", "rename"]

_GONE = "was not there any more"
_NOT_MADE = "was not made by the move, and is left alone"
_FILLED = "has rows that are not the move's, and is kept"


def rename(
    url: PostgresUrl | str | Secret, mark: MoveMark, tables: Sequence[TableName]
) -> list[str]:
    """Rename the tables to `_<name>_old`, and take their guards away. Answers what was done.

    Indexes, constraints, owned sequences and partitions stay with the table under their names, and
    so do views and foreign keys of others. Refuses, with Conflict, a name that is in use.
    """

    def work(cursor: Cursor, visit: Visit, found: Sequence[Relation]) -> dict[str, str]:
        done = {}
        # Renamed first, the table would not be found under the name that its guard is dropped by.
        triggers.drop(cursor, [each.table for each in found])
        for root in _roots(found):
            new = set_aside(root)
            try:
                cursor.execute(
                    sql.SQL("ALTER TABLE {} RENAME TO {}").format(
                        identifier(root), sql.Identifier(new.name)
                    )
                )
            except (psycopg.errors.DuplicateTable, psycopg.errors.DuplicateObject) as error:
                raise Conflict(
                    f"the name {new} is in use",
                    object_=f"{root}, {visit.label}",
                    hint=f"rename or drop {new}, or complete with --drop or --keep",
                    operation=visit.operation,
                    cause=error,
                ) from error
            done[root.id] = f"is {new} now"
        return done

    return _dispose(url, mark, tables, "rename tables", (SideState.SEALED,), work)


def drop(
    url: PostgresUrl | str | Secret,
    mark: MoveMark,
    tables: Sequence[TableName],
    *,
    made: Collection[TableId] | None = None,
) -> list[str]:
    """Drop the tables, together. Refuses, with Conflict, what something else depends on.

    `made`: at a side that was never guarded and that no feed ever wrote to, the tables that were
    made for the move. Others stay, and so does one of them that has rows: they are somebody's.
    """

    def work(cursor: Cursor, visit: Visit, found: Sequence[Relation]) -> dict[str, str]:
        roots = _roots(found)
        if not roots:
            return {}
        statement = sql.SQL("DROP TABLE {}").format(sql.SQL(", ").join(map(identifier, roots)))
        try:
            # It also locks the tables that foreign keys lead to, which stay.
            attempted(cursor, statement, found, ALONE, visit.budget_s(cursor))
        except psycopg.errors.DependentObjectsStillExist as error:
            raise Conflict(
                "something else depends on the tables, and would be dropped with them",
                object_=f"{', '.join(map(str, roots[:5]))}, {visit.label}",
                hint=f"drop it first, or keep or rename the tables; {error.diag.message_detail}",
                operation=visit.operation,
                cause=error,
            ) from error
        return {root.id: "is dropped" for root in roots}

    states = (SideState.SEALED, SideState.GUARDED, SideState.NEW)
    return _dispose(url, mark, tables, "drop tables", states, work, made)


_Work = Callable[[Cursor, Visit, Sequence[Relation]], dict[str, str]]


def _dispose(
    url: PostgresUrl | str | Secret,
    mark: MoveMark,
    tables: Sequence[TableName],
    operation: str,
    states: Sequence[SideState],
    work: _Work,
    made: Collection[TableId] | None = None,
) -> list[str]:
    with visiting(url, mark, operation) as visit:

        def attempt(cursor: Cursor) -> MoveRow:
            row = visit.row(cursor)
            todo = [table for table in tables if table.id not in row.disposed]
            if not todo:
                return row
            if row.state not in states:
                raise Conflict(
                    f"the tables are {row.state.value} here: they may be in use",
                    object_=f"{mark}, {visit.label}",
                    hint="nothing was changed; see lockgate move status",
                    operation=operation,
                )
            empty = made if row.state is SideState.NEW else None
            ours = [table for table in todo if empty is None or table.id in empty]
            found = visit.locked(cursor, ours, ALONE, skip_missing=True)
            _refuse_strangers(cursor, visit, row, found)
            filled = () if empty is None else _filled(cursor, _roots(found))
            done = {table.id: _NOT_MADE for table in todo}
            done |= {table.id: _GONE for table in ours}
            done |= {table.id: _FILLED for table in filled}
            done |= work(cursor, visit, [each for each in found if each.root not in filled])
            return write(cursor, row, disposed=row.disposed | done)

        row = visit.politely(3 * PATIENCE_S, attempt)
    return [f"{table} {row.disposed[table.id]}" for table in tables]


def _refuse_strangers(
    cursor: Cursor, visit: Visit, row: MoveRow, found: Sequence[Relation]
) -> None:
    """Tables that are not those that the move has closed."""
    there = triggers.standing(cursor, found)
    for each in found:
        if each.table != each.root:
            continue
        one = there.get(each.oid)
        ours = one is not None and (one.guard.move, one.guard.birth) == (row.move, row.birth)
        if ours and one is not None and one.guard.until_us is None:
            continue
        if one is None and row.state is SideState.NEW:
            continue
        raise Conflict(
            f"{each.table} has no guard of this move: it is not the table that was closed",
            object_=f"{visit.mark}, {visit.label}",
            hint="nothing was changed; see who made it, and keep the tables if it is in use",
            operation=visit.operation,
        )


def _filled(cursor: Cursor, tables: Sequence[TableName]) -> Sequence[TableName]:
    """Those that have rows."""
    query = sql.SQL("SELECT EXISTS (SELECT FROM {})")
    return [
        table
        for table in tables
        if cursor.execute(query.format(identifier(table))).fetchone() == (True,)
    ]


def _roots(found: Sequence[Relation]) -> list[TableName]:
    return list(dict.fromkeys(each.root for each in found))
