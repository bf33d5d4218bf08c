"""One snapshot of the source for a whole copy run, held open by a session of its own.

    before ── which file each table is in ── BEGIN ── snapshot ── export ── …tasks… ── end

All tasks of a run read what this one session sees, so every chunk of the run is of one moment, and
one text, `xmin:xmax:xip,…`, says for each change of the stream whether the copy has it already.

A statement that rewrites a table (some ALTER TABLEs, TRUNCATE) makes it look empty to older
snapshots: PostgreSQL says so of these, and a copy would lose rows without a word. So the number of
each table's file is read before the snapshot is taken, and compared when rows have been read.
"""

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import Transient
from lockgate.model.ids import FeedId
from lockgate.model.positions import Position
from lockgate.model.value import Value

__all__ = ["SOURCE_OPTIONS", "Held", "TableRewritten", "held_snapshot", "log_end"]

SOURCE_OPTIONS = {
    "default_transaction_isolation": "repeatable read",
    "default_transaction_read_only": "on",
    "idle_in_transaction_session_timeout": "0",
    "statement_timeout": "0",
    "lock_timeout": "60s",
    "client_min_messages": "error",
}
"""Of sessions that read under the snapshot, as long as it takes."""


class TableRewritten(Transient):
    """A table was rewritten in the middle of its copy; under a new snapshot it can be read."""

    code = "table-rewritten"


class Held(Value, frozen=True):
    """A snapshot that others may read under while it is held."""

    id: str
    text: str
    settled: Position
    """Everything that the snapshot sees was committed before this position."""
    storage: dict[int, int]
    """Tables by number, and the numbers of their files before the snapshot."""


@contextmanager
def held_snapshot(url: PostgresUrl, feed: FeedId, tables: Sequence[int]) -> Iterator[Held]:
    """Take a snapshot and hold it. `tables` are the numbers (oids) of all that will be read."""
    with connect(url, purpose=f"{feed} snapshot", options=SOURCE_OPTIONS) as connection:
        with faults(object_=url.label, operation="take a snapshot"):
            connection.autocommit = True
            storage = connection.execute(
                "SELECT oid::int8, pg_relation_filenode(oid)::int8 FROM unnest(%s::oid[]) AS oid "
                "WHERE pg_relation_filenode(oid) IS NOT NULL",
                (list(tables),),
            ).fetchall()
            connection.autocommit = False
            row = connection.execute(
                "SELECT pg_export_snapshot(), pg_current_snapshot()::text"
            ).fetchone()
            assert row is not None
            end = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
            assert end is not None
        try:
            yield Held(row[0], row[1], int(end[0]), dict(storage))
        finally:
            # It has only read: that the server is gone now is nothing to fail for.
            with contextlib.suppress(psycopg.Error):
                connection.rollback()


def log_end(url: PostgresUrl, feed: FeedId) -> Position:
    """Everything that any snapshot until now saw was committed before this position."""
    with (
        connect(url, purpose=f"{feed} copy", autocommit=True) as connection,
        faults(object_=url.label, operation="read the end of the log"),
    ):
        row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
        assert row is not None
        return int(row[0])
