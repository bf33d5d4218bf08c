"""PostgreSQL's own logical replication, as it comes: `CREATE SUBSCRIPTION` with the defaults of 18.

That means large transactions are streamed while they run and applied by parallel workers, and the
subscriber's commits do not wait for its disk (`synchronous_commit = off` for a subscription), which
Lockgate's do. `binary` sends values in binary form.
"""

import time
from typing import Final

import psycopg
from psycopg import sql

from bench.rig import orders
from bench.rig.servers import session

_POLL_S: Final = 0.02
_TIMEOUT_S: Final = 1800.0
_SYNCED: Final = "SELECT count(*) > 0 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel"


class Native:
    """One subscription of the table `orders`."""

    def __init__(self, source: str, target: str, *, name: str, binary: bool) -> None:
        self._source = source
        self._target = target
        self._slot = sql.Literal(name)
        self._name = sql.Identifier(name)
        self._binary = sql.Literal(binary)

    def copy(self) -> None:
        """Make table and subscription; returns when the initial sync is through."""
        orders.create(self._target)
        with session(self._source) as connection:
            publication = sql.SQL("CREATE PUBLICATION {} FOR TABLE orders").format(self._name)
            connection.execute(publication)
        with session(self._target) as connection:
            connection.execute(
                sql.SQL(
                    "CREATE SUBSCRIPTION {} CONNECTION {} PUBLICATION {} WITH (binary = {})"
                ).format(self._name, sql.Literal(self._source), self._name, self._binary)
            )
            _until(connection, _SYNCED, "the initial sync did not end")

    def disable(self) -> None:
        """Let a backlog grow; returns when nobody receives any more."""
        self._alter("DISABLE")
        with session(self._source) as connection:
            idle = sql.SQL("SELECT NOT active FROM pg_replication_slots WHERE slot_name = {}")
            _until(connection, idle.format(self._slot), "the subscription did not stop")

    def catch_up(self, last: int) -> None:
        """Go on; returns when the row with the key `last`, the source's last commit, is seen."""
        self._alter("ENABLE")
        with session(self._target) as connection:
            seen = sql.SQL("SELECT EXISTS (SELECT FROM orders WHERE id = {})").format(last)
            _until(connection, seen, "the subscription did not catch up")

    def drop(self) -> None:
        """With its slot and publication."""
        with session(self._target) as connection:
            connection.execute(sql.SQL("DROP SUBSCRIPTION {}").format(self._name))
        with session(self._source) as connection:
            connection.execute(sql.SQL("DROP PUBLICATION {}").format(self._name))

    def _alter(self, how: str) -> None:
        with session(self._target) as connection:
            words = sql.SQL("ALTER SUBSCRIPTION {} {}").format(self._name, sql.SQL(how))
            connection.execute(words)


def _until(connection: psycopg.Connection, query: str | sql.Composed, what: str) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        row = connection.execute(query).fetchone()
        if row is not None and row[0]:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} within {_TIMEOUT_S:g} s")
        time.sleep(_POLL_S)
