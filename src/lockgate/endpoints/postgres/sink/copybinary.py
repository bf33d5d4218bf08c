"""Arrow columns as the bytes of PostgreSQL's COPY in binary form: quicker on both sides.

Measured on a million rows of ten columns, against text: half of the server's work of reading
rows, and less than half of ours, for no number has to be written out and read in again.

A row is the number of its fields, then each field's length and bytes. All that has the same
length in every row is one NumPy record per row, written column by column; only texts are of
other lengths. So a row is made of few pieces (record, text, record, text, …), which Arrow joins.

Not every type is known here, and none is guessed at: `encodes` says so beforehand, and whoever
asks falls back on text. A value that is not of its type's form raises `Unfit`, for the same end;
the server then reads the text, and says what is wrong with it.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.postgres.dates import DAYS_MAX, DAYS_MIN, MICROS_MAX, MICROS_MIN
from lockgate.endpoints.postgres.sink.numerics import Unfit, numeric_cells, uuid_cells

__all__ = ["HEADER", "TRAILER", "Unfit", "binary_bytes", "encodes"]

HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER: Final = b"\xff\xff"

Cells = npt.NDArray[Any]
"""The bytes of one field for all rows, as an array of some fixed size; NULLs hold anything."""

_EPOCH_DAYS: Final = 10_957
"""From 1970 to 2000, where PostgreSQL counts from."""
_EPOCH_MICROS: Final = _EPOCH_DAYS * 86_400_000_000


def _numbers(dtype: str, *accepted: Any) -> tuple[tuple[Any, ...], Callable[[Any], Cells]]:
    def cells(array: Any) -> Cells:
        return np.asarray(_without_nulls(array)).astype(dtype)

    return accepted, cells


def _bools(array: Any) -> Cells:
    return np.asarray(_without_nulls(array.cast(pa.uint8())))


def _days(array: Any) -> Cells:
    days = np.asarray(_without_nulls(array.cast(pa.int32())))
    finite = (days != DAYS_MAX) & (days != DAYS_MIN)
    return np.where(finite, days - np.int32(_EPOCH_DAYS), days).astype(">i4")


def _micros(array: Any) -> Cells:
    micros = np.asarray(_without_nulls(array.cast(pa.int64())))
    finite = (micros != MICROS_MAX) & (micros != MICROS_MIN)
    return np.where(finite, micros - np.int64(_EPOCH_MICROS), micros).astype(">i8")


_FIXED: Final[dict[str, tuple[tuple[Any, ...], Callable[[Any], Cells]]]] = {
    "bool": ((pa.bool_(),), _bools),
    "int2": _numbers(">i2", pa.int16()),
    "int4": _numbers(">i4", pa.int16(), pa.int32()),
    "int8": _numbers(">i8", pa.int16(), pa.int32(), pa.int64()),
    "float4": _numbers(">f4", pa.float32()),
    "float8": _numbers(">f8", pa.float64()),
    "date": ((pa.date32(),), _days),
    "timestamp": ((pa.timestamp("us"),), _micros),
    "timestamptz": ((pa.timestamp("us", "UTC"),), _micros),
    "uuid": ((pa.string(), pa.large_string()), uuid_cells),
    "numeric": ((pa.string(), pa.large_string()), numeric_cells),
}
"""Target's type → what it may be made of, and how."""

_TEXTS: Final = frozenset({"text", "varchar", "bpchar", "json", "enum"})
"""Types whose binary form is their text."""


def encodes(kind: str, arrow: Any) -> bool:
    """True when values of the Arrow type can be sent to a column of the target's type."""
    if kind in _FIXED:
        return arrow in _FIXED[kind][0]
    if kind == "bytea":
        return arrow in (pa.binary(), pa.large_binary())
    return (kind in _TEXTS or kind == "jsonb") and arrow in (pa.string(), pa.large_string())


def binary_bytes(kinds: list[str], columns: list[Any]) -> memoryview:
    """Rows as COPY reads them. Every kind must be encodable; may raise Unfit."""
    count = len(columns[0])
    if not count:
        return memoryview(b"")
    block = _Block(count)
    block.fixed(np.full(count, len(columns), dtype=">i2"))
    for kind, column in zip(kinds, columns, strict=True):
        if kind in _FIXED:
            block.field(_FIXED[kind][1](column), column)
        else:
            block.text(column, b"\1" if kind == "jsonb" else b"")
    return block.joined()


class _Block:
    """Rows in the making: the record that is being filled, and the pieces before it."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._record: list[Cells] = []
        self._pieces: list[Any] = []

    def fixed(self, cells: Cells) -> None:
        """Something that is in every row, in the same length."""
        self._record.append(cells)

    def field(self, cells: Cells, column: Any) -> None:
        """A field of fixed length, unless it is NULL."""
        size = cells.dtype.itemsize
        if not column.null_count:
            self.fixed(np.full(self._count, size, dtype=">i4"))
            self.fixed(cells)
            return
        there = np.asarray(pc.is_valid(column))
        self.fixed(np.where(there, size, -1).astype(">i4"))
        self._flush()
        ends = np.zeros(self._count + 1, dtype=np.int32)
        np.cumsum(there * np.int32(size), out=ends[1:])
        self._pieces.append(_binary(ends, np.ascontiguousarray(cells[there])))

    def text(self, column: Any, mark: bytes) -> None:
        """A field of any length, with a mark before it."""
        sizes = np.asarray(pc.fill_null(pc.binary_length(column), -1 - len(mark)))
        self.fixed((sizes + len(mark)).astype(">i4"))
        if mark and column.null_count:
            column = pc.binary_join_element_wise(mark.decode(), column, "")
        elif mark:
            self.fixed(np.full(self._count, np.void(mark)))
        self._flush()
        kind = pa.large_binary() if _is_large(column.type) else pa.binary()
        self._pieces.append(column.cast(kind).cast(pa.binary()))

    def joined(self) -> memoryview:
        """The bytes of all rows."""
        if self._record:
            self._flush()
        rows = self._pieces[0]
        if len(self._pieces) > 1:
            rows = pc.binary_join_element_wise(
                *self._pieces,
                pa.scalar(b"", pa.binary()),
                null_handling="replace",
                null_replacement="",
            )
        _, ends, values = rows.buffers()
        edges = np.frombuffer(ends, dtype=np.int32)
        return memoryview(values)[int(edges[0]) : int(edges[self._count])]

    def _flush(self) -> None:
        record = np.empty(
            self._count, dtype=[(f"f{i}", cells.dtype) for i, cells in enumerate(self._record)]
        )
        for i, cells in enumerate(self._record):
            record[f"f{i}"] = cells
        size = record.dtype.itemsize
        self._pieces.append(_binary(np.arange(self._count + 1, dtype=np.int32) * size, record))
        self._record = []


def _binary(ends: npt.NDArray[np.int32], values: Cells) -> Any:
    return pa.Array.from_buffers(
        pa.binary(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(values)]
    )


def _is_large(kind: Any) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))


def _without_nulls(array: Any) -> Any:
    """Some value in place of NULLs, which is not sent."""
    return pc.fill_null(array, 0) if array.null_count else array
