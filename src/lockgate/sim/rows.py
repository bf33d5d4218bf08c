"""What lies at the sink: tables with rows, and the fence rows beside them.

A span's row has one *floor* per part of its range, because a merged span starts with what
its sources had applied. Its position is the least of them.
"""

from lockgate.model.ids import FeedId, SpanId, TableId, Token
from lockgate.model.positions import Position
from lockgate.model.spans import KeyRange, SpanSpec
from lockgate.sim.source import Source, Value

Floors = tuple[tuple[KeyRange, Position], ...]


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


class SpanRow:
    """What the sink knows of one span."""

    __slots__ = ("floors", "spec", "token")

    def __init__(self, spec: SpanSpec, token: Token, floors: Floors) -> None:
        self.spec = spec
        self.token = token
        self.floors = floors

    @property
    def position(self) -> Position:
        return least(self.floors)


class FeedRow:
    """What the sink knows of a feed: the trigger's row, or a tombstone."""

    __slots__ = ("closed", "position", "token")

    def __init__(self, token: Token, position: Position | None, closed: bool = False) -> None:
        self.token = token
        self.position = position
        """None before the birth."""
        self.closed = closed


class SinkTable:
    """The data of one table."""

    __slots__ = ("rows", "version")

    def __init__(self, version: int, rows: list[Value]) -> None:
        self.version = version
        self.rows = rows


class SinkFeed:
    """All that one feed has at the sink."""

    __slots__ = ("name", "row", "source", "spans", "tables")

    def __init__(self, name: FeedId, source: Source) -> None:
        self.name = name
        self.source = source
        self.row: FeedRow | None = None
        self.spans: dict[SpanId, SpanRow] = {}
        self.tables: dict[TableId, SinkTable] = {}
