"""What travels to a copy task and back, as bytes (msgspec).

The endpoints' URLs are part of an item, passwords included where they are literal: an item is
shown to nobody.
"""

import msgspec

from lockgate.endpoints.postgres.sink.chunks import Chunk
from lockgate.model.apply import ApplyError
from lockgate.model.feed_config import Mask
from lockgate.model.floors import Refusal
from lockgate.model.ids import FeedId, SpanId, Token
from lockgate.model.tables import Column, TableName
from lockgate.model.value import Value

__all__ = ["CopyItem", "CopyPart", "CopyReceipt", "CopyTable", "KeyColumn"]


class KeyColumn(Value, frozen=True):
    """One column of the key that a table is cut by."""

    column: Column
    collation: tuple[str, str] | None = None
    """Where it is not the type's own."""


class CopyTable(Value, frozen=True):
    """How rows of one table are read and written."""

    source: TableName
    target: TableName
    columns: tuple[str, ...]
    key: tuple[KeyColumn, ...] = ()
    """Empty: the table is cut by where rows lie on disk."""
    masks: dict[str, Mask] = msgspec.field(default_factory=dict)
    row_filter: str = ""
    partitioned: bool = False
    binary: bool = False
    """Both sides write and read these columns in the same binary form."""
    oid: int = 0
    numbers: tuple[tuple[int, str, int], ...] = ()
    """The columns that are read, by number, name and type, when the table was looked at."""
    storage: tuple[tuple[int, int], ...] = ()
    """The table, or its partitions, and the number of the file that each had before the snapshot.
    A table that was rewritten since looks empty to the snapshot."""


class CopyPart(Value, frozen=True):
    """One chunk of one span."""

    span: SpanId
    token: Token
    table: CopyTable
    chunk: Chunk
    run: int = 0
    """The copy run that it belongs to."""


class CopyItem(Value, frozen=True):
    """What one task does, part by part, each in a transaction of its own at the target."""

    feed: FeedId
    source: bytes
    target: bytes
    snapshot_id: str
    """By which the source lets another session in on the run's snapshot."""
    snapshot: str
    """What is recorded of it."""
    parts: tuple[CopyPart, ...]


class CopyReceipt(Value, frozen=True):
    """What came of one part. With neither refusal nor error, it has landed, now or before."""

    span: SpanId
    chunk: int
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    refusal: Refusal | None = None
    error: ApplyError | None = None

    @property
    def landed(self) -> bool:
        return self.refusal is None and self.error is None
