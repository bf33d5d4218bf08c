"""Floors: up to where each part of a span's range is applied at the sink, and how a sink refuses.

A span's row has one *floor* per part of its range, because a merged span starts with what
its sources had applied. Its position is the least of them.
"""

import enum

from lockgate.model.positions import Position
from lockgate.model.spans import KeyRange

Floors = tuple[tuple[KeyRange, Position], ...]


class Refusal(enum.Enum):
    """Why the sink's fence did not let something happen. Nothing was changed."""

    NEWER = "a newer token was claimed"
    GONE = "there is no such row"
    MOVED = "the row is not where the transaction started from"
    CLOSED = "the feed is closed"
    BEHIND = "somebody concerned has not come this far"
    HELD = "the feed is held before this position"


def least(floors: Floors) -> Position:
    """The position up to which everything in these floors is applied."""
    return min([position for _, position in floors])


def joined(floors: list[tuple[KeyRange, Position]]) -> Floors:
    """The same floors in key order, neighbours at one position made one."""
    floors.sort(key=_low)
    out: list[tuple[KeyRange, Position]] = []
    for keys, position in floors:
        if out and out[-1][1] == position and out[-1][0].touches(keys):
            out[-1] = (KeyRange(out[-1][0].low, keys.high), position)
        else:
            out.append((keys, position))
    return tuple(out)


def _low(floor: tuple[KeyRange, Position]) -> bytes:
    return floor[0].low


def raised(floors: Floors, to: Position) -> Floors:
    """The floors after everything up to `to` is applied."""
    if len(floors) == 1:
        keys, position = floors[0]
        return ((keys, max(position, to)),)
    return joined([(keys, max(position, to)) for keys, position in floors])
