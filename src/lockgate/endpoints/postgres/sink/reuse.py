"""A session that outlives its task: small batches spend most of their time in connecting.

A process keeps one idle session per target for the next task that comes along (Spark lets its
Python workers live on). It is handed out to one task at a time and only given back after a commit;
whatever went wrong with a session, nobody gets it again. Idle, it holds no lock and no
transaction, so it is in nobody's way, and it ends with its process.
"""

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg.pq import TransactionStatus

from lockgate.endpoints.postgres.connect import application_name
from lockgate.endpoints.postgres.sink.session import Limits, is_quiet, open_session
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.ids import FeedId, SpanId

__all__ = ["close_idle", "session_for"]

_TARGETS_MAX: Final = 4

_idle: dict[tuple[int, PostgresUrl, Limits | None], psycopg.Connection] = {}
_lock = threading.Lock()


@contextmanager
def session_for(
    url: PostgresUrl, feed: FeedId, span: SpanId, limits: Limits | None = None
) -> Iterator[psycopg.Connection]:
    """A session for one task, which the server shows as `lockgate feed/span`."""
    # A forked child must not speak on its parent's connection.
    key = (os.getpid(), url, limits)
    with _lock:
        connection = _idle.pop(key, None)
    if connection is None or not _renamed(connection, f"{feed}/{span}"):
        connection = open_session(url, feed, span, limits=limits)
    try:
        yield connection
    except BaseException:
        connection.close()
        raise
    if connection.info.transaction_status is not TransactionStatus.IDLE:
        connection.close()
        return
    with _lock:
        # The one that was given back longest ago makes room.
        oldest = next(iter(_idle)) if len(_idle) >= _TARGETS_MAX else key
        left = _idle.pop(oldest, None)
        _idle[key] = connection
    if left is not None:
        left.close()


def close_idle() -> None:
    """End the sessions that are kept."""
    with _lock:
        kept = list(_idle.values())
        _idle.clear()
    for connection in kept:
        connection.close()


atexit.register(close_idle)


def _renamed(connection: psycopg.Connection, purpose: str) -> bool:
    """Give a session its name for the next task. False: it does not live any more."""
    name = application_name(purpose)
    if connection.info.parameter_status("application_name") == name:
        if is_quiet(connection):
            return True
        connection.close()
        return False
    try:
        with connection.pipeline():
            connection.execute("SELECT set_config('application_name', %s, false)", (name,))
            connection.commit()
    except psycopg.Error:
        connection.close()
        return False
    return True
