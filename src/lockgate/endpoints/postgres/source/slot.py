"""The logical slot of a feed: the source's memory of how far the feed has come.

    confirmed    everything before it is durable with us and never sent again
    restart      where the server begins to read its log to send what comes after `confirmed`;
                 the log from here on is kept, however large it gets

One connection reads from a slot at a time. When an owner dies, its connection may outlive it: the
server notices late, or a paused process still holds the socket. Whoever takes over waits a grace
and then ends that connection, if it is one of Lockgate's. That is safe whoever is right: a slot is
only confirmed after the change log is durable, under a fence of its own.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import psycopg
from psycopg import errors as pg
from psycopg.rows import class_row

from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.source.errors import NoSlotLeft, NotOurs, SlotBusy, SlotLost
from lockgate.endpoints.postgres.source.names import PREFIX
from lockgate.model.errors import LockgateError
from lockgate.model.positions import Position
from lockgate.model.value import Value

__all__ = [
    "SlotState",
    "advance",
    "check",
    "create",
    "drop",
    "log_end",
    "lsn_text",
    "read",
    "release",
    "slot_lost",
]

_PLUGIN: Final = "pgoutput"
_POLL_S: Final = 0.05
_ENDING_S: Final = 10.0
"""How long the server may take to end a connection that it was told to end."""

_LOOK_S: Final = 1.0
"""So often who waits for a slot is asked whether he still wants it."""

_LOST_HINT: Final = (
    "changes are missing that no longer can be had: remove the feed and create it anew, which "
    "copies its tables; to keep more log for slow feeds raise max_slot_wal_keep_size"
)


class SlotState(Value, frozen=True):
    """A slot, as the server describes it."""

    name: str
    plugin: str | None
    database: str | None
    temporary: bool
    confirmed: Position
    restart: Position
    wal_status: str | None
    """`reserved`, `extended`, `unreserved` (may be lost at any moment) or `lost`."""
    safe_wal_bytes: int | None
    """How much may still be written before it may be lost; None when there is no limit."""
    active_pid: int | None
    reader: str | None
    """What the reading connection calls itself, if we may know."""

    @property
    def lost(self) -> bool:
        """True when the server has given up what the slot stood for."""
        return self.wal_status == "lost" or not self.confirmed or not self.restart


_STATE: Final = """
SELECT s.slot_name::text AS name, s.plugin::text AS plugin, s.database::text AS database,
       s.temporary, coalesce(s.confirmed_flush_lsn - '0/0'::pg_lsn, 0)::bigint AS confirmed,
       coalesce(s.restart_lsn - '0/0'::pg_lsn, 0)::bigint AS restart, s.wal_status,
       s.safe_wal_size AS safe_wal_bytes, s.active_pid, a.application_name AS reader
  FROM pg_replication_slots s LEFT JOIN pg_stat_activity a ON a.pid = s.active_pid
 WHERE s.slot_name = %s
"""

_TERMINATE: Final = """
SELECT pg_terminate_backend(s.active_pid)
  FROM pg_replication_slots s JOIN pg_stat_activity a ON a.pid = s.active_pid
 WHERE s.slot_name = %s AND s.active_pid = %s AND a.application_name LIKE 'lockgate %%'
"""


def log_end(connection: psycopg.Connection) -> Position:
    """Up to where the server's log can be decoded now."""
    row = connection.execute(_LOG_END).fetchone()
    assert row is not None
    return int(row[0])


