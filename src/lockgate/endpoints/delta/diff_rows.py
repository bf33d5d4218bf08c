"""Rows of a database as rows of a lake, for Spark to compare: what a task of such a DataFrame does.

    item ── COPY … under the snapshot ── typed ── in the lake's own types ──► Arrow

The values take the way of a copy into a lake, so a value that came by any way is the same value.
What goes wrong comes as a row of nothing but an error: an exception in a task would come back as a
text that nobody can tell apart.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
import psycopg
import pyarrow as pa

from lockgate.endpoints.delta.types import to_lake
from lockgate.endpoints.postgres.copy.arrow import read_chunk
from lockgate.endpoints.postgres.copy.items import CopyTable
from lockgate.endpoints.postgres.copy.session import SnapshotSession
from lockgate.endpoints.postgres.faults import fault
from lockgate.endpoints.postgres.sink.chunks import Chunk
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.apply import ApplyError
from lockgate.model.errors import LockgateError
from lockgate.model.tables import TableShape
from lockgate.model.value import Value

__all__ = ["ERROR", "LakeRowsItem", "read_rows"]

ERROR: Final = "_lockgate_error"
"""The last column: NULL, or an `ApplyError` as JSON in a row that is none."""


class LakeRowsItem(Value, frozen=True):
    """One chunk of a table."""

    url: bytes
    snapshot: str
    table: CopyTable
    chunk: Chunk
    shape: TableShape
    """Of the rows as they are read."""
    schema: bytes
    """Of the rows as they are wanted, without the error, as Arrow writes it."""


def read_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Items in the first column in, their rows out."""
    for batch in batches:
        for data in batch.column(0).to_pylist():
            yield from _rows(msgspec.msgpack.decode(data, type=LakeRowsItem))


def _rows(item: LakeRowsItem) -> Iterator[pa.RecordBatch]:
    schema = pa.ipc.read_schema(pa.py_buffer(item.schema))
    session = SnapshotSession(PostgresUrl.from_wire(item.url), "diff", snapshot_id=item.snapshot)
    try:
        blocks = read_chunk(session, item.table, item.shape.columns, item.chunk)
        for block in blocks:
            rows = to_lake(block.columns, item.shape, schema).select(schema.names).cast(schema)
            nothing = pa.nulls(rows.num_rows, pa.string())
            yield from rows.append_column(ERROR, nothing).to_batches()
    except LockgateError as error:
        yield _error(schema, error)
    except psycopg.Error as error:
        yield _error(schema, fault(error, object_=str(item.table.source), operation="compare"))
    finally:
        session.close()


def _error(schema: pa.Schema, error: LockgateError) -> pa.RecordBatch:
    said = msgspec.json.encode(ApplyError.of(error)).decode()
    columns = [pa.nulls(1, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(
        [*columns, pa.array([said], pa.string())], [*schema.names, ERROR]
    )
