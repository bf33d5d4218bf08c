"""Sessions at the sink, for owners and for tasks.

A session that is forgotten must not hold a row for ever, and a role's or a database's defaults
must not weaken the fence. So every session says for itself: read committed (whoever waited for a
row reads what it says *now*), commits that survive the server's crash (the change log is cut
behind the recorded position), an end to transactions that stand idle, an end to waiting for locks.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psycopg

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.sink.rows import Cursor
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.endpoints.postgres.waiting import readable
from lockgate.model.ids import FeedId, SpanId
from lockgate.model.secret import Secret
from lockgate.model.value import Value

__all__ = ["Limits", "Sessions", "is_quiet", "open_session"]

_IDLE_MAX: Final = 4
"""Sessions of an owner that are kept open between two verbs."""


class Limits(Value, frozen=True):
    """How long is waited at a sink."""

    grace_s: float = 10.0
    """A claim or a close waits this long for whoever is inside, and then ends them."""
    patience_s: float = 60.0
    """After the grace, nobody waits longer than this for a lock, whoever holds it."""
    idle_s: float = 60.0
    """A transaction in which nothing is said for so long is ended by the server."""


def open_session(
    url: PostgresUrl | str | Secret,
    feed: FeedId,
    span: SpanId,
    *,
    limits: Limits | None = None,
    autocommit: bool = False,
    applies: bool = True,
) -> psycopg.Connection:
    """A session for a task's transaction at the sink; the server shows `lockgate feed/span`. One
    that does not write for a feed, under its fence, is no more than anybody: `applies` is false."""
    return _open(url, f"{feed}/{span}", limits or Limits(), autocommit, applies)


def _open(
    url: PostgresUrl | str | Secret,
    purpose: str,
    limits: Limits,
    autocommit: bool,
    applies: bool = True,
) -> psycopg.Connection:
    connection = connect(
        url,
        purpose=purpose,
        autocommit=True,
        options={
            "default_transaction_isolation": "read committed",
            "default_transaction_read_only": "off",
            "idle_in_transaction_session_timeout": _milliseconds(limits.idle_s),
            "idle_session_timeout": "0",
            "lock_timeout": _milliseconds(limits.grace_s + limits.patience_s),
            "statement_timeout": "0",
            "tcp_keepalives_idle": "10",
            "tcp_keepalives_interval": "5",
            "tcp_keepalives_count": "3",
            # Guards of a move let feeds pass (`cutover/triggers`).
            "lockgate.applies": "on" if applies else "off",
        },
    )
    label = PostgresUrl.parse(url).label
    try:
        with faults(object_=label, operation=f"connect ({purpose})"):
            # Only `off` is too little: `remote_apply` and its like are somebody's choice.
            connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
            connection.autocommit = autocommit
    except BaseException:
        connection.close()
        raise
    return connection


def _milliseconds(seconds: float) -> str:
    """As a setting. Never 0, which would mean for ever."""
    return str(max(1, round(seconds * 1000)))


class Sessions:
    """The sessions of one owner, handed out one per transaction. Any thread may ask."""

    def __init__(self, url: PostgresUrl | str | Secret, limits: Limits) -> None:
        self.url = PostgresUrl.parse(url)
        self.limits = limits
        self._idle: deque[psycopg.Connection] = deque()
        self._closed = False

    @property
    def label(self) -> str:
        """The target, for people."""
        return self.url.label

    def open(self, purpose: str, *, autocommit: bool = False) -> psycopg.Connection:
        """A session that is not handed out again."""
        return _open(self.url, purpose, self.limits, autocommit)

    @contextmanager
    def transaction(self, operation: str, object_: str = "") -> Iterator[Cursor]:
        """One transaction: committed at the end, rolled back by any exception.

        Errors of the driver come out as Lockgate's. If the connection is lost in the COMMIT, that
        is `OutcomeUnknown`: whoever catches it claims again and learns.
        """
        about = f"{object_}, {self.label}" if object_ else self.label
        connection = self._take()
        try:
            with faults(object_=about, operation=operation), connection.cursor() as cursor:
                yield cursor
            with faults(object_=about, operation=operation, committing=True):
                connection.commit()
        except BaseException:
            with suppress(psycopg.Error):
                connection.rollback()
            raise
        finally:
            self._give_back(connection)

    def close(self) -> None:
        """End all sessions that are not in use; the others end when they are given back."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> psycopg.Connection:
        with suppress(IndexError):
            while True:
                connection = self._idle.pop()
                if is_quiet(connection):
                    return connection
                connection.close()
        return self.open("sink")

    def _give_back(self, connection: psycopg.Connection) -> None:
        if self._closed or connection.closed or len(self._idle) >= _IDLE_MAX:
            connection.close()
        else:
            self._idle.append(connection)


def is_quiet(connection: psycopg.Connection) -> bool:
    """Nothing has come from the server meanwhile. What would come unasked is its farewell."""
    return not connection.closed and not readable(connection, 0)
