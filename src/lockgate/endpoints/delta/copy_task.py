"""What a Spark task of a first copy into a lake does: chunks become files that nobody names yet.

    source: BEGIN, the run's snapshot ── COPY TO ── typed, sorted by key ──► files of stable

Nothing is fenced here, for nothing takes effect: the driver records the receipts under its token,
and one commit of the stable table names all files of all chunks. A task that outlives its driver,
or is run twice, leaves files behind that a vacuum finds once they are old.

A file has the rows of one stretch of keys, as far as the chunk came in that order: then a drain
finds the few files that its changes concern.
"""

import time
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
import psycopg
import pyarrow as pa

from lockgate.endpoints.delta.drain_plan import ROWS_MAX
from lockgate.endpoints.delta.files import DataFile, delete_file, write_file
from lockgate.endpoints.delta.lake import STABLE
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.types import to_lake
from lockgate.endpoints.postgres.copy.arrow import read_chunk
from lockgate.endpoints.postgres.copy.items import CopyPart
from lockgate.endpoints.postgres.copy.session import SnapshotSession
from lockgate.endpoints.postgres.faults import fault
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.apply import ApplyError
from lockgate.model.errors import LockgateError
from lockgate.model.ids import FeedId, SpanId
from lockgate.model.tables import TableShape
from lockgate.model.value import Value

__all__ = [
    "FILE_BYTES_MAX",
    "FILE_ROWS_MAX",
    "LakeCopyItem",
    "LakeCopyPart",
    "LakeCopyReceipt",
    "copy_chunks",
    "lake_copy_task",
]

FILE_ROWS_MAX: Final = ROWS_MAX // 2
FILE_BYTES_MAX: Final = 256 << 20
"""In memory, where all of a file's rows are before they are written."""


class LakeCopyPart(Value, frozen=True):
    """One chunk of one span, and which files it is to become."""

    part: CopyPart
    place: bytes
    """The table's, for `Place.from_wire`."""
    shape: TableShape
    """Of the rows as they are read."""
    schema: bytes
    """Of the rows as they are written, as Arrow writes it."""
    ordered: bool = False
    """The rows are to be read in the order of their keys, because they are too many for a file."""


class LakeCopyItem(Value, frozen=True):
    """What one task does, part by part."""

    feed: FeedId
    source: bytes
    snapshot_id: str
    parts: tuple[LakeCopyPart, ...]
    file_rows_max: int = FILE_ROWS_MAX


class LakeCopyReceipt(Value, frozen=True):
    """What came of one part. Without error, its rows are in the files, each once."""

    span: SpanId
    chunk: int
    files: tuple[DataFile, ...] = ()
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    error: ApplyError | None = None


def lake_copy_task(data: bytes) -> bytes:
    """The work function: an item's bytes in, a list of receipts out."""
    item = msgspec.msgpack.decode(data, type=LakeCopyItem)
    return msgspec.msgpack.encode(copy_chunks(item))


def copy_chunks(item: LakeCopyItem) -> list[LakeCopyReceipt]:
    """Copy all parts of the item. Whatever happens to one, the others are tried all the same."""
    session = SnapshotSession(
        PostgresUrl.from_wire(item.source), item.feed, snapshot_id=item.snapshot_id
    )
    try:
        return [_receipt(session, part, item.file_rows_max) for part in item.parts]
    finally:
        session.close()


def _receipt(session: SnapshotSession, part: LakeCopyPart, rows_max: int) -> LakeCopyReceipt:
    began = time.monotonic()
    receipt = LakeCopyReceipt(part.part.span, part.part.chunk.no)
    try:
        files = _copied(session, part, rows_max)
        receipt = msgspec.structs.replace(
            receipt,
            files=tuple(files),
            rows=sum(file.rows for file in files),
            bytes=sum(file.bytes for file in files),
        )
    except LockgateError as error:
        session.close()
        receipt = msgspec.structs.replace(receipt, error=ApplyError.of(error))
    except psycopg.Error as error:
        session.close()
        found = fault(error, object_=str(part.part.table.source), operation="copy")
        receipt = msgspec.structs.replace(receipt, error=ApplyError.of(found))
    return msgspec.structs.replace(receipt, seconds=round(time.monotonic() - began, 6))


def _copied(session: SnapshotSession, part: LakeCopyPart, rows_max: int) -> list[DataFile]:
    place = Place.from_wire(part.place).child(STABLE)
    schema = pa.ipc.read_schema(pa.py_buffer(part.schema))
    key = list(part.shape.key)
    blocks = (
        to_lake(block.columns, part.shape, schema)
        for block in read_chunk(
            session,
            part.part.table,
            part.shape.columns,
            part.part.chunk,
            ordered=part.ordered,
        )
    )
    files: list[DataFile] = []
    try:
        for rows in _gathered(blocks, rows_max):
            order = [(name, "ascending") for name in key]
            files.append(write_file(place, rows.sort_by(order), key[:1]))
    except BaseException:
        for file in files:
            delete_file(place, file.path)
        raise
    return files


def _gathered(blocks: Iterable[pa.Table], rows_max: int) -> Iterator[pa.Table]:
    """The rows of as many blocks as go into a file."""
    held: list[pa.Table] = []
    rows = size = 0
    for block in blocks:
        left = block
        while rows + left.num_rows > rows_max:
            yield pa.concat_tables([*held, left.slice(0, rows_max - rows)])
            left = left.slice(rows_max - rows)
            held, rows, size = [], 0, 0
        held.append(left)
        rows += left.num_rows
        size += left.nbytes
        if size >= FILE_BYTES_MAX:
            yield pa.concat_tables(held)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.concat_tables(held)
