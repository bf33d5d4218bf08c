"""Turns at a database: of those who would make or remove the same things, one at a time.

    take the turn ──► ask the record whether it is still one's own work ──► work ──► give it back

A turn alone proves nothing, for whoever has it may be paused, and the next one does not wait for
ever: after a grace he has the server end the holder's connection. From then on the holder can do
nothing there, whenever he wakes up. And who gets the turn late asks the record only after he has
it: whoever was to come after him has changed the record before he took his own turn.
"""

import contextlib
import hashlib
import time
from collections.abc import Iterator
from typing import Final

import psycopg

from lockgate.endpoints.postgres.faults import faults
from lockgate.model.errors import EndpointBusy

__all__ = ["taken"]

_POLL_S: Final = 0.05
_ENDING_S: Final = 10.0
"""How long the server may take to end a connection that it was told to end."""

_END: Final = """
SELECT pg_terminate_backend(a.pid)
  FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND l.classid::bigint = %s AND l.objid::bigint = %s
   AND a.application_name LIKE 'lockgate %%'
"""


@contextlib.contextmanager
def taken(connection: psycopg.Connection, what: str, grace_s: float) -> Iterator[None]:
    """Have the turn for `what`, on a connection in autocommit; raises EndpointBusy when whoever has
    it can neither be waited for nor ended."""
    key = int.from_bytes(hashlib.blake2b(what.encode(), digest_size=8).digest(), signed=True)
    with faults(object_=what, operation="take a turn"):
        _take(connection, what, key, grace_s)
    try:
        yield
    finally:
        # A connection that was ended has given it back.
        with contextlib.suppress(psycopg.Error):
            connection.execute("SELECT pg_advisory_unlock(%s)", (key,))


def _take(connection: psycopg.Connection, what: str, key: int, grace_s: float) -> None:
    deadline = time.monotonic() + grace_s
    ended = False
    while True:
        row = connection.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchone()
        if row is not None and row[0]:
            return
        if time.monotonic() >= deadline:
            if ended:
                raise EndpointBusy(
                    "somebody else is at it, and does not end",
                    object_=what,
                    hint="it is tried again; see pg_locks for the holder of an advisory lock, and "
                    "end that connection by hand if it is another role's",
                    operation="take a turn",
                )
            connection.execute(_END, (key >> 32 & 0xFFFFFFFF, key & 0xFFFFFFFF))
            ended = True
            deadline = time.monotonic() + _ENDING_S
        time.sleep(_POLL_S)
