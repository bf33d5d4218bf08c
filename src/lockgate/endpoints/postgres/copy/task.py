"""What a Spark task of the copy does: chunks, one after the other, each one transaction.

    source   BEGIN, the run's snapshot ── COPY TO ──┐ one for all parts of the item
    target   BEGIN, enter_copy ────────── COPY FROM ┴── chunk_done, COMMIT        one for each part

`enter_copy` compares the token and locks the chunk before a row is written, and the chunk's row
says in the same commit that it landed and under which snapshot. So a chunk lands once, whoever
else tries, and not at all once a newer owner has claimed the span.

Whatever happens to a part is in its receipt; the item's other parts are tried all the same.
"""

import time
from contextlib import suppress
from typing import Final

import msgspec
import psycopg
from psycopg import sql

from lockgate.endpoints.keys import is_whole
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.copy.items import CopyItem, CopyPart, CopyReceipt, CopyTable
from lockgate.endpoints.postgres.copy.narrow import where_share
from lockgate.endpoints.postgres.copy.pipe import Piped, SourceError, pipe
from lockgate.endpoints.postgres.copy.snapshot import SOURCE_OPTIONS, TableRewritten
from lockgate.endpoints.postgres.copy.statements import copy_in, copy_out, where_chunk
from lockgate.endpoints.postgres.faults import fault, faults
from lockgate.endpoints.postgres.sink.apply import quieten
from lockgate.endpoints.postgres.sink.gate import Refused, chunk_done, enter_copy
from lockgate.endpoints.postgres.sink.session import open_session
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.apply import ApplyError
from lockgate.model.errors import DataRefused, LockgateError

__all__ = ["copy_chunks", "copy_task"]


def copy_task(data: bytes) -> bytes:
    """The work function: an item's bytes in, a list of receipts out."""
    item = msgspec.msgpack.decode(data, type=CopyItem)
    return msgspec.msgpack.encode(copy_chunks(item))


def copy_chunks(item: CopyItem) -> list[CopyReceipt]:
    """Copy all parts of the item."""
    copier = _Copier(item)
    try:
        return [copier.receipt(part) for part in item.parts]
    finally:
        copier.close()


class _Copier:
    """The two sessions of a task. One that had an error is not used again."""

    def __init__(self, item: CopyItem) -> None:
        self._item = item
        self._from = PostgresUrl.from_wire(item.source)
        self._to = PostgresUrl.from_wire(item.target)
        self._source: psycopg.Connection | None = None
        self._target: psycopg.Connection | None = None

    def close(self) -> None:
        for connection in (self._source, self._target):
            if connection is not None:
                connection.close()
        self._source = self._target = None

    def receipt(self, part: CopyPart) -> CopyReceipt:
        """Copy one part, and say what came of it."""
        began = time.monotonic()
        receipt = CopyReceipt(part.span, part.chunk.no)
        try:
            rows, size = self._copy(part)
            receipt = CopyReceipt(part.span, part.chunk.no, rows, size)
        except Refused as refused:
            self._roll_back()
            receipt = msgspec.structs.replace(receipt, refusal=refused.refusal)
        except LockgateError as error:
            self.close()
            receipt = msgspec.structs.replace(receipt, error=ApplyError.of(error))
        except psycopg.Error as error:
            self.close()
            found = fault(error, object_=self._about_target(part), operation="copy")
            receipt = msgspec.structs.replace(receipt, error=ApplyError.of(found))
        return msgspec.structs.replace(receipt, seconds=round(time.monotonic() - began, 6))

    def _copy(self, part: CopyPart) -> tuple[int, int]:
        item, chunk = self._item, part.chunk
        target = self._target_session(part)
        with target.cursor() as cursor:
            if not enter_copy(cursor, item.feed, part.span, part.token, chunk.no, part.run):
                target.rollback()
                return chunk.rows, chunk.bytes
            source = self._source_session()
            target.execute("SET LOCAL client_min_messages = error")
            quiet = quieten(target)
            try:
                done = self._pipe(source, target, part)
                _check_storage(source, part.table)
                _check_names(self._from, part.table)
            except SourceError as error:
                raise fault(
                    error.error, object_=self._about_source(part), operation="copy"
                ) from error
            if done.rows_written != done.rows_read:
                raise self._discarded(part, done, quiet)
            chunk_done(
                cursor,
                item.feed,
                part.span,
                chunk.no,
                snapshot=item.snapshot,
                rows=done.rows_written,
                bytes_=done.bytes,
            )
        with faults(object_=self._about_target(part), operation="copy", committing=True):
            target.commit()
        return done.rows_written, done.bytes

    def _pipe(
        self, source: psycopg.Connection, target: psycopg.Connection, part: CopyPart
    ) -> Piped:
        table = part.table
        condition: sql.Composable = where_chunk(table, part.chunk)
        if table.key and not is_whole(part.chunk.keys):
            try:
                condition = where_share(source, table, condition, part.chunk.keys)
            except psycopg.Error as error:
                raise SourceError(error) from error
        return pipe(source, copy_out(table, condition), target, copy_in(table))

    # --- sessions ---------------------------------------------------------------------------------

    def _source_session(self) -> psycopg.Connection:
        if self._source is None:
            connection = connect(
                self._from, purpose=f"{self._item.feed} copy", options=SOURCE_OPTIONS
            )
            self._source = connection
            with faults(object_=self._from.label, operation="join the snapshot"):
                connection.execute(
                    sql.SQL("SET TRANSACTION SNAPSHOT {}").format(self._item.snapshot_id)
                )
        return self._source

    def _target_session(self, part: CopyPart) -> psycopg.Connection:
        if self._target is None:
            self._target = open_session(self._to, self._item.feed, part.span)
        return self._target

    def _roll_back(self) -> None:
        if self._target is not None:
            with suppress(psycopg.Error):
                self._target.rollback()
                return
            self._target.close()
            self._target = None

    # --- words ------------------------------------------------------------------------------------

    def _about_source(self, part: CopyPart) -> str:
        return f"{part.table.source}, {self._from.label}"

    def _about_target(self, part: CopyPart) -> str:
        return f"{part.table.target}, {self._to.label}"

    def _discarded(self, part: CopyPart, done: Piped, quiet: bool) -> DataRefused:
        why = "is set to fire ALWAYS" if quiet else "fires, for the role may not switch it off"
        return DataRefused(
            f"the target kept {done.rows_written} of {done.rows_read} rows",
            object_=self._about_target(part),
            hint=f"see whether a trigger of the table discards rows: it {why}",
            operation="copy",
        )


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


_CHANGED: Final = """
SELECT NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                   WHERE c.oid = %(oid)s AND (n.nspname, c.relname) = (%(schema)s, %(name)s)),
       EXISTS (SELECT FROM unnest(%(numbers)s::int2[], %(names)s::text[], %(types)s::oid[])
                           AS w(number, name, type)
               WHERE NOT EXISTS (SELECT FROM pg_attribute a
                                 WHERE a.attrelid = %(oid)s AND a.attnum = w.number
                                 AND a.attname = w.name AND a.atttypid = w.type
                                 AND NOT a.attisdropped))
"""


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
        row = connection.execute(_CHANGED, asked).fetchone()
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
