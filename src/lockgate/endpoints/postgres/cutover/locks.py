"""Locking tables that are in use, without harm to who uses them.

Who waits for a lock has everybody else waiting behind, and who holds one while waiting for another
can be part of a deadlock. Both are kept short: all tables are locked in one statement, in one fixed
order, within half of the server's `deadlock_timeout`. What was not had by then is given back before
the server looks for a deadlock, and so before it ends somebody's transaction because of us. After a
pause, in which those who waited get their turn, it is tried again.

One thing needs the opposite. An autovacuum gives way to whoever waits for its table, but only when
that one has waited for `deadlock_timeout`. So where nothing but an autovacuum is in the way, its
table is waited for that long, alone: who holds nothing else is in no deadlock.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.cutover.relations import Relation
from lockgate.endpoints.postgres.schema.identifiers import identifier
from lockgate.endpoints.postgres.sink.rows import Cursor
from lockgate.model.tables import TableName

__all__ = ["ALONE", "NO_WRITERS", "Holder", "NotHad", "attempted", "holders", "lock"]

NO_WRITERS: Final = "SHARE ROW EXCLUSIVE"
"""What a trigger is made under: nobody writes, readers go on."""
ALONE: Final = "ACCESS EXCLUSIVE"
"""What a table is renamed or dropped under: nobody else is at it."""

_WRITING: Final = (
    "RowExclusiveLock",
    "ShareUpdateExclusiveLock",
    "ShareLock",
    "ShareRowExclusiveLock",
    "ExclusiveLock",
    "AccessExclusiveLock",
)
_READING: Final = ("AccessShareLock", "RowShareLock")

_HOLDERS: Final = """
SELECT n.nspname::text, c.relname::text, coalesce(l.pid, 0), coalesce(a.application_name, ''),
       coalesce(a.state, ''), to_char(a.xact_start, 'YYYY-MM-DD HH24:MI:SS'),
       coalesce(extract(epoch FROM clock_timestamp() - a.xact_start), 0)::float8,
       coalesce(a.backend_type = 'autovacuum worker', false)
FROM pg_locks l
JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.granted AND l.relation = ANY (%s) AND l.mode = ANY (%s)
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.pid IS DISTINCT FROM pg_backend_pid()
ORDER BY 6 NULLS LAST, 3, 1, 2
"""


class Holder(NamedTuple):
    """Who holds a table."""

    table: TableName
    pid: int
    """0 is a prepared transaction: there is no session, and it ends when somebody ends it."""
    application: str
    state: str
    since: str | None
    """The start of its transaction; None where this role is not told."""
    age_s: float
    is_autovacuum: bool

    def __str__(self) -> str:
        if not self.pid:
            return f"a prepared transaction holds {self.table}"
        who = "an autovacuum" if self.is_autovacuum else self.application or "no application name"
        since = f", {self.state} since {self.since}" if self.since else ""
        return f"session {self.pid} ({who}{since}) holds {self.table}"


class NotHad(Exception):
    """The locks were not had in time. Never leaves this package."""

    def __init__(self, relations: Sequence[Relation], mode: str) -> None:
        super().__init__(mode)
        self.relations = relations
        self.mode = mode


def lock(cursor: Cursor, relations: Sequence[Relation], mode: str, within_s: float) -> None:
    """Lock all of them, or raise NotHad when `within_s` is over; the transaction is lost then."""
    # Each by itself: partitions are in the list, and heirs are other tables.
    names = [sql.SQL("ONLY {}").format(identifier(each.table)) for each in relations]
    if names:
        statement = sql.SQL("LOCK TABLE {} IN {} MODE").format(
            sql.SQL(", ").join(names), sql.SQL(mode)
        )
        attempted(cursor, statement, relations, mode, within_s)


def attempted(
    cursor: Cursor,
    statement: sql.Composed,
    relations: Sequence[Relation],
    mode: str,
    within_s: float,
) -> None:
    """A statement that locks relations, or NotHad when `within_s` is over."""
    _limit(cursor, max(1, round(within_s * 1000)))
    try:
        cursor.execute(statement)
    except (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable) as error:
        raise NotHad(relations, mode) from error
    _limit(cursor, 0)


def _limit(cursor: Cursor, milliseconds: int) -> None:
    """Of the whole statement: the limit on locks counts for each of them anew."""
    cursor.execute("SELECT set_config('statement_timeout', %s, true)", (str(milliseconds),))


def holders(cursor: Cursor, relations: Sequence[Relation], mode: str) -> list[Holder]:
    """Who has what keeps a lock of this mode away, the oldest first."""
    modes = [*_WRITING, *(_READING if mode == ALONE else ())]
    found = cursor.execute(_HOLDERS, ([each.oid for each in relations], modes))
    return [Holder(TableName(row[0], row[1]), *row[2:]) for row in found]
