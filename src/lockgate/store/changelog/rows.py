"""What the change log is made of, as values."""

from lockgate.model.ids import Millis, TableId, Token
from lockgate.model.positions import Position
from lockgate.model.value import Value

__all__ = ["LogState", "LogView", "Naming", "Retention", "SchemaChange", "Segment"]


class Segment(Value, frozen=True, kw_only=True):
    """A file of the log, or a part of one: changes of one table in one shape, in no order."""

    id: int
    """The least `seq` in it. No two changes of a log share one, so no two segments do."""
    table: TableId
    shape: str
    """A digest of the shape, which itself is in the file: equal where the shapes are equal."""
    path: str
    """Below the root of the log's files; of one in a pack, also where in it. See `packs`."""
    low: Position
    high: Position
    """The least and the greatest position in it."""
    rows: int
    bytes: int
    written_at: Millis = 0
    """When it came into the log, by the metastore's clock; the log itself fills this in."""


class SchemaChange(Value, frozen=True, array_like=True):
    """What the source said about its schema at one position. `body` is JSON."""

    position: Position
    body: str


class LogState(Value, frozen=True):
    """Where a log ends: everything up to `resolved` is in it; `next_seq` is not used yet."""

    resolved: Position
    next_seq: int


class LogView(Value, frozen=True):
    """What a log holds of the positions after the one that was asked for, up to `upto`.

    A segment may hold changes from outside: whoever reads it looks at their positions.
    """

    resolved: Position
    """Where the whole log ends."""
    upto: Position
    segments: tuple[Segment, ...] = ()
    """By id, that is in the order of their first changes."""
    changes: tuple[SchemaChange, ...] = ()
    """By position."""


class Retention(Value, frozen=True):
    """What a log keeps although nobody needs it any more, so that targets can be rebuilt.

    A segment goes once it is older than `age_ms`, or once the log with it is larger than
    `bytes`. A limit that is None keeps for ever.
    """

    age_ms: Millis | None = None
    bytes: int | None = None


class Naming(Value, frozen=True):
    """Which of some files the log names, at one moment. `token` and `next_seq` are the log's."""

    token: Token
    next_seq: int
    paths: dict[int, str]
    """By segment."""
