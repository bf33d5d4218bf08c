"""The net effect of many changes, as values: what `compact` makes and the target is given.

Rows are not copied out of the log: `Rows` holds where they lie, and gives columns block by block.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.keys import Codes
from lockgate.endpoints.postgres.sink.log import Log
from lockgate.model.errors import Terminal

__all__ = ["Events", "Index", "Mask", "NeedsOnePart", "Net", "Rows", "Truncation", "taken"]

Index = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class NeedsOnePart(Terminal):
    """The batch is right only as one transaction. Nothing was written; apply it as one part."""

    code = "needs-one-part"

    def __init__(self, what: str, *, object_: str) -> None:
        super().__init__(what, object_=object_, hint="the batch is applied again as one part")


class Truncation(NamedTuple):
    """A TRUNCATE in the window: it empties the keys for which it counts."""

    row: int
    rank: int
    """Its place in the order of the log."""
    whole: bool
    """True: for every key there is. False: ask `wiped`, the others' rows are not ours."""
    wiped: Callable[[list[Any]], Mask]


class Events(NamedTuple):
    """What happens to keys, in the order of the log."""

    row: Index
    kind: npt.NDArray[np.uint8]
    """INSERT: the key comes. DELETE: it goes. UPDATE: it stays."""
    keys: list[Any]
    """The key's columns, one value per event."""
    code: Codes
    ours: Mask
    """Which events have a key of this span and part."""
    counts: Mask
    """Which events are in the window."""
    moved: Mask
    """Per row of the log: this update takes one key and brings another."""


@dataclass(frozen=True)
class Rows:
    """Final states of rows, still lying in the log: columns are taken from it block by block."""

    log: Log
    index: Index
    elsewhere: dict[int, Index] = field(default_factory=dict)
    """Columns whose values stand in other rows of the log than `index`."""
    keeps: dict[int, Mask] = field(default_factory=dict)
    """Columns that keep what the target has, and in which rows."""
    origin: list[Any] | None = None
    """The keys under which the target has the kept values, when some are not the rows' own."""

    def __len__(self) -> int:
        return len(self.index)

    def column(self, i: int, start: int, stop: int) -> Any:
        """The values of column `i`; NULL where the target's are kept."""
        index = self.elsewhere.get(i, self.index)[start:stop]
        values = taken(self.log.new[i], index)
        keeps = self.keeps.get(i)
        if keeps is not None:
            values = pc.if_else(pa.array(keeps[start:stop]), None, values)
        return values

    def columns(self, numbers: list[int], start: int, stop: int) -> list[Any]:
        """Several columns of a block of rows."""
        return [self.column(i, start, stop) for i in numbers]


@dataclass(frozen=True)
class Net:
    """What a window of changes comes to."""

    log: Log
    truncation: Truncation | None
    deletes: list[Any]
    """The key's columns of rows to delete; whole old images when there is no key."""
    updates: Rows
    inserts: Rows
    moves: Rows
    """Rows whose kept values the target has under another key: none may be gone before."""
    events: Events | None = None
    """All of it in order, for who has to go step by step. None when there is no key."""
    known: dict[int, Index] = field(default_factory=dict)
    """For columns with unchanged values: in which row of the log each row's value stands."""

    @property
    def changes_keys(self) -> bool:
        """True when a row goes on under another key."""
        return self.events is not None and bool(self.events.moved.any())

    @property
    def rows(self) -> int:
        """How many rows are written or deleted."""
        return (
            len(self.updates)
            + len(self.inserts)
            + len(self.moves)
            + (len(self.deletes[0]) if self.deletes else 0)
        )


def taken(values: Any, index: Index) -> Any:
    """`values` at `index`, without a copy where the index is a range."""
    count = len(index)
    if count and index[-1] - index[0] == count - 1 and bool((np.diff(index) == 1).all()):
        return values.slice(int(index[0]), count)
    return values.take(pa.array(index))
