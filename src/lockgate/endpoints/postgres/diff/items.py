"""What travels to a task of a diff and back, as bytes (msgspec).

The endpoints' URLs are part of an item, passwords included where they are literal: an item is
shown to nobody.
"""

from lockgate.endpoints.postgres.aligned import HeldFeed
from lockgate.endpoints.postgres.copy.items import KeyColumn
from lockgate.endpoints.postgres.diff.forms import ColumnForm
from lockgate.endpoints.postgres.sink.chunks import Edge
from lockgate.model.apply import ApplyError
from lockgate.model.diffs import RangeOutcome
from lockgate.model.tables import TableName
from lockgate.model.value import Value

__all__ = ["Compared", "DiffItem", "DiffPart", "DiffReceipt", "KeySpace", "SideTable"]


class SideTable(Value, frozen=True):
    """A table as one side has it."""

    table: TableName
    columns: tuple[ColumnForm, ...]
    """Those that are compared, the same ones in the same order on both sides; the key's first."""
    key: tuple[KeyColumn, ...] = ()
    partitioned: bool = False
    row_filter: str = ""
    storage: tuple[tuple[int, int], ...] = ()
    """The table, or its partitions, and the number of the file that each had before the snapshot.
    A table that was rewritten since looks empty to the snapshot."""
    oid: int = 0
    numbers: tuple[tuple[int, str, int], ...] = ()
    """The columns that are read, by number, name and type, when the table was looked at."""


class Compared(Value, frozen=True):
    """A table on both sides."""

    source: SideTable
    target: SideTable

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell rows apart; empty where only whole rows can."""
        return tuple(each.column.name for each in self.source.key)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are compared."""
        return tuple(column.name for column in self.source.columns)


class KeySpace(Value, frozen=True):
    """A range of a table: from `low` up to, not including, `high`, in the order of the key; or, of
    keys that have no common order, those whose hash is `share` modulo `shares`."""

    no: int
    low: Edge = None
    high: Edge = None
    share: int = 0
    shares: int = 1


class DiffPart(Value, frozen=True):
    """One range of one table."""

    table: Compared
    space: KeySpace


class DiffItem(Value, frozen=True):
    """What one task does, range by range."""

    source: bytes
    target: bytes
    source_snapshot: str
    """By which a server lets another session in on a snapshot."""
    target_snapshot: str
    seed: int
    samples: int
    """Rows to show, at most, of each range."""
    parts: tuple[DiffPart, ...]
    held: HeldFeed | None = None
    """For a repair: the feed that is held where the snapshots are. None: there is no feed."""


class DiffReceipt(Value, frozen=True):
    """What came of one part: an outcome, or an error."""

    table: str
    no: int
    outcome: RangeOutcome | None = None
    error: ApplyError | None = None
