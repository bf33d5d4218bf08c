"""Typed Arrow columns out of cells: the bytes are taken once, straight from the stream's buffer.

The cells of a column, as offsets into the buffer, `start end start end …`, are a binary array in
which every second element is a value and the others are what lies between. Taking the values
out of it is one copy per value, in Arrow's own loop.
"""

import hashlib
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from lockgate.endpoints.postgres.pgoutput.loads import SPARE, Loads
from lockgate.endpoints.postgres.pgoutput.malformed import Malformed
from lockgate.endpoints.postgres.pgoutput.relations import Mask, MaskKind
from lockgate.endpoints.postgres.pgoutput.tuples import Cells, Flags
from lockgate.endpoints.postgres.types import from_bytes, from_text

__all__ = ["SPAN_MAX", "Window", "column", "masked"]

SPAN_MAX: Final = 2**31 - 1
"""Offsets are 32-bit: the rows of one batch lie within this many bytes of the buffer."""

_TRUE: Final = ord("t")
_FALSE: Final = ord("f")


class Window:
    """The part of a buffer that the rows of one batch lie in."""

    def __init__(self, loads: Loads, start: int, end: int) -> None:
        if end - start > SPAN_MAX:
            raise ValueError("the rows are too far apart")
        self.loads = loads
        self.start = start
        # A null at the very end is taken to begin where a value of it would: behind the end.
        self.buffer = pa.py_buffer(loads.data[start : end + SPARE])


def column(window: Window, cells: Cells, to: pa.DataType, object_: str) -> pa.Array:
    """The column's values as the type `to`."""
    if to == pa.bool_():
        return _booleans(window, cells, object_)
    taken = _taken(window, cells, pa.binary())
    if to != pa.string():
        return from_text(_viewed(taken, pa.string()), to, object_)
    return from_bytes(taken, object_)


def masked(window: Window, cells: Cells, mask: Mask) -> pa.Array:
    """What travels instead of the column's values: text."""
    count = len(cells.starts)
    if mask.kind is MaskKind.NULL:
        return pa.nulls(count, pa.string())
    if mask.kind is MaskKind.FIXED:
        return pa.repeat(pa.scalar(mask.text, pa.string()), count)
    found = _taken(window, cells, pa.binary()).dictionary_encode()
    hashes = [hashlib.sha256(value).hexdigest() for value in found.dictionary.to_pylist()]
    return pa.array(hashes, pa.string()).take(found.indices)


def validity(missing: Flags | None) -> pa.Buffer | None:
    """Arrow's bitmap of the values that are there."""
    if missing is None or not missing.any():
        return None
    return pa.py_buffer(np.packbits(~missing, bitorder="little"))


def _booleans(window: Window, cells: Cells, object_: str) -> pa.Array:
    letters = window.loads.data[cells.starts]
    true = letters == _TRUE
    right = (true | (letters == _FALSE)) & (cells.lengths == 1)
    if cells.missing is not None:
        right |= cells.missing
    if not right.all():
        raise Malformed("a boolean is neither t nor f", object_=object_)
    bits = pa.py_buffer(np.packbits(true, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(true), [validity(cells.missing), bits])


def _taken(window: Window, cells: Cells, to: pa.DataType) -> pa.Array:
    count = len(cells.starts)
    if not count:
        return pa.array([], to)
    starts = cells.starts - window.start
    pairs = starts + cells.lengths
    pairs <<= 32  # An end and a start in one number, which is written in one go.
    pairs |= starts
    buffers = [None, pa.py_buffer(pairs.astype("<i8", copy=False)), window.buffer]
    between = pa.Array.from_buffers(to, 2 * count - 1, buffers)
    taken = between.take(_every_second(count))
    bitmap = validity(cells.missing)
    if bitmap is None:
        return taken
    return pa.Array.from_buffers(to, count, [bitmap, *taken.buffers()[1:]])


@lru_cache(maxsize=8)
def _every_second(count: int) -> pa.Array:
    return pa.array(np.arange(0, 2 * count, 2, dtype=np.int32))


def _viewed(array: pa.Array, to: pa.DataType) -> pa.Array:
    """The same buffers as another type, unchecked."""
    return pa.Array.from_buffers(to, len(array), array.buffers())
