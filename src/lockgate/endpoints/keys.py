"""Keys of rows over whole columns: a number per distinct key, and the hash that places a key.

**The hash** says which span, and which part of a batch, a row belongs to. Spans are recorded at
the sink by ranges of it, so it is the same for ever, for every key, however the column is cut
into Arrow chunks and whatever its width (an int4 key that becomes int8 keeps its hash).

    mix(x)   the finaliser of splitmix64, on 64 bits:
             x += 9E3779B97F4A7C15;  x = (x ^ x>>30) * BF58476D1CE4E5B9;
             x = (x ^ x>>27) * 94D049BB133111EB;  x ^ x>>31
    word(v)  integer, bool, date (days), timestamp (µs): as stored, in 64 bits, two's complement
             float:          the bits of it as IEEE double, -0 taken as 0 and every NaN as one
             text, bytea:    w = mix(number of bytes); then w = mix(w ^ next 8 bytes, little-endian,
                             the last ones filled up with zeros), for the UTF-8 bytes of the value
             NULL:           6E756C6C6E756C6C
    hash     h = 4C6F636B67617465, then h = mix(h ^ word(v)) for each column in the key's order

In ranges it stands as 8 bytes, big-endian. Parts of a batch are equal cuts of the span's range.
"""

import sys
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lockgate.model.spans import WHOLE, KeyRange

__all__ = [
    "Codes",
    "encode",
    "has_order",
    "hashes",
    "in_range",
    "integers",
    "is_bytes",
    "is_whole",
    "whole",
]

Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_SEED: Final = np.uint64(0x4C6F636B67617465)
_NULL: Final = np.uint64(0x6E756C6C6E756C6C)
_NAN: Final = np.uint64(0x7FF8000000000000)
_ALL: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
_NEAR: Final = 4
"""Integers lie close together when there are at most so many times as many of them."""
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)

assert sys.byteorder == "little", "words are read as the machine has them"


def hashes(columns: list[Any]) -> Words:
    """The hash of every key; `columns` are the key's Arrow arrays, in the key's order."""
    out: Words = np.full(len(columns[0]), _SEED, dtype=np.uint64)
    for column in columns:
        out ^= _words(column)
        _mix(out)
    return out


def in_range(found: Words, keys: KeyRange) -> Mask:
    """Which hashes lie in the range."""
    low, high = _bound(keys.low), None if keys.high is None else _bound(keys.high)
    mask: Mask = np.ones(len(found), dtype=np.bool_)
    if low >= 2**64 or high == 0:
        mask[:] = False
        return mask
    if low > 0:
        mask &= found >= np.uint64(low)
    if high is not None and high < 2**64:
        mask &= found < np.uint64(high)
    return mask


def is_whole(keys: KeyRange) -> bool:
    """True when no hash lies outside the range."""
    return keys == WHOLE or (_bound(keys.low) == 0 and keys.high is None)


def _bound(edge: bytes) -> int:
    """The least hash that is not below `edge`, which may be shorter or longer than 8 bytes."""
    value = int.from_bytes(edge[:8].ljust(8, b"\0"), "big")
    return value + 1 if len(edge) > 8 else value


def _mix(x: Words) -> None:
    """In place."""
    x += _STEP
    x ^= x >> np.uint64(30)
    x *= _FIRST
    x ^= x >> np.uint64(27)
    x *= _SECOND
    x ^= x >> np.uint64(31)


def _words(column: Any) -> Words:
    array = whole(column)
    kind = array.type
    if pa.types.is_floating(kind):
        doubles = np.asarray(pc.fill_null(array.cast(pa.float64()), 0.0), dtype=np.float64) + 0.0
        words = doubles.view(np.uint64).copy()
        words[np.isnan(doubles)] = _NAN
    elif is_bytes(kind):
        words = _digests(array)
    else:
        words = integers(array).view(np.uint64).copy()
    if array.null_count:
        words[np.asarray(pc.is_null(array))] = _NULL
    return words


def integers(array: Any) -> npt.NDArray[np.int64]:
    """The values of a column that is no float and no text, as stored; 0 for NULL."""
    kind = array.type
    if pa.types.is_date32(kind):
        array = array.cast(pa.int32())
    elif not pa.types.is_boolean(kind) and not pa.types.is_integer(kind):
        array = array.cast(pa.int64())
    array = array.cast(pa.int64())
    if array.null_count:
        array = pc.fill_null(array, 0)
    return np.asarray(array, dtype=np.int64)


