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

import msgspec
import psycopg

from lockgate.endpoints.postgres.copy.items import CopyItem, CopyPart, CopyReceipt
from lockgate.endpoints.postgres.copy.pipe import Piped, pipe
from lockgate.endpoints.postgres.copy.session import SnapshotSession
from lockgate.endpoints.postgres.copy.statements import copy_in, copy_out
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
        self._source = SnapshotSession(self._from, item.feed, item.snapshot_id)
        self._target: psycopg.Connection | None = None

    def close(self) -> None:
        self._source.close()
        if self._target is not None:
            self._target.close()
        self._target = None

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
            source = self._source.open()
            target.execute("SET LOCAL client_min_messages = error")
            quiet = quieten(target)
            with self._source.errors(part.table):
                out = copy_out(part.table, self._source.condition(part.table, chunk))
                done = pipe(source, out, target, copy_in(part.table))
                self._source.check(part.table)
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

    # --- sessions ---------------------------------------------------------------------------------

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
