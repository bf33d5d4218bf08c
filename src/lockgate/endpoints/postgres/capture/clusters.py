"""Changes put in the order of their keys' hashes, so that each part of a batch reads its own share.

A big batch is applied in parts, each a range of the keys. Without an order every part would read
all files of the batch: with eight parts, eight times.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.keys import hashes, whole
from lockgate.model.spans import KeyRange
from lockgate.model.tables import TableShape
from lockgate.store.changelog.groups import Group

__all__ = ["clustered"]

_BITS: Final = 3
_COUNT: Final = 1 << _BITS
_COMMON: Final = _COUNT
"""Of changes that concern keys of two ranges, or all of them."""
_ROWS_MIN: Final = 20_000
"""Fewer are read whole as quickly."""


def clustered(
    table: pa.Table, shape: TableShape, rows_min: int = _ROWS_MIN
) -> tuple[pa.Table, list[Group]]:
    """The changes, group after group; as they are, and no groups, when that is not worth it."""
    if table.num_rows < rows_min or not shape.key:
        return table, []
    table = table.combine_chunks()
    places = _places(table, shape)
    counts = np.bincount(places, minlength=_COUNT + 1)
    order = np.argsort(places, kind="stable")
    ranges = [*map(_range, range(_COUNT)), None]
    groups = [
        Group(count, keys) for count, keys in zip(counts.tolist(), ranges, strict=True) if count
    ]
    return table.take(pa.array(order)), groups


def _places(table: pa.Table, shape: TableShape) -> npt.NDArray[np.uint8]:
    """The group of each change."""
    new, has_new = _of(table["new"], shape)
    old, has_old = _of(table["old"], shape)
    places = np.where(has_new, new, old)
    places[~has_new & ~has_old] = _COMMON
    places[has_new & has_old & (new != old)] = _COMMON
    return places


def _of(column: Any, shape: TableShape) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """The group of each image's key, and which images there are."""
    images = whole(column)
    fields = dict(zip([field.name for field in images.type], images.flatten(), strict=True))
    found = hashes([fields[name] for name in shape.key]) >> np.uint64(64 - _BITS)
    return found.astype(np.uint8), np.asarray(pc.is_valid(images))


def _range(number: int) -> KeyRange:
    """The hashes that begin with these bits."""
    step = 256 >> _BITS
    low = bytes([number * step]) if number else b""
    return KeyRange(low, bytes([(number + 1) * step]) if number + 1 < _COUNT else None)
