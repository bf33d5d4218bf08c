"""The tables that a feed writes in a lake: which incarnation a row is about, made and ended.

What ends a table never ends more than it knows of: all incarnations before a position of the log.
Somebody who was paused and does it late ends what had ended anyway.
"""

import contextlib
from collections.abc import Callable, Mapping

import pyarrow as pa

from lockgate.endpoints.delta.death import table_dead
from lockgate.endpoints.delta.faults import LOST, FileCorrupt
from lockgate.endpoints.delta.fenced import FencedTable, TableDead
from lockgate.endpoints.delta.graves import bury, is_buried
from lockgate.endpoints.delta.lake import (
    INGEST,
    STABLE,
    Lake,
    has_rows,
    home_of,
    ingest_of,
    is_dead,
)
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.origins import MAKER, Origin, taken
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.pruning import refuse_cut
from lockgate.endpoints.delta.rows import SpanRow
from lockgate.model.errors import Conflict, LockgateError, NotFound, ObjectMissing, StaleOwner
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

_NOTHING_TOLD = (*LOST, TableDead)
"""Of a table that is gone, or whose log is damaged, nobody can say whose it was, nor how far it had
come. It is nobody's."""


class SinkTables:
    """Of one feed of one home, which its birth tells from the others."""

    def __init__(
        self,
        lake: Place,
        home: str,
        name_of: Callable[[TableId], TableId],
        birth: int = 0,
        source: Callable[[], str] = str,
    ) -> None:
        """`name_of` says what a table of the source is called in the lake, `source` which source
        that is; empty: it is not known."""
        self.lake = Lake(lake)
        self.ingest = ingest_of(home, birth)
        """Whose the ingests are that the feed makes."""
        self._home = home
        self._source = source
        self.name_of = name_of

    def origin(self, *, alone: bool = False) -> Origin:
        """Of what the feed brings. `alone`: and no other feed of this home may."""
        return Origin(self._source(), self.ingest, alone)

    def place_of(self, row: SpanRow) -> Place:
        """Where the table of a row lies."""
        return self.lake.place(self.name_of(row.spec.table), row.incarnation)

    def ingest_of(self, row: SpanRow) -> str:
        """Whose the ingest of a row is."""
        return row.ingest or self._home

    def ingest_at(self, row: SpanRow) -> FencedTable:
        """The ingest of a row alone, whatever is wrong with the rest of its table."""
        return FencedTable.open(self.place_of(row).child(f"{INGEST}{self.ingest_of(row)}"))

    def open(self, row: SpanRow) -> LayeredTable:
        return LayeredTable.open(self.place_of(row), self.ingest_of(row))

    def take_part(self, row: SpanRow) -> LayeredTable:
        """The same, of a table that somebody else may have made: whatever comes before its first
        position is in it, or is of another table of the same name. And this feed brings nothing of
        before where it stands itself. Conflict when that is of another source. TableDead when it
        was dropped; or was deleted by hand, and another one has come in its place.

        FileCorrupt where it does not have any more what had landed, and nobody has drained it; or
        what was drained: what comes after it would hide that.
        """
        try:
            table = self.open(row)
        except NotFound:
            return self._join(row)
        ingest = table.ingest.look()
        stable = table.stable.look()
        if ingest.dead or stable.dead:
            return table
        if row.landed > ingest.position:
            table.ingest.refuse_lost(ingest)
            if row.landed > stable.position:
                raise _changes_lost(row, table, ingest.position)
        refuse_cut(table, ingest, stable)
        return table

    def _join(self, row: SpanRow) -> LayeredTable:
        place = self.place_of(row)
        begins = max(row.position, row.incarnation)
        try:
            return LayeredTable.join(place, self.ingest_of(row), row.token, begins, self.origin())
        except NotFound:
            if (self.newest(row) or 0) > row.incarnation:
                raise table_dead(place) from None
            raise

    def landed(self, row: SpanRow) -> Position:
        """How far this feed has brought the row's table, dead as it may be; 0: nobody knows, and
        the row's own position counts."""
        try:
            return self.ingest_at(row).look().position
        except _NOTHING_TOLD:
            return 0

    def void(self, row: SpanRow) -> None:
        """Let nobody of an older token land. A dead table, or one whose token is above all of this
        feed's, is closed."""
        try:
            self.ingest_at(row).claim(row.token)
        except (StaleOwner, NotFound, ObjectMissing):
            pass
        except FileCorrupt:
            if not is_dead(self.place_of(row)):
                raise

    def newest(self, row: SpanRow) -> int | None:
        """The incarnation that is the row's table, whoever has made it."""
        return self.lake.newest(self.name_of(row.spec.table))

    def has_rows(self, row: SpanRow, upto: Position) -> bool:
        """Whether the stable table has all rows of one moment, up to a position or beyond."""
        marks = self.stable(row).look()
        return bool(marks.settled) and marks.position >= max(upto, marks.settled)

    def stable(self, row: SpanRow) -> FencedTable:
        return FencedTable.open(self.place_of(row).child(STABLE))

    def note_origin(self, table: LayeredTable) -> None:
        """Of a table from before it was noted. What is in the way now is not the next time."""
        with contextlib.suppress(LockgateError):
            self.origin().note(table.stable)

    def check_source(self, name: TableId, incarnation: int) -> None:
        """Conflict when this incarnation of a table lives, and is of another source."""
        place = self.lake.place(name, incarnation)
        with contextlib.suppress(*_NOTHING_TOLD):
            stable = FencedTable.open(place.child(STABLE))
            if not stable.look().dead:
                self.origin().check(stable.notes, place.label)

    def check_free(
        self, name: TableId, number: int, *, alone: bool = False, first: bool = False
    ) -> None:
        """Conflict where making this incarnation would take the name from a table that is not ours:
        one of another source; `alone`, also one that is another feed's of this home.

        Nor may a table with a later number have been dropped of which there are files still: what
        is older ends with them. A source comes to its own tables in order, but for the `first` ones
        of a feed nobody knows whose that was."""
        origin = self.origin()
        for incarnation in self.lake.incarnations(name):
            place = self.lake.place(name, incarnation)
            if incarnation == number or is_buried(place):
                continue
            with contextlib.suppress(*_NOTHING_TOLD):
                stable = FencedTable.open(place.child(STABLE))
                if not stable.look().dead:
                    origin.check(stable.notes, place.label)
                    if alone and self._is_rivals(stable, place):
                        raise taken("another feed of this installation has the table", place.label)
                elif incarnation > number and (first or origin.is_foreign(stable.notes)):
                    raise _not_gone(place.label)

    def _is_rivals(self, stable: FencedTable, place: Place) -> bool:
        """Another feed of this home brings a table, or has made it, and this one has no part."""
        homes = self.lake.homes(place)
        if self.ingest in homes or stable.notes.get(MAKER) == self.ingest:
            return False
        here = {home for home in homes if home_of(home) == self._home}
        # An ingest of before there was one for each feed may be anybody's.
        return bool(here - {self._home}) or self.origin().is_rival(stable.notes)

    def make(
        self,
        table: LakeTable,
        position: Position,
        *,
        empty: bool = False,
        alone: bool = False,
        first: bool = False,
    ) -> LayeredTable:
        """What of it is not there yet. `empty`: there is nothing to copy, it is to be read.

        Conflict where the name, or the incarnation, is another's: see `check_free`."""
        number = table.incarnation or position
        self.check_free(table.name, number, alone=alone, first=first)
        return LayeredTable.create(
            self.lake.place(table.name, number),
            self.ingest,
            table.rows,
            list(table.key),
            NO_TOKEN,
            NO_TOKEN,
            position,
            settled=position if empty else 0,
            awaits_copy=not empty,
            origin=self.origin(alone=alone),
        )

    def sweep(self, row: SpanRow) -> None:
        """End what was begun anew here and never came to be the row's: whoever began it was killed
        or outrun. It has no rows, nobody else takes part, and the row has gone past it.

        One that is damaged, as after a power failure, keeps readers from the row's own: they cannot
        know that it has none. Nothing depends on it: what is in the way now is not the next time.
        """
        name = self.name_of(row.spec.table)
        with contextlib.suppress(LockgateError):
            for incarnation in self.lake.incarnations(name):
                if row.incarnation < incarnation < row.position:
                    self._end_if_never_filled(name, incarnation)

    def _end_if_never_filled(self, name: TableId, incarnation: int) -> None:
        place = self.lake.place(name, incarnation)
        ours = {self._home, self.ingest}.issuperset(self.lake.homes(place))
        with contextlib.suppress(LockgateError):
            if ours and not _may_have_rows(place):
                self.lake.end(name, incarnation)

    def end(self, table: TableId, before: Position) -> None:
        """All incarnations from before a position: nobody reads or writes them any more. But those
        that are another's, who got the name when ours was dropped by hand."""
        name = self.name_of(table)
        for incarnation in self.lake.incarnations(name):
            if incarnation < before:
                place = self.lake.place(name, incarnation)
                with contextlib.suppress(ObjectMissing, TableDead):
                    try:
                        if not self._is_anothers(place):
                            self.lake.end(name, incarnation)
                    except NotFound:
                        self._end_rest(place)

    def _end_rest(self, place: Place) -> None:
        """Stable was deleted by hand, and would be there before any ingest if it were being made.
        So what is left is nobody's table, and ends by its grave, if this feed had a part in it."""
        if not {self._home, self.ingest}.isdisjoint(self.lake.homes(place)):
            bury(place, going=False)

    def _is_anothers(self, place: Place) -> bool:
        try:
            stable = FencedTable.open(place.child(STABLE))
        except FileCorrupt:  # whose it was it does not tell, and no more is there to be lost
            return False
        return self.origin().is_foreign(stable.notes) or self._is_rivals(stable, place)


def _may_have_rows(place: Place) -> bool:
    """Of one of ours: rows come with the row that is about it, and so a damaged one has none."""
    try:
        return has_rows(place)
    except (FileCorrupt, ObjectMissing):
        return False


def _not_gone(label: str) -> Conflict:
    return Conflict(
        "a dropped table of another source has a later number, and its files are still there",
        object_=label,
        hint="wait until they are deleted, a day after the drop, and `lockgate feed resume` where "
        "the feed has failed; or give the table another name in the lake (`rename`)",
        operation="make a table",
    )


def _changes_lost(row: SpanRow, table: LayeredTable, stands: Position) -> FileCorrupt:
    return FileCorrupt(
        f"changes that had landed, up to position {row.landed}, are not in the table any more, "
        f"which stands at {stands}",
        object_=table.ingest.place.label,
        hint="put its log back from a copy of the storage, or copy the table anew: "
        "`lockgate feed resync FEED TABLE`",
        operation="claim",
    )
