"""The tables that a feed writes in a lake: which incarnation a row is about, made and ended.

What ends a table never ends more than it knows of: all incarnations before a position of the log.
Somebody who was paused and does it late ends what had ended anyway.
"""

import contextlib
from collections.abc import Callable, Mapping

import pyarrow as pa

from lockgate.endpoints.delta.death import table_dead
from lockgate.endpoints.delta.fenced import FencedTable, TableDead
from lockgate.endpoints.delta.lake import INGEST, STABLE, Lake, has_rows, ingest_of
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.rows import SpanRow
from lockgate.model.errors import NotFound, ObjectMissing
from lockgate.model.ids import NO_TOKEN, TableId
from lockgate.model.positions import Position
from lockgate.model.value import Value

__all__ = ["Born", "LakeTable", "SinkTables"]


class LakeTable(Value, frozen=True):
    """What a table of the source is in the lake."""

    name: TableId
    """There."""
    rows: pa.Schema
    key: tuple[str, ...]
    incarnation: int = 0
    """One that another installation has made, to take part in; 0: it is to be made."""


Born = Mapping[TableId, LakeTable]
"""By the tables' names at the source."""


class SinkTables:
    """Of one feed of one home, which its birth tells from the others."""

    def __init__(
        self, lake: Place, home: str, name_of: Callable[[TableId], TableId], birth: int = 0
    ) -> None:
        self.lake = Lake(lake)
        self.ingest = ingest_of(home, birth)
        """Whose the ingests are that the feed makes."""
        self._home = home
        self._name_of = name_of

    def place_of(self, row: SpanRow) -> Place:
        """Where the table of a row lies."""
        return self.lake.place(self._name_of(row.spec.table), row.incarnation)

    def ingest_of(self, row: SpanRow) -> str:
        """Whose the ingest of a row is."""
        return row.ingest or self._home

    def open(self, row: SpanRow) -> LayeredTable:
        return LayeredTable.open(self.place_of(row), self.ingest_of(row))

    def take_part(self, row: SpanRow) -> LayeredTable:
        """The same, of a table that somebody else may have made: whatever comes before its first
        position is in it, or is of another table of the same name. And this feed brings nothing of
        before where it stands itself. TableDead when it was dropped; or was deleted by hand, and
        another one has come in its place."""
        with contextlib.suppress(NotFound):
            return self.open(row)
        place = self.place_of(row)
        begins = max(row.position, row.incarnation)
        try:
            return LayeredTable.join(place, self.ingest_of(row), row.token, begins)
        except NotFound:
            if (self.newest(row) or 0) > row.incarnation:
                raise table_dead(place) from None
            raise

    def landed(self, row: SpanRow) -> Position:
        """How far this feed has brought the row's table, dead as it may be; 0: nobody knows."""
        place = self.place_of(row).child(f"{INGEST}{self.ingest_of(row)}")
        try:
            return FencedTable.open(place).look().position
        except (NotFound, ObjectMissing, TableDead):
            return 0

    def newest(self, row: SpanRow) -> int | None:
        """The incarnation that is the row's table, whoever has made it."""
        return self.lake.newest(self._name_of(row.spec.table))

    def has_rows(self, row: SpanRow, upto: Position) -> bool:
        """Whether the stable table has all rows of one moment, up to a position or beyond."""
        marks = self.stable(row).look()
        return bool(marks.settled) and marks.position >= max(upto, marks.settled)

    def stable(self, row: SpanRow) -> FencedTable:
        return FencedTable.open(self.place_of(row).child(STABLE))

    def make(self, table: LakeTable, position: Position, *, empty: bool = False) -> LayeredTable:
        """What of it is not there yet. `empty`: there is nothing to copy, it is to be read."""
        return LayeredTable.create(
            self.lake.place(table.name, table.incarnation or position),
            self.ingest,
            table.rows,
            list(table.key),
            NO_TOKEN,
            NO_TOKEN,
            position,
            settled=position if empty else 0,
            awaits_copy=not empty,
        )

    def sweep(self, row: SpanRow) -> None:
        """End what was begun anew here and never came to be the row's: whoever began it was killed
        or outrun. It has no rows, nobody else takes part, and the row has gone past it."""
        name = self._name_of(row.spec.table)
        for incarnation in self.lake.incarnations(name):
            if row.incarnation < incarnation < row.position:
                place = self.lake.place(name, incarnation)
                ours = {self._home, self.ingest}.issuperset(self.lake.homes(place))
                if ours and not has_rows(place):
                    with contextlib.suppress(NotFound, ObjectMissing, TableDead):
                        self.lake.end(name, incarnation)

    def end(self, table: TableId, before: Position) -> None:
        """All incarnations from before a position: nobody reads or writes them any more."""
        name = self._name_of(table)
        for incarnation in self.lake.incarnations(name):
            if incarnation < before:
                with contextlib.suppress(NotFound, ObjectMissing, TableDead):
                    self.lake.end(name, incarnation)
