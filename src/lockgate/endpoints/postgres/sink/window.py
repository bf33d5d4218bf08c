"""The window of one apply: which changes of the log count, by key, position and transaction.

A span goes on past the floor of each of its ranges; one part of a batch takes its share of the
range (`part_range`: the fence turns receipts into floors by the same cut); a key that was copied
leaves out what its snapshot saw.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lockgate.endpoints.keys import hashes, in_range, is_whole
from lockgate.endpoints.postgres.sink.snapshots import ChunkOf, Snapshot
from lockgate.model.floors import Floors
from lockgate.model.positions import Position

__all__ = ["NOT_MINE", "Window"]

Index = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NOT_MINE: Final = np.iinfo(np.int64).max
"""The floor of a key that belongs to another span or part: nothing is past it."""


class Window(NamedTuple):
    """Which changes are to be applied."""

    floors: Floors
    """Ranges of keys, and past which position each goes on. Keys outside belong to others."""
    to: Position
    parts: int = 1
    """In how many parts the batch is applied, of which this is one."""
    snapshots: tuple[Snapshot, ...] = ()
    chunk_of: ChunkOf | None = None
    """Needed when there are several snapshots."""

    @property
    def whole(self) -> bool:
        """True when every key is in it, from one position on."""
        return len(self.floors) == 1 and is_whole(self.floors[0][0])

    def floors_of(self, keys: list[Any]) -> Index | Position:
        """Past which position the changes of each key count; one number for all if it is one."""
        if self.whole:
            return self.floors[0][1]
        found = hashes(keys)
        out: Index = np.full(len(found), NOT_MINE, dtype=np.int64)
        for keys_, position in self.floors:
            out[in_range(found, keys_)] = position
        return out

    def seen(self, xids: Index, chunk: Index | None) -> Mask | None:
        """Which changes the copy has already; `chunk` is the number of each one's snapshot."""
        if not self.snapshots:
            return None
        distinct, code = np.unique(xids, return_inverse=True)
        if len(self.snapshots) == 1:
            return self.snapshots[0].sees(distinct)[code]
        sees = np.stack([snapshot.sees(distinct) for snapshot in self.snapshots])
        seen: Mask = sees[chunk, code]
        return seen

    def chunks_of(self, keys: list[Any]) -> Index | None:
        """The number of each key's snapshot, when that is a question. A key of another span is in
        none of our chunks and does not count anyway: it is not asked about."""
        if len(self.snapshots) < 2:
            return None
        if self.chunk_of is None:
            raise ValueError("several snapshots, and nobody to say which keys they cover")
        if self.whole:
            return self.chunk_of(keys)
        out: Index = np.zeros(len(keys[0]), dtype=np.int64)
        mine = np.flatnonzero(np.asarray(self.floors_of(keys)) != NOT_MINE)
        if len(mine):
            out[mine] = self.chunk_of([column.take(pa.array(mine)) for column in keys])
        return out
