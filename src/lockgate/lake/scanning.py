"""Reading files of a lake with Arrow, in a task of anybody's Spark: what it is told, and the rows.

A task is told places of files, which rows of them count, and where the lake is. It reads no more of
a file than the columns and the stretches of rows that are asked for.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from lockgate.endpoints.delta.faults import faults
from lockgate.endpoints.delta.files import DataFile
from lockgate.endpoints.delta.missing import why_missing
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import ObjectMissing

__all__ = ["from_ipc", "overlaps", "scan", "to_ipc"]


_PARQUET: Final = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


def scan(
    incarnation: Place,
    layer: str,
    path: str,
    schema: pa.Schema,
    columns: list[str],
    where: Any | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of one file. Columns of the schema that it does not have are NULL."""
    place = incarnation.child(layer)
    try:
        with faults("read", place, path):
            files, base = place.filesystem()
            data = ds.dataset(f"{base}/{path}", schema=schema, filesystem=files, format=_PARQUET)
            yield from data.to_batches(columns=columns, filter=where)
    except ObjectMissing as error:
        raise why_missing(incarnation, layer, [path], error) from error


def overlaps(file: DataFile, column: str, low: Any, high: Any) -> bool:
    """False when no row of the file can have a value in [low, high]; None is no bound."""
    least, greatest = file.low.get(column), file.high.get(column)
    if least is None or greatest is None:
        return True
    return not ((low is not None and greatest < low) or (high is not None and least > high))


def to_ipc(table: pa.Table) -> bytes:
    """A table as bytes, which carry its schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_ipc(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
