"""Transactions under way at a server, in whichever of its databases: a new slot waits for them.

The server knows a position to decode its log from when every transaction that was running has
ended. Only those count that have written something, and so have a transaction id; prepared ones
count too, and end only when somebody ends them. They are read from the locks, which every role may
see; since when one is open, a role is told of others' sessions with `pg_read_all_stats` only.
"""

from typing import Final, NamedTuple

import psycopg

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.sink.rows import Cursor
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import LockgateError

__all__ = ["Running", "held_up", "oldest", "running"]

_RUNNING: Final = """
SELECT l.pid, '', coalesce(nullif(a.application_name, ''), 'no application name'),
       coalesce(a.usename, '')::text, coalesce(a.datname, '')::text,
       extract(epoch FROM clock_timestamp() - min(a.xact_start))::float8,
       (array_agg(l.transactionid ORDER BY age(l.transactionid) DESC))[1]::text,
       max(age(l.transactionid)) AS age
  FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
   AND l.pid <> pg_backend_pid()
 GROUP BY 1, 2, 3, 4, 5
UNION ALL
SELECT 0, gid, '', owner::text, database::text,
       extract(epoch FROM clock_timestamp() - prepared)::float8, transaction::text, age(transaction)
  FROM pg_prepared_xacts
 ORDER BY age DESC
"""

_WAITED_FOR: Final = """
SELECT EXISTS (SELECT FROM pg_locks l WHERE NOT l.granted AND %s = ANY (pg_blocking_pids(l.pid)))
"""


class Running(NamedTuple):
    """A transaction that has written something."""

    pid: int
    """0: it is prepared, and has no session."""
    gid: str
    """Of a prepared one."""
    application: str
    user: str
    database: str
    age_s: float | None
    """None where this role is not told."""
    xid: str
    """The next transaction of the same session has another one."""

    def __str__(self) -> str:
        database = self.database and f"database {self.database}"
        where = ", ".join(filter(None, (self.application, database, self.user)))
        who = f"session {self.pid}" if self.pid else f"the prepared transaction {self.gid!r}"
        since = "" if self.age_s is None else f", open for {self.age_s:.0f} s"
        return f"{who} ({where}){since}"

    @property
    def hint(self) -> str:
        """How to end it."""
        if not self.pid:
            gid = self.gid.replace("'", "''")
            return (
                f"in the database {self.database}: COMMIT PREPARED '{gid}', or ROLLBACK PREPARED "
                f"'{gid}'"
            )
        return f"let it end, or end its session: SELECT pg_terminate_backend({self.pid})"


def running(connection: psycopg.Connection | Cursor) -> list[Running]:
    """All of them but one's own, the one that began to write first in front."""
    return [Running(*row[:-1]) for row in connection.execute(_RUNNING).fetchall()]


def held_up(url: PostgresUrl, holder: int) -> tuple[Running | None, bool]:
    """Whom a slot that is being made waits for, and whether anybody waits for a lock of the session
    `holder`. None and False when that cannot be found out."""
    try:
        with (
            connect(url, purpose="look", autocommit=True) as connection,
            faults(object_=url.label, operation="look"),
        ):
            waited_for = connection.execute(_WAITED_FOR, (holder,)).fetchone()
            return next(iter(running(connection)), None), waited_for == (True,)
    except LockgateError:
        return None, False


def oldest(url: PostgresUrl) -> Running | None:
    """Whom a slot that is being made waits for, if that can be found out."""
    return held_up(url, 0)[0]