def is_bytes(kind: Any) -> bool:
    """True for texts and bytes."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    )


def has_order(kind: Any) -> bool:
    """True for numbers, dates and their like: as stored they have the order of PostgreSQL."""
    return not pa.types.is_floating(kind) and not is_bytes(kind)


def _digests(array: Any) -> Words:
    """One word for each text. A loop over words of text, not over rows: all rows step together."""
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    kind = np.int64 if large else np.int32
    _, edges, values = array.buffers()
    count = len(array)
    if edges is None or count == 0:
        return np.zeros(count, dtype=np.uint64)
    at = np.frombuffer(edges, dtype=kind)[array.offset : array.offset + count + 1].astype(np.int64)
    start, length = at[:-1], at[1:] - at[:-1]
    text = np.zeros(int(at[-1] - at[0]) + 8, dtype=np.uint8)
    if values is not None:
        text[:-8] = np.frombuffer(values, dtype=np.uint8)[at[0] : at[-1]]
    start = start - at[0]
    window: Words = np.ndarray((len(text) - 7,), dtype="<u8", buffer=text, strides=(1,))
    out: Words = length.astype(np.uint64)
    _mix(out)
    step, longest = 0, int(length.max())
    while step < longest:
        rows = np.flatnonzero(length > step)
        word = window[start[rows] + step]
        unused = np.clip(8 - (length[rows] - step), 0, 7).astype(np.uint64)
        word &= _ALL >> (unused * np.uint64(8))
        word ^= out[rows]
        _mix(word)
        out[rows] = word
        step += 8
    return out


class Codes(NamedTuple):
    """Keys as numbers: rows with one key have one number, numbers go from 0 to `size` - 1."""

    codes: npt.NDArray[np.int64]
    size: int
    gaps: bool = False
    """There may be numbers that no row has; then there is neither `first` nor `last`."""

    def first(self) -> npt.NDArray[np.int64]:
        """For each number, the first row that has it."""
        out = np.empty(self.size, dtype=np.int64)
        out[self.codes[::-1]] = np.arange(len(self.codes) - 1, -1, -1)
        return out

    def last(self) -> npt.NDArray[np.int64]:
        """For each number, the last row that has it."""
        out = np.empty(self.size, dtype=np.int64)
        out[self.codes] = np.arange(len(self.codes))
        return out


def encode(columns: list[Any], *, gaps: bool = False) -> Codes:
    """Number the keys, exactly: by their values, not by their hash. NULL is a value like others.

    With `gaps`, integers that lie close together are their own numbers, which is quickest.

    Two keys are one when they are written alike. PostgreSQL may hold keys for equal that are
    not (numeric 1.0 and 1.00): the log names a row as it is stored, so that does not matter.
    """
    if gaps and len(columns) == 1 and (near := _near(whole(columns[0]))) is not None:
        return near
    out = _numbered(columns[0])
    for column in columns[1:]:
        more = _numbered(column)
        if out.size * more.size >= 2**62:
            raise OverflowError("more keys than can be numbered")
        out = _numbered(pa.array(out.codes * max(more.size, 1) + more.codes))
    return out


def _near(array: Any) -> Codes | None:
    if not pa.types.is_integer(array.type) or array.null_count or not len(array):
        return None
    values = integers(array)
    low, high = int(values.min()), int(values.max())
    if high - low > _NEAR * len(values):
        return None
    return Codes(values - low, high - low + 1, gaps=True)


def _numbered(column: Any) -> Codes:
    array = whole(column)
    if pa.types.is_float64(array.type):
        array = array.view(pa.int64())
    elif pa.types.is_float32(array.type):
        array = array.view(pa.int32())
    found = array.dictionary_encode(null_encoding="encode")
    return Codes(np.asarray(found.indices).astype(np.int64), len(found.dictionary))


def whole(column: Any) -> Any:
    """One Arrow array out of a column that may be chunked."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if is_bytes(column.type) and column.nbytes >= 2**31:
        wide = pa.large_binary() if pa.types.is_binary(column.type) else pa.large_string()
        column = column.cast(wide)
    return column.combine_chunks()
