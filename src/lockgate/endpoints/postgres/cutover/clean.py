"""What a move leaves at a side when it is over: nothing, or what is named.

Guards go, then the row. If nothing else of Lockgate's is in the schema, the schema goes with it;
else the row stays as a mark that the move is over (`row.py`). Asked again, it answers the same.

The row is had before anybody looks, also where there was none: a guard that a former keeper puts up
at that moment would else not be seen, and one that is put up later meets no mark. Nobody would take
it down any more.
"""

from collections.abc import Sequence
from typing import Final

import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.cutover import triggers
from lockgate.endpoints.postgres.cutover.locks import ALONE, attempted, lock
from lockgate.endpoints.postgres.cutover.relations import Relation, relations
from lockgate.endpoints.postgres.cutover.row import (
    SCHEMA_LOCK,
    MoveMark,
    SideState,
    may_be_made,
    read,
    write,
)
from lockgate.endpoints.postgres.cutover.triggers import FUNCTIONS, Standing
from lockgate.endpoints.postgres.cutover.visit import PATIENCE_S, Visit, visiting
from lockgate.endpoints.postgres.sink.rows import Cursor
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.secret import Secret
from lockgate.model.tables import TableName

__all__ = ["clean"]

_OTHERS: Final = """
SELECT CASE WHEN c.relkind IN ('r', 'p') THEN 'table ' ELSE 'relation ' END || c.relname
FROM pg_class c WHERE c.relnamespace = to_regnamespace('lockgate')
  AND c.relkind NOT IN ('i', 'I', 't', 'S', 'c') AND c.relname <> 'moves'
UNION ALL
SELECT 'function ' || p.proname FROM pg_proc p
WHERE p.pronamespace = to_regnamespace('lockgate') AND p.proname <> ALL (%s)
UNION ALL
SELECT 'another move, ' || m.move FROM lockgate.moves m
WHERE (m.move, m.birth) <> (%s, %s)
ORDER BY 1
"""
_FORGET: Final = """
DELETE FROM lockgate.moves WHERE state = 'over' AND changed < clock_timestamp() - interval '30 days'
"""
"""Nobody is paused for so long and works on."""


def clean(
    url: PostgresUrl | str | Secret,
    mark: MoveMark,
    tables: Sequence[TableName],
    *,
    keep_guards: bool,
) -> list[str]:
    """Take everything of the move away from a side. Answers what stays, in words.

    With `keep_guards`, the guards on `tables` and on their partitions stay, and go on telling
    writers where these are.
    """
    with visiting(url, mark, "clean a side") as visit:
        with visit.transaction() as cursor:
            over = _is_over(cursor, visit)
            guards = _ours(cursor, mark)
            found = relations(cursor, tables, skip_missing=True) if keep_guards else []
        if over:
            return _stays(visit, guards)
        kept = {each.oid for each in found}
        for one in guards:
            if one.oid not in kept or not one.guard.is_armed:
                _take_down(visit, one)
        visit.politely(PATIENCE_S, lambda cursor: _end(cursor, visit))
        with visit.transaction() as cursor:
            guards = _ours(cursor, mark)
        return _stays(visit, guards)


def _is_over(cursor: Cursor, visit: Visit) -> bool:
    """Nothing is to be done: the move is over here, or nobody can have been here. Else no keeper
    before this one does anything here any more."""
    if read(cursor, visit.mark.move, visit.mark.birth) is None and not may_be_made(cursor):
        return True
    return visit.row(cursor, over=True).state is SideState.OVER


def _ours(cursor: Cursor, mark: MoveMark) -> list[Standing]:
    found = triggers.standing_anywhere(cursor)
    return [one for one in found if (one.guard.move, one.guard.birth) == (mark.move, mark.birth)]


def _take_down(visit: Visit, one: Standing) -> None:
    relation = Relation(one.relation, one.oid, one.relation)

    def attempt(cursor: Cursor) -> None:
        visit.row(cursor)
        if one.oid not in triggers.standing(cursor, [relation]):
            return
        lock(cursor, [relation], ALONE, visit.budget_s(cursor))
        triggers.drop(cursor, [one.relation])

    visit.politely(3 * PATIENCE_S, attempt)


def _end(cursor: Cursor, visit: Visit) -> None:
    """Nobody is at the rows while this is decided: who comes to them meanwhile waits."""
    cursor.execute("SELECT pg_advisory_xact_lock(%s)", (SCHEMA_LOCK,))
    attempted(
        cursor,
        sql.SQL("LOCK TABLE lockgate.moves IN ACCESS EXCLUSIVE MODE").format(),
        [],
        ALONE,
        PATIENCE_S / 2,
    )
    row = visit.row(cursor)
    mark = visit.mark
    others = cursor.execute(_OTHERS, (list(FUNCTIONS), mark.move, mark.birth)).fetchall()
    guarded = bool(triggers.standing_anywhere(cursor))
    if others or guarded:
        write(cursor, row, state=SideState.OVER)
        cursor.execute(_FORGET)
        return
    cursor.execute("DROP TABLE lockgate.moves")
    for name, arguments in (("guard", ""), ("guard_always", "oid[]")):
        cursor.execute(
            sql.SQL("DROP FUNCTION lockgate.{}({})").format(
                sql.Identifier(name), sql.SQL(arguments)
            )
        )
    try:
        with cursor.connection.transaction():
            cursor.execute("DROP SCHEMA lockgate")
    except (psycopg.errors.DependentObjectsStillExist, psycopg.errors.InsufficientPrivilege):
        pass  # others made it, or moved in


def _stays(visit: Visit, guards: Sequence[Standing]) -> list[str]:
    found = [
        f"the guard on {one.relation}: it refuses all writes"
        for one in guards
        if one.guard.is_armed
    ]
    with visit.transaction() as cursor:
        there = cursor.execute(
            "SELECT c.relname::text FROM pg_namespace n LEFT JOIN pg_class c "
            "ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p') "
            "WHERE n.nspname = 'lockgate' ORDER BY 1"
        ).fetchall()
    if there:
        names = ", ".join(name for (name,) in there if name)
        found.append(f"the schema lockgate{f' with {names}' if names else ''}")
    return found
