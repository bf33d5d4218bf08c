"""Schema changes and sync points: what a barrier holds the dispatchers for."""

import enum

from lockgate.model.ids import TableId
from lockgate.model.positions import Position
from lockgate.model.value import Value


class DdlKind(enum.Enum):
    """What the entry does to the tables it names."""

    CREATE = "create"
    DROP = "drop"
    ALTER = "alter"
    SYNC = "sync"


class Ddl(Value, frozen=True, array_like=True):
    """One entry of a source's log that concerns whole tables.

    `tables` names what it concerns: one table, several, or, for a sync point or a change of
    the whole database, none with `every_table` set. Dispatchers of those tables stop right
    before `position`; the trigger dispatcher writes the change and moves them all to it.
    """

    position: Position
    kind: DdlKind
    tables: tuple[TableId, ...] = ()
    every_table: bool = False
    statement: str = ""
    drops: tuple[TableId, ...] = ()
    """Those of `tables` that end here although others go on: a rename, a migration in one go."""
    renames: tuple[tuple[TableId, TableId], ...] = ()
    """What tables were called before and are called afterwards; two may have swapped names."""

    @property
    def dropped(self) -> tuple[TableId, ...]:
        """The names that end with this entry."""
        return self.tables if self.kind is DdlKind.DROP else self.drops

    @property
    def ended(self) -> frozenset[TableId]:
        """The names that do not stand for the same table afterwards, if for any.

        A span is of one table. Whatever a name comes to stand for has a span of its own.
        """
        return frozenset(self.dropped).union(*self.renames)

    def concerns(self, table: TableId) -> bool:
        """True when rows of `table` before and after this entry must not be mixed."""
        return self.every_table or table in self.tables
