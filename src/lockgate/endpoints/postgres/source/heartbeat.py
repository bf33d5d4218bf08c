"""A sign of life in the source's log, so that the slot of an idle database moves on.

A slot moves when something passes it. In a database where nothing is written, nothing does; and
whoever looks cannot tell an idle source from a stream that is stuck. A logical message is a record
of a few bytes in the log and in no table. pgoutput leaves it out unless asked, so the stream shows
it as a keepalive with a later position.

The record must reach the disk before it is sent. From version 17 on the function can see to that;
before, only a commit does, so there the message is part of a transaction.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import psycopg

from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.source.session import open_control
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import LockgateError
from lockgate.model.ids import FeedId
from lockgate.model.positions import Position

__all__ = ["MESSAGE_PREFIX", "Heartbeat", "beat"]

MESSAGE_PREFIX: Final = "lockgate"
_FLUSH_FROM: Final = 170000

_EMIT: Final = "SELECT (pg_logical_emit_message({}) - '0/0'::pg_lsn)::bigint"


def beat(connection: psycopg.Connection, feed: FeedId) -> Position:
    """Write one message, durably; where the log goes on after it. In autocommit only."""
    flushes = connection.info.server_version >= _FLUSH_FROM
    arguments = "false, %s, %s, true" if flushes else "true, %s, %s"
    with faults(object_=connection.info.dbname, operation="write a heartbeat"):
        row = connection.execute(_EMIT.format(arguments), (MESSAGE_PREFIX, feed)).fetchone()
    assert row is not None
    return int(row[0])


class Heartbeat:
    """Beats when it is time to, on a connection of its own that it opens again when it is lost."""

    def __init__(
        self,
        url: PostgresUrl,
        feed: FeedId,
        every_s: float,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._feed = feed
        self._every_s = every_s
        self._now_s = now_s
        self._due_s = now_s()
        self._connection: psycopg.Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def tick(self) -> Position | None:
        """Beat if it is time: where the log goes on. None when it is not.

        After an error the next beat is due one interval later, like any other.
        """
        now_s = self._now_s()
        if now_s < self._due_s:
            return None
        self._due_s = now_s + self._every_s
        try:
            if self._connection is None or self._connection.closed:
                self._connection = open_control(self._url, f"{self._feed} heartbeat")
            return beat(self._connection, self._feed)
        except LockgateError:
            self.close()
            raise

    def close(self) -> None:
        """End the connection; a later tick opens another."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None
