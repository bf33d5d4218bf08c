"""A snapshot of the source that is of one exact position of its log.

    temporary slot, EXPORT_SNAPSHOT ──► consistent point C, snapshot S
    a session under S, which exports it again ──► the slot goes, S stays as long as the session

A snapshot that a session takes for itself is of a moment, not of a position: a transaction's commit
record is in the log before others see the transaction. A slot's snapshot is built from the log: it
sees the transactions whose commit records lie before C, and no other. A span that stands at C - 1
has applied exactly those.

The server knows a consistent point when every transaction that was running has ended. One that is
left open makes that impossible: so there is a limit, and the error names who it was.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.copy.snapshot import SOURCE_OPTIONS
from lockgate.endpoints.postgres.faults import fault, faults
from lockgate.endpoints.postgres.running import oldest
from lockgate.endpoints.postgres.source.errors import NoSlotLeft
from lockgate.endpoints.postgres.source.names import slot_name, temporary_slot_name
from lockgate.endpoints.postgres.source.session import open_reader
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import EndpointBusy
from lockgate.model.ids import FeedId
from lockgate.model.positions import Position
from lockgate.model.value import Value

__all__ = ["Exported", "export", "exported_at_a_position", "held_session"]

_OPERATION: Final = "take a snapshot at a position"


class Exported(Value, frozen=True):
    """A snapshot that others may read under while it is held."""

    position: Position
    """It sees everything up to here, and nothing beyond."""
    snapshot: str
    """For SET TRANSACTION SNAPSHOT, in the same database."""


@contextmanager
def exported_at_a_position(url: PostgresUrl, feed: FeedId, timeout_s: float) -> Iterator[Exported]:
    """The snapshot of a position of now, for as long as the block lasts.

    EndpointBusy when a transaction stays open for longer than `timeout_s`.
    """
    with open_reader(url, f"{feed} align", replication=True, settings={}) as reader:
        position, first = _make_slot(reader, url, feed, timeout_s)
        with held_session(url, feed) as session:
            with faults(object_=url.label, operation=_OPERATION):
                session.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(first))
                snapshot = export(session)
            reader.close()  # and with it its slot, which would keep the log
            yield Exported(position, snapshot)


@contextmanager
def held_session(url: PostgresUrl, feed: FeedId) -> Iterator[psycopg.Connection]:
    """A session that reads under one snapshot for as long as it takes; not begun yet."""
    connection = connect(url, purpose=f"{feed} snapshot", autocommit=True, options=SOURCE_OPTIONS)
    with connection:
        with faults(object_=url.label, operation=_OPERATION):
            # Not all versions have it, and naming an unknown one would refuse the connection.
            connection.execute(
                "SELECT set_config(name, '0', false) FROM pg_settings "
                "WHERE name IN ('transaction_timeout', 'idle_session_timeout')"
            )
            connection.autocommit = False
        try:
            yield connection
        finally:
            # It has only read: that the server is gone now is nothing to fail for.
            with suppress(psycopg.Error):
                connection.rollback()


def export(connection: psycopg.Connection) -> str:
    """Let others in on the snapshot of the transaction."""
    row = connection.execute("SELECT pg_export_snapshot()").fetchone()
    assert row is not None
    return str(row[0])


def _make_slot(
    reader: psycopg.Connection, url: PostgresUrl, feed: FeedId, timeout_s: float
) -> tuple[Position, str]:
    name = temporary_slot_name(slot_name(feed), reader.info.backend_pid)
    statement = sql.SQL("CREATE_REPLICATION_SLOT {} TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT")
    # No time limit of a session's counts for this command: somebody has to call it off.
    limit = threading.Timer(timeout_s, reader.cancel_safe)
    limit.daemon = True
    limit.start()
    try:
        row = reader.execute(statement.format(sql.Identifier(name))).fetchone()
    except psycopg.errors.QueryCanceled as error:
        raise _too_long(url, timeout_s, error) from error
    except psycopg.errors.ConfigurationLimitExceeded as error:
        raise NoSlotLeft(
            "the server has no replication slot left",
            object_=url.label,
            hint="raise max_replication_slots (needs a restart), or drop slots that nobody reads",
            operation=_OPERATION,
            cause=error,
        ) from error
    except psycopg.Error as error:
        raise fault(error, object_=url.label, operation=_OPERATION) from error
    finally:
        limit.cancel()
    assert row is not None
    high, _, low = str(row[1]).partition("/")
    return (int(high, 16) << 32 | int(low, 16)) - 1, str(row[2])


def _too_long(url: PostgresUrl, timeout_s: float, error: BaseException) -> EndpointBusy:
    who = oldest(url)
    return EndpointBusy(
        f"a transaction at the source did not end within {timeout_s:g} s: {who or 'somebody'}",
        object_=url.label,
        hint="end that transaction, or try again when it is over: until then no position of the "
        "log has a snapshot" + (f"; {who.hint}" if who is not None else ""),
        operation=_OPERATION,
        cause=error,
    )
