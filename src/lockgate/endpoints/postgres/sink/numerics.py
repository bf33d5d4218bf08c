"""numeric and uuid from PostgreSQL's texts into its binary forms, whole columns at a time.

A numeric is sent as groups of four decimal digits with the weight of the first, a sign, and the
number of digits behind the point. Texts are laid into one matrix of digits, aligned at the point
and filled up with zeros to whole groups; the server takes leading and trailing zero groups and
drops them. So all values of a block have cells of one size, and no digit is lost.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Unfit", "numeric_cells", "uuid_cells"]

Bytes = npt.NDArray[np.uint8]

_GROUP: Final = 4
_DIGITS_MAX: Final = 80
"""Of a block's longest numbers. The matrix has room for them in every row: longer ones are text."""
_NEGATIVE: Final = 0x4000
_SPECIAL: Final = {"NaN": 0xC000, "Infinity": 0xD000, "-Infinity": 0xF000}
_SPECIAL_TEXTS: Final = pa.array(list(_SPECIAL))

_UUID: Final = 36
_DASHES: Final = (8, 13, 18, 23)
_NIBBLES: Final = np.full(256, 255, dtype=np.uint8)
_NIBBLES[np.frombuffer(b"0123456789abcdef", dtype=np.uint8)] = np.arange(16)
_NIBBLES[np.frombuffer(b"ABCDEF", dtype=np.uint8)] = np.arange(10, 16)


class Unfit(Exception):
    """A text that is not of its type's own form. The server shall read it as text and judge."""


def numeric_cells(texts: Any) -> npt.NDArray[np.void]:
    """The binary forms; for NULL, any."""
    texts = pc.fill_null(texts, "0") if texts.null_count else texts
    sign = np.zeros(len(texts), dtype=np.int64)
    special = pc.is_in(texts, _SPECIAL_TEXTS)
    if pc.any(special).as_py():
        codes = np.asarray(pc.fill_null(pc.index_in(texts, _SPECIAL_TEXTS), 0), dtype=np.int64)
        sign = np.where(np.asarray(special), np.array(list(_SPECIAL.values()))[codes], sign)
        texts = pc.if_else(special, "0", texts)
    start, length, data = _laid_out(texts)
    if length.min() < 1:
        raise Unfit("numeric")
    minus = data[start] == ord("-")
    sign = np.where(minus, _NEGATIVE, sign)
    start, length = start + minus, length - minus
    dot = np.asarray(pc.find_substring(texts, ".")).astype(np.int64)
    point = np.where(dot < 0, length, dot - minus)
    behind = np.maximum(length - point - 1, 0)
    if point.min() < 1 or point.max() + behind.max() > _DIGITS_MAX:
        raise Unfit("numeric")
    before_groups = -(-int(point.max()) // _GROUP)
    behind_groups = -(-int(behind.max()) // _GROUP)
    digits = np.zeros((len(texts), _GROUP * (before_groups + behind_groups)), dtype=np.uint8)
    for place in range(int(point.max())):
        _lay(
            digits,
            _GROUP * before_groups - 1 - place,
            data,
            start + point - 1 - place,
            point > place,
        )
    for place in range(int(behind.max())):
        _lay(
            digits, _GROUP * before_groups + place, data, start + point + 1 + place, behind > place
        )
    if digits.max() > 9:
        raise Unfit("numeric")
    grouped = digits.reshape(len(texts), -1, _GROUP)
    groups = np.zeros(grouped.shape[:2], dtype=np.int16)
    for place in range(_GROUP):
        groups *= 10
        groups += grouped[:, :, place]
    count = groups.shape[1]
    cells = np.empty((len(texts), 4 + count), dtype=">i2")
    cells[:, 0] = count
    cells[:, 1] = before_groups - 1
    cells[:, 2] = sign.astype(np.uint16).view(np.int16)
    cells[:, 3] = behind
    cells[:, 4:] = groups
    return _as_cells(cells.view(np.uint8))


def _lay(digits: Bytes, column: int, data: Bytes, index: Any, there: Any) -> None:
    """One digit of every number that is so long."""
    if there.all():
        digits[:, column] = data[index] - 48
    else:
        digits[there, column] = data[index[there]] - 48


def uuid_cells(texts: Any) -> npt.NDArray[np.void]:
    """The 16 bytes; for NULL, any."""
    if texts.null_count:
        texts = pc.fill_null(texts, "00000000-0000-0000-0000-000000000000")
    _, length, data = _laid_out(texts)
    if (length != _UUID).any():
        raise Unfit("uuid")
    matrix = data[: len(texts) * _UUID].reshape(-1, _UUID)
    if (matrix[:, _DASHES] != ord("-")).any():
        raise Unfit("uuid")
    nibbles = _NIBBLES[np.delete(matrix, _DASHES, axis=1)]
    if (nibbles == 255).any():
        raise Unfit("uuid")
    pairs: Bytes = nibbles[:, ::2] * np.uint8(16) + nibbles[:, 1::2]
    return _as_cells(pairs)


def _laid_out(texts: Any) -> tuple[Any, Any, Bytes]:
    """Starts, lengths and the bytes of all texts, from 0 on."""
    large = pa.types.is_large_string(texts.type)
    _, offsets, values = texts.buffers()
    edges = np.frombuffer(offsets, dtype=np.int64 if large else np.int32)
    edges = edges[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    data = np.frombuffer(values, dtype=np.uint8)[edges[0] : edges[-1]]
    return edges[:-1] - edges[0], np.diff(edges), data


def _as_cells(matrix: Bytes) -> npt.NDArray[np.void]:
    packed = np.ascontiguousarray(matrix)
    return packed.view(f"V{packed.shape[1]}")[:, 0]
