"""Row groups of a segment by the keys whose changes they hold, so that a reader skips the others'.

A large segment is written in groups, each for one range of the keys' hashes. Whoever applies a
share of the keys reads only the groups that its ranges meet. A group without a range is read by
everybody: it has what concerns several ranges. Files without this note are read whole.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import pyarrow.parquet as pq

from lockgate.model.spans import KeyRange
from lockgate.model.value import Value

__all__ = ["Group", "meeting", "note"]

_NOTE: Final = b"lockgate.groups"
"""The key of the file's metadata under which the ranges stand, one for each row group."""


class Group(Value, frozen=True):
    """So many rows, one after the other."""

    rows: int
    keys: KeyRange | None
    """None: of any key."""


def note(groups: Sequence[Group]) -> dict[str, str]:
    """What the file's metadata says of its row groups."""
    ranges = [None if group.keys is None else _words(group.keys) for group in groups]
    return {_NOTE.decode(): msgspec.json.encode(ranges).decode()}


def meeting(file: pq.ParquetFile, keys: Sequence[KeyRange]) -> list[int] | None:
    """The row groups that may hold changes of these keys; None when the file does not tell."""
    said = (file.metadata.metadata or {}).get(_NOTE)
    if said is None:
        return None
    ranges = msgspec.json.decode(said, type=list[tuple[str, str | None] | None])
    return [
        number
        for number, words in enumerate(ranges)
        if words is None or any(_range(*words).intersection(each) is not None for each in keys)
    ]


def _words(keys: KeyRange) -> tuple[str, str | None]:
    return keys.low.hex(), None if keys.high is None else keys.high.hex()


def _range(low: str, high: str | None) -> KeyRange:
    return KeyRange(bytes.fromhex(low), None if high is None else bytes.fromhex(high))