def lsn_text(position: Position) -> str:
    """A position as PostgreSQL writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def read(connection: psycopg.Connection, name: str) -> SlotState | None:
    """The slot as it is now; None when there is none."""
    with (
        faults(object_=name, operation="read a slot"),
        connection.cursor(row_factory=class_row(SlotState)) as cursor,
    ):
        return cursor.execute(_STATE, (name,)).fetchone()


def check(connection: psycopg.Connection, name: str) -> SlotState:
    """The slot, fit to go on from; raises SlotLost when it is not."""
    state = read(connection, name)
    if state is None:
        raise slot_lost("the slot is not there any more", name)
    if state.lost:
        raise slot_lost("the server has removed log that the slot needs", name)
    return state


def slot_lost(what: str, name: str, cause: BaseException | str | None = None) -> SlotLost:
    """The error for a slot from which changes are missing."""
    return SlotLost(what, object_=name, hint=_LOST_HINT, operation="read changes", cause=cause)


def create(
    connection: psycopg.Connection, name: str, still_wanted: Callable[[], None] = lambda: None
) -> SlotState:
    """Make the slot, or find it made: a successor repeats what its predecessor may have done.

    The position from which it sends is `confirmed`. The server waits for all running transactions
    to end before it knows a position, however long they are left open. `still_wanted` is asked
    meanwhile, on a thread of its own: what it raises calls the wait off and is raised here. By then
    there is no slot, or one that nobody has read from.
    """
    _refuse_foreign(connection, name)
    try:
        with (
            _called_off(connection, still_wanted),
            faults(object_=name, operation="create a slot"),
        ):
            connection.execute(
                "SELECT pg_create_logical_replication_slot(%s, %s, false, false)", (name, _PLUGIN)
            )
    except Exception as error:
        cause = error.__cause__
        if isinstance(cause, pg.ConfigurationLimitExceeded):
            raise NoSlotLeft(
                "the server has no replication slot left",
                object_=name,
                hint="raise max_replication_slots (needs a restart), or drop slots that nobody "
                "reads: SELECT slot_name, active FROM pg_replication_slots",
                operation="create a slot",
                cause=cause,
            ) from error
        if not isinstance(cause, pg.DuplicateObject):
            raise
    return check(connection, name)


@contextlib.contextmanager
def _called_off(connection: psycopg.Connection, still_wanted: Callable[[], None]) -> Iterator[None]:
    """Cancel the statement in the block once it is not wanted any more, and raise why."""
    over = threading.Event()
    why: list[Exception] = []

    def watch() -> None:
        while not over.wait(_LOOK_S):
            try:
                if not why:
                    still_wanted()
            except Exception as error:
                why.append(error)
            if why:
                # Again and again: one that comes before the statement has begun cancels nothing.
                with contextlib.suppress(psycopg.Error):
                    connection.cancel_safe()

    watcher = threading.Thread(target=watch, name="slot wanted", daemon=True)
    watcher.start()
    try:
        yield
    except LockgateError:
        if not why:
            raise
    finally:
        over.set()
        watcher.join()  # what it still cancelled would be the next statement
    if why:
        raise why[0]


def advance(connection: psycopg.Connection, name: str, to: Position) -> None:
    """Confirm everything before `to` without reading it. Nobody may be reading from the slot.

    The server walks through its log for it. A slot that is there already stays where it is.

    It walks twice: on a walk the server takes note of one new restart position only, the first
    one it meets, unless what it meets is confirmed already. After the first walk everything is,
    and the second brings the restart position along; else the next reader would decode all of
    it once more, several times as slowly as it is walked.
    """
    state = check(connection, name)
    if to <= state.confirmed:
        return
    try:
        with faults(object_=name, operation="advance a slot"):
            for step in (to - 1, to):
                if step > state.confirmed:
                    connection.execute(
                        "SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", (name, lsn_text(step))
                    )
    except Exception as error:
        if isinstance(error.__cause__, pg.ObjectInUse):
            raise _busy(state, error) from error
        raise


def release(connection: psycopg.Connection, name: str, grace_s: float) -> None:
    """Wait until nobody reads from the slot; after the grace end a reader of Lockgate's own."""
    deadline = time.monotonic() + grace_s
    ended = 0
    while True:
        state = read(connection, name)
        if state is None or state.active_pid is None:
            return
        if time.monotonic() >= deadline:
            if state.active_pid == ended or not _terminate(connection, name, state.active_pid):
                raise _busy(state)
            ended = state.active_pid
            deadline = time.monotonic() + _ENDING_S
        time.sleep(_POLL_S)


def drop(connection: psycopg.Connection, name: str, grace_s: float) -> bool:
    """Drop the slot, which must be one of Lockgate's in this database. False if it was gone."""
    if not _refuse_foreign(connection, name):
        return False
    release(connection, name, grace_s)
    try:
        with faults(object_=name, operation="drop a slot"):
            connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))
    except Exception as error:
        if isinstance(error.__cause__, pg.UndefinedObject):
            return False
        if isinstance(error.__cause__, pg.ObjectInUse):
            raise _busy(read(connection, name), error) from error
        raise
    return True


def _terminate(connection: psycopg.Connection, name: str, pid: int) -> bool:
    """End the reader if it is still the one that was seen, and is one of ours."""
    with faults(object_=name, operation="end the reader of a slot"):
        row = connection.execute(_TERMINATE, (name, pid)).fetchone()
    if row is not None:
        return bool(row[0])
    state = read(connection, name)
    return state is None or state.active_pid != pid


def _refuse_foreign(connection: psycopg.Connection, name: str) -> bool:
    """True when the slot is there and ours, False when it is not there."""
    state = read(connection, name)
    if state is None:
        return False
    ours = name.startswith(PREFIX) and state.plugin == _PLUGIN and not state.temporary
    if not ours or state.database != connection.info.dbname:
        raise NotOurs(
            f"a slot of this name is in use for something else (plugin {state.plugin}, "
            f"database {state.database})",
            object_=name,
            hint="see pg_replication_slots; Lockgate leaves alone what it has not made",
        )
    return True


def _busy(state: SlotState | None, cause: BaseException | None = None) -> SlotBusy:
    name, who = ("the slot", "") if state is None else (state.name, state.reader or "")
    by = f" by {who!r}, process {state.active_pid}" if state and state.active_pid else ""
    return SlotBusy(
        f"the slot is being read{by}",
        object_=name,
        hint="it is tried again; a reader that is not Lockgate's, or of another role, must be "
        "ended by hand: SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots",
        operation="read changes",
        cause=cause,
    )


_LOG_END: Final = """
SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
             ELSE pg_current_wal_flush_lsn() END - '0/0'::pg_lsn)::bigint
"""
