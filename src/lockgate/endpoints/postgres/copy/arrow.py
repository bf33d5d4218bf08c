"""The rows of a chunk as typed Arrow, in the types of the change log.

    COPY … TO STDOUT (FORMAT csv) ── frames ── whole rows, a block at a time ── texts ── values

The server writes every value with its type's output function, as it does in the stream; so what is
copied and what is streamed go through the same conversion (`from_text`), and a value is one value
by both ways. CSV because it tells NULL (nothing) from an empty text (quotes), and because Arrow
reads it. A frame is a row: blocks are cut between frames, so no value can lie across two of them,
whatever is in it, and what is held is one block, or one row that is larger.

Where the connection is encrypted, libpq hands out the rows, one by one.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import psycopg
import pyarrow as pa
from psycopg import sql
from pyarrow import csv

from lockgate.endpoints.postgres.copy.items import CopyTable
from lockgate.endpoints.postgres.copy.pipe import SourceError
from lockgate.endpoints.postgres.copy.session import SnapshotSession
from lockgate.endpoints.postgres.copy.statements import copy_out
from lockgate.endpoints.postgres.copy.wire import Link, error_of, is_bare, query
from lockgate.endpoints.postgres.pgoutput.frames import find_frames
from lockgate.endpoints.postgres.sink.chunks import Chunk
from lockgate.endpoints.postgres.types import arrow_type, from_bytes, from_text
from lockgate.model.tables import Column, quoted

__all__ = ["BLOCK_BYTES", "read_chunk"]

BLOCK_BYTES: Final = 8 << 20
"""What is read and made values of at a time."""

_LOW_WATER: Final = 256 << 10
_LULL_MS: Final = 10
_HEAD: Final = 5
"""Of a frame, before what it carries: a letter and a length."""

Payloads = Iterator[tuple[bytes, int]]
"""Rows as the server wrote them, one after the other, and how many they are."""


def read_chunk(
    session: SnapshotSession,
    table: CopyTable,
    columns: Sequence[Column],
    chunk: Chunk,
    *,
    ordered: bool = False,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[pa.Table]:
    """The chunk's rows under the session's snapshot, `ordered` by key or as they come.

    `columns` are the table's, in its order, as they travel: a masked one is text. After the last
    rows it is looked whether these were the table's rows: TableRewritten. What the source says
    comes as errors of ours; after an error the session is closed.
    """
    assert tuple(column.name for column in columns) == table.columns
    try:
        with session.errors(table):
            condition = session.condition(table, chunk)
            statement = copy_out(table, condition, "csv", ordered=ordered)
            for data, rows in _payloads(session.open(), statement, block_bytes):
                yield _values(data, rows, table, columns)
            session.check(table)
    except BaseException:
        # Something of the stream may still be on its way.
        session.close()
        raise


# --- bytes ---------------------------------------------------------------------------------------


def _payloads(connection: psycopg.Connection, out: sql.Composed, block_bytes: int) -> Payloads:
    read = _read_frames if is_bare(connection) else _read_rows
    parts: list[bytes] = []
    rows = size = 0
    for data, count in read(connection, out, block_bytes):
        parts.append(data)
        rows += count
        size += len(data)
        if size >= block_bytes:
            yield b"".join(parts), rows
            parts, rows, size = [], 0, 0
    if rows:
        yield b"".join(parts), rows


def _read_rows(connection: psycopg.Connection, out: sql.Composed, block_bytes: int) -> Payloads:
    del block_bytes
    try:
        with connection.cursor() as cursor, cursor.copy(out) as copy:
            for row in copy:
                yield bytes(row), 1
    except psycopg.Error as error:
        raise SourceError(error) from error


def _read_frames(connection: psycopg.Connection, out: sql.Composed, block_bytes: int) -> Payloads:
    link = Link(connection)
    try:
        link.send(query(out.as_string(connection)))
        yield from _framed(link, block_bytes)
    except psycopg.Error as error:
        raise SourceError(error) from error
    finally:
        link.close()


def _framed(link: Link, block_bytes: int) -> Payloads:
    """What the server answers, up to its being ready again, without the frames."""
    buffer = bytearray(max(block_bytes, _HEAD))
    held = 0
    wanted = _HEAD
    failed: bytes | None = None
    while True:
        if wanted > len(buffer):
            buffer += bytes(wanted - len(buffer))  # a row that is larger than all before it
        with memoryview(buffer) as view:
            held = _filled(link, view, held, wanted)
            frames = find_frames(view[:held])
            data = _without_heads(view, frames.starts, frames.ends)
            ready = False
            for other in frames.others:
                if other.kind == "E":
                    failed = bytes(view[other.start : other.end])
                ready |= other.kind == "Z"
        if data and failed is None:
            yield data, len(frames.starts)
        rest = held - frames.consumed
        buffer[:rest] = buffer[frames.consumed : held]
        held = rest
        wanted = 1 + int.from_bytes(buffer[1:_HEAD], "big") if held >= _HEAD else _HEAD
        if ready or (failed is not None and b"\0VFATAL\0" in b"\0" + failed):
            break
    if failed is not None:
        raise error_of(failed)


def _filled(link: Link, buffer: memoryview, held: int, wanted: int) -> int:
    """Receive until the buffer is full, or what is wanted is there and more is slow to come."""
    while held < len(buffer):
        # One waking for a lot of bytes, instead of one for each of the server's small ones.
        link.low_water(min(_LOW_WATER, len(buffer) - held))
        if not link.readable(_LULL_MS):
            link.low_water(1)
            if not link.readable(0 if held >= wanted else None):
                break
        held += link.receive(buffer[held:])
    return held


def _without_heads(
    view: memoryview, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> bytes:
    """The payloads of data frames, one after the other."""
    if not len(starts):
        return b""
    low = int(starts[0])
    data = np.frombuffer(view, np.uint8)[low : int(ends[-1])]
    # Whatever lies between two payloads goes: heads, and rarely a frame of another kind.
    edges = np.zeros(len(data) + 1, np.int8)
    edges[starts - low] += 1
    edges[ends - low] -= 1
    return data[np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_)].tobytes()


# --- values --------------------------------------------------------------------------------------


def _values(data: bytes, rows: int, table: CopyTable, columns: Sequence[Column]) -> pa.Table:
    if not columns:
        nothing = pa.Array.from_buffers(pa.struct([]), rows, [None])
        return pa.Table.from_batches([pa.RecordBatch.from_struct_array(nothing)])
    names = [str(number) for number in range(len(columns))]
    texts = csv.read_csv(
        pa.BufferReader(data),
        csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.binary()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    assert texts.num_rows == rows, f"{texts.num_rows} of {rows} rows were read"
    arrays = [_typed(texts.column(number), column, table) for number, column in enumerate(columns)]
    return pa.Table.from_arrays(arrays, [column.name for column in columns])


def _typed(texts: pa.ChunkedArray, column: Column, table: CopyTable) -> Any:
    object_ = f"{table.source.id}.{quoted(column.name)}"
    to = arrow_type(column)
    parts = [from_text(from_bytes(part, object_), to, object_) for part in texts.chunks]
    return pa.chunked_array(parts, to)
