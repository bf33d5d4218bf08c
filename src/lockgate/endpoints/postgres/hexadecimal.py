r"""bytea between its bytes and PostgreSQL's text `\x0a1b`, whole columns at a time.

Both ways look up pairs: two digits are one 16-bit number, and so is the leading `\x`. Every text
then is a whole number of pairs, and all texts of a column, one after the other, are one array.
"""

from itertools import product
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["to_bytes", "to_text"]

_PREFIX: Final = int.from_bytes(b"\\x", "little")
_NO_DIGITS: Final = 256


def _digits() -> npt.NDArray[np.uint16]:
    """For each byte, its two digits as they stand in memory."""
    pairs = b"".join(f"{value:02x}".encode() for value in range(256))
    return np.frombuffer(pairs, "<u2")


def _bytes() -> npt.NDArray[np.uint16]:
    """For each pair of digits its byte; for what is no such pair, `_NO_DIGITS`."""
    table = np.full(2**16, _NO_DIGITS, np.uint16)
    for value in range(256):
        digits = f"{value:02x}"
        for text in product(*zip(digits, digits.upper(), strict=True)):
            table[int.from_bytes("".join(text).encode(), "little")] = value
    return table


_DIGITS: Final = _digits()
_BYTES: Final = _bytes()


def to_bytes(text: pa.Array) -> pa.Array:
    """The bytes that the texts stand for. Raises ValueError when one is not of this form."""
    offsets, data = _parts(text)
    filled = ~_nulls(text)
    starts = (offsets[:-1] - offsets[0])[filled]
    if ((offsets - offsets[0]) & 1).any():
        raise ValueError("a bytea has an odd number of digits")
    pairs = data[offsets[0] : offsets[-1]].view("<u2")
    heads = starts // 2
    if len(heads) and (heads[-1] >= len(pairs) or (pairs[heads] != _PREFIX).any()):
        raise ValueError(r"a bytea does not begin with \x")
    digits = np.ones(len(pairs), np.bool_)
    digits[heads] = False
    values = _BYTES[pairs[digits]]
    if (values == _NO_DIGITS).any():
        raise ValueError("a bytea has something else than hexadecimal digits")
    seen = np.concatenate([[0], np.cumsum(filled, dtype=np.int32)])
    ends = ((offsets - offsets[0]) // 2 - seen).astype(np.int32)
    return _array(pa.binary(), text, ends, values.astype(np.uint8))


def to_text(values: pa.Array) -> pa.Array:
    """The bytes as PostgreSQL's text. An array's text must stay below 2 GiB."""
    offsets, data = _parts(values)
    filled = ~_nulls(values)
    seen = np.concatenate([[0], np.cumsum(filled, dtype=np.int64)])
    ends = (offsets - offsets[0]).astype(np.int64) + seen
    if ends[-1] * 2 >= 2**31:
        raise ValueError("too many bytes for one array of texts")
    pairs = np.empty(ends[-1], "<u2")
    digits = np.ones(ends[-1], np.bool_)
    heads = ends[:-1][filled]
    pairs[heads] = _PREFIX
    digits[heads] = False
    pairs[digits] = _DIGITS[data[offsets[0] : offsets[-1]]]
    return _array(pa.string(), values, (ends * 2).astype(np.int32), pairs)


def _parts(array: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """The array's offsets and bytes. A null has no length."""
    if not len(array):
        return np.zeros(1, np.int32), np.zeros(0, np.uint8)
    if array.null_count:
        array = array.fill_null("" if array.type == pa.string() else b"")
    _, offsets, data = array.buffers()
    found = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    return found, np.frombuffer(data or b"", np.uint8)


def _nulls(array: pa.Array) -> npt.NDArray[np.bool_]:
    if not array.null_count:
        return np.zeros(len(array), np.bool_)
    return np.asarray(array.is_null())


def _array(
    to: pa.DataType,
    like: pa.Array,
    offsets: npt.NDArray[np.int32],
    data: npt.NDArray[np.uint8] | npt.NDArray[np.uint16],
) -> pa.Array:
    validity = None
    if like.null_count:
        validity = pa.py_buffer(np.packbits(np.asarray(like.is_valid()), bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(to, len(like), buffers)
