"""Arrow columns as the bytes of PostgreSQL's COPY in text form.

The stream is made by Arrow alone: columns as texts, joined row by row with tabs, each row ended
by a newline; the values buffer of the joined array *is* the stream, nothing is copied out of it.
Only columns that hold a backslash, tab or newline at all are escaped. NULL is `\\N`, which no
escaped value can be.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.postgres.types import to_text

__all__ = ["copy_bytes", "texts"]

_ESCAPES: Final = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
"""The backslash first: the others bring more of them."""


def copy_bytes(columns: list[Any]) -> memoryview:
    """Rows as COPY reads them, one value of each column per line."""
    escaped = [_escaped(column) for column in texts(columns)]
    escaped[-1] = _joined([escaped[-1], pa.scalar("\n")], "")
    rows = _joined(escaped, "\t")
    if not len(rows):
        return memoryview(b"")
    _, offsets, values = rows.buffers()
    edges = np.frombuffer(offsets, dtype=np.int32)[rows.offset : rows.offset + len(rows) + 1]
    return memoryview(values)[int(edges[0]) : int(edges[-1])]


def texts(columns: list[Any]) -> list[Any]:
    """The columns in PostgreSQL's own words."""
    return [to_text(_narrow(column)) for column in columns]


def _joined(columns: list[Any], separator: str) -> Any:
    return pc.binary_join_element_wise(
        *columns, separator, null_handling="replace", null_replacement="\\N"
    )


def _escaped(column: Any) -> Any:
    held = _bytes_of(column)
    for raw, escape in _ESCAPES:
        if raw.encode() in held:
            column = pc.replace_substring(column, raw, escape)
    return column


def _bytes_of(column: Any) -> bytes:
    """The text of all values in one piece, in which a byte is found quickly."""
    _, offsets, values = column.buffers()
    if values is None or not len(column):
        return b""
    edges = np.frombuffer(offsets, dtype=np.int32)
    start, stop = int(edges[column.offset]), int(edges[column.offset + len(column)])
    return bytes(memoryview(values)[start:stop])


def _narrow(column: Any) -> Any:
    """Blocks are small: whatever had to be wide for a whole batch need not be here."""
    if pa.types.is_large_string(column.type):
        return column.cast(pa.string())
    if pa.types.is_large_binary(column.type):
        return column.cast(pa.binary())
    return column
