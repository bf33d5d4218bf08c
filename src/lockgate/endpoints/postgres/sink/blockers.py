"""Who is in the way of a claim, and how they are put out of it.

A claim that waits too long ends the sessions it waits for. Only Lockgate's own: somebody else's
session that holds a row of ours, or the table that a task of ours wants, is named in the error and
left alone. Of Lockgate's sessions that wait for each other only those at the bottom are in the way:
a newer claim that waits for the same stopped task is not ended with it.
"""

import threading
import time
from typing import Final, NamedTuple

import psycopg

from lockgate.endpoints.postgres.sink.session import Sessions

__all__ = ["Blocker", "Relief", "blockers", "end_sessions"]

_PREFIX: Final = "lockgate "
_EVERY_S: Final = 0.05


class Blocker(NamedTuple):
    """A session that somebody waits for."""

    pid: int
    """0 is a prepared transaction: there is no session to end."""
    application: str
    since: str | None
    """The start of its transaction, as text: what it does later is not what was in the way."""
    is_ours: bool

    def __str__(self) -> str:
        who = f"session {self.pid}" if self.pid else "a prepared transaction"
        return f"{who} ({self.application or 'no application name'})"


def blockers(connection: psycopg.Connection, pid: int) -> list[Blocker]:
    """Those at the bottom of what `pid` waits for: ours if there are any, else the others."""
    found: dict[int, Blocker] = {}
    below: dict[int, set[int]] = {}
    ahead = [pid]
    while ahead:
        waiter = ahead.pop()
        direct = _direct(connection, waiter)
        below[waiter] = {one.pid for one in direct}
        ahead += [one.pid for one in direct if one.pid and one.pid not in {*below, *ahead}]
        found |= {one.pid: one for one in direct}
    found.pop(pid, None)  # a circle: PostgreSQL will break it
    ours = {one.pid for one in found.values() if one.is_ours}
    bottom = [found[one] for one in sorted(ours) if not ours & (_closure(below, one) - {one})]
    return bottom or [found[one] for one in sorted(found) if not below.get(one)]


def _closure(below: dict[int, set[int]], pid: int) -> set[int]:
    """Everybody that `pid` waits for, directly or not."""
    reached: set[int] = set()
    ahead = [pid]
    while ahead:
        new = below.get(ahead.pop(), set()) - reached
        reached |= new
        ahead += new
    return reached


def _direct(connection: psycopg.Connection, pid: int) -> list[Blocker]:
    found = connection.execute(
        "SELECT b.pid, coalesce(a.application_name, ''), a.xact_start::text, "
        "       coalesce(starts_with(a.application_name, %s), false) "
        "FROM (SELECT DISTINCT unnest(pg_blocking_pids(%s)) AS pid) b "
        "LEFT JOIN pg_stat_activity a USING (pid)",
        (_PREFIX, pid),
    ).fetchall()
    return [Blocker(*one) for one in found]


def end_sessions(connection: psycopg.Connection, found: list[Blocker]) -> None:
    """End those of ours that are still in the same transaction."""
    connection.execute(
        "SELECT pg_terminate_backend(a.pid) "
        "FROM unnest(%s::int[], %s::text[]) AS b (pid, since) JOIN pg_stat_activity a USING (pid) "
        "WHERE starts_with(a.application_name, %s) AND a.pid <> pg_backend_pid() "
        "AND a.xact_start::text IS NOT DISTINCT FROM b.since",
        (
            [one.pid for one in found if one.is_ours],
            [one.since for one in found if one.is_ours],
            _PREFIX,
        ),
    )


class Relief:
    """While the block runs, a thread ends whoever of ours is in the way of session `pid` too long.

    It looks for the first time when half of the grace is over, and ends who has stayed in the way
    for the other half. So whoever moves up in the line has time to finish, too.
    """

    def __init__(self, sessions: Sessions, pid: int) -> None:
        self._sessions = sessions
        self._pid = pid
        self._half_s = sessions.limits.grace_s / 2
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sink relief", daemon=True)
        self.seen: list[Blocker] = []
        """Who was in the way when last looked."""
        self.error: Exception | None = None

    def __enter__(self) -> "Relief":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        if self._over.wait(self._half_s):
            return
        try:
            with self._sessions.open("relief", autocommit=True) as connection:
                self._relieve(connection)
        except Exception as error:
            self.error = error  # the claim gives up in time, and says why

    def _relieve(self, connection: psycopg.Connection) -> None:
        first: dict[Blocker, float] = {}
        while not self._over.is_set():
            found, now = blockers(connection, self._pid), time.monotonic()
            first = {one: first.get(one, now) for one in found}
            late = [one for one, since in first.items() if now - since >= self._half_s]
            self.seen = found or self.seen
            if late:
                end_sessions(connection, late)
            self._over.wait(min(_EVERY_S, self._half_s))
