"""What lies at the sink: tables with rows, and the fence rows beside them."""

from lockgate.model.floors import Floors, least
from lockgate.model.ids import FeedId, SpanId, TableId, Token
from lockgate.model.positions import Position
from lockgate.model.spans import SpanSpec
from lockgate.sim.source import Source, Value


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
