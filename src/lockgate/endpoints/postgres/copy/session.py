"""A session of a copy task at the source: in on the run's snapshot, and watchful of DDL.

Rows are read by the names and from the files of now, under a snapshot of before. So whoever has
read rows asks afterwards, while they are still locked, whether that was the table that was planned.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import sql

from lockgate.endpoints.keys import is_whole
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.copy.items import CopyTable
from lockgate.endpoints.postgres.copy.narrow import where_share
from lockgate.endpoints.postgres.copy.pipe import SourceError
from lockgate.endpoints.postgres.copy.snapshot import SOURCE_OPTIONS, TableRewritten
from lockgate.endpoints.postgres.copy.statements import where_chunk
from lockgate.endpoints.postgres.faults import fault, faults
from lockgate.endpoints.postgres.sink.chunks import Chunk
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.ids import FeedId

__all__ = ["CHANGED", "SnapshotSession"]


class SnapshotSession:
    """Opened when it is first needed. One that had an error is closed, and can be opened again."""

    def __init__(self, url: PostgresUrl, feed: FeedId, snapshot_id: str) -> None:
        self._url = url
        self._feed = feed
        self._snapshot_id = snapshot_id
        self._connection: psycopg.Connection | None = None

    def open(self) -> psycopg.Connection:
        """The connection, in a transaction under the snapshot."""
        if self._connection is None:
            self._connection = connect(
                self._url, purpose=f"{self._feed} copy", options=SOURCE_OPTIONS
            )
            with faults(object_=self._url.label, operation="join the snapshot"):
                self._connection.execute(
                    sql.SQL("SET TRANSACTION SNAPSHOT {}").format(self._snapshot_id)
                )
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    @contextmanager
    def errors(self, table: CopyTable) -> Iterator[None]:
        """What the source has to say, in errors of ours."""
        try:
            yield
        except SourceError as error:
            about = f"{table.source}, {self._url.label}"
            raise fault(error.error, object_=about, operation="copy") from error

    def condition(self, table: CopyTable, chunk: Chunk) -> sql.Composable:
        """Which rows of the table are the chunk's."""
        condition = where_chunk(table, chunk)
        if not table.key or is_whole(chunk.keys):
            return condition
        try:
            return where_share(self.open(), table, condition, chunk.keys)
        except psycopg.Error as error:
            raise SourceError(error) from error

    def check(self, table: CopyTable) -> None:
        """Raise TableRewritten if what was just read may not have been the table's rows."""
        _check_storage(self.open(), table)
        _check_names(self._url, table)


def _check_storage(source: psycopg.Connection, table: CopyTable) -> None:
    """Reading has locked the table, so if its file is still the one of before, it was all along."""
    try:
        row = source.execute(
            "SELECT count(*) FROM unnest(%s::oid[], %s::oid[]) AS w(oid, node) "
            "WHERE pg_relation_filenode(w.oid) IS DISTINCT FROM w.node",
            ([oid for oid, _ in table.storage], [node for _, node in table.storage]),
        ).fetchone()
    except psycopg.Error as error:
        raise SourceError(error) from error
    if row is None or row[0]:
        raise _rewritten(table, "the table was rewritten or truncated while it was copied")


CHANGED: Final = """
SELECT NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                   WHERE c.oid = %(oid)s AND (n.nspname, c.relname) = (%(schema)s, %(name)s)),
       EXISTS (SELECT FROM unnest(%(numbers)s::int2[], %(names)s::text[], %(types)s::oid[])
                           AS w(number, name, type)
               WHERE NOT EXISTS (SELECT FROM pg_attribute a
                                 WHERE a.attrelid = %(oid)s AND a.attnum = w.number
                                 AND a.attname = w.name AND a.atttypid = w.type
                                 AND NOT a.attisdropped))
"""
"""Whether a table has another name now, and whether columns of it are others."""


def _check_names(source: PostgresUrl, table: CopyTable) -> None:
    """Rows of the snapshot are read by the names of now, of the table and of its columns.

    So they must be the same table and columns as when the snapshot was taken. Asked outside of it,
    while what was read is still locked.
    """
    if not table.oid:
        return
    with (
        connect(source, purpose="copy check", autocommit=True) as connection,
        faults(object_=str(table.source), operation="look at the columns"),
    ):
        asked = {
            "oid": table.oid,
            "schema": table.source.schema,
            "name": table.source.name,
            "numbers": [number for number, _, _ in table.numbers],
            "names": [name for _, name, _ in table.numbers],
            "types": [type_ for _, _, type_ in table.numbers],
        }
        row = connection.execute(CHANGED, asked).fetchone()
    if row is None or row[0]:
        raise _rewritten(table, "the table got another name while it was copied")
    if row[1]:
        raise _rewritten(table, "columns of the table were changed while it was copied")


def _rewritten(table: CopyTable, what: str) -> TableRewritten:
    return TableRewritten(
        what,
        object_=str(table.source),
        hint="what is left of it is copied again, from a new snapshot",
        operation="copy",
    )
