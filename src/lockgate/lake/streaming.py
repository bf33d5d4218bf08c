"""The changelog of a table as a stream of Spark's. An offset is a position of the source's log.

Each batch is exactly the changes in (start, end], whatever was drained or pruned meanwhile: they
are asked for by position, and the layers answer for it or refuse. A stream that was stopped for
longer than the layers hold is refused, with from where on there is something; so is one whose table
was made anew, because its changes do not begin where those of the old one end.
"""

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from lockgate.endpoints.delta.changes import POSITION, may_follow
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable, Snapshot
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.travel import earliest, stretch
from lockgate.lake.following import Stretch, changes_of_part, plan
from lockgate.lake.moments import moment
from lockgate.lake.opening import asked, at_moment, homes_of, latest, whole
from lockgate.lake.parquet import arrow_schema
from lockgate.model.errors import Terminal
from lockgate.model.positions import Position

__all__ = ["ChangelogStream", "TableReplaced"]

Offset = dict[str, int]
_BATCH_ROWS = 65_536


class TableReplaced(Terminal):
    """The table of a stream is another by now: dropped and made again, or copied anew."""

    code = "table-replaced"


class ChangelogPartition(InputPartition):
    """A part of a batch for one task."""

    def __init__(self, place: bytes, order: bytes) -> None:
        self.place = place
        self.order = order


class ChangelogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Positions and parts. What it keeps is pickled to tasks: bytes and plain values only."""

    def __init__(
        self, root: bytes, table: str, schema: StructType, starting: str, rows_max: int = 0
    ) -> None:
        self._root = root
        self._table = table
        self._schema = schema
        self._starting = starting
        self._rows_max = rows_max
        self._last: Position | None = None
        """Where to stop, for a query that takes what is there when it begins."""

    def initialOffset(self) -> Offset:  # noqa: N802
        homes = self._homes()
        if self._starting == "latest":
            position = latest(homes)
        elif self._starting == "earliest":
            position = min(earliest(home) for home in homes)
        else:
            position = at_moment(homes, moment(self._starting))
            asked(homes, lambda home: stretch(home, position, position))
        return _offset(homes[0], position)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        homes = self._same(start)
        upto = latest(homes) if self._last is None else self._last
        if isinstance(limit, ReadMaxRows) and upto > start["position"]:
            seen = asked(homes, lambda home: stretch(home, start["position"], upto))
            upto = _cut(seen, start["position"], limit.max_rows)
        return {**start, "position": max(upto, start["position"])}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._rows_max) if self._rows_max else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = latest(self._homes())

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        homes = self._homes()
        return _offset(homes[0], latest(homes))

    def ending(self, start: Offset, upto: str | None) -> Offset:
        """The offset of a position, or of the latest there is."""
        homes = self._same(start)
        position = latest(homes) if upto is None else at_moment(homes, moment(upto))
        return {**start, "position": max(position, start["position"])}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        after, upto = start["position"], end["position"]
        if upto <= after:
            return []

        def planned(home: LayeredTable) -> list[Stretch]:
            return plan(home, stretch(home, after, upto), after)

        homes = self._same(start)
        with whole(Lake(Place.from_wire(self._root)), self._table):
            orders = asked(homes, planned)
        place = homes[0].place.to_wire()
        return [ChangelogPartition(place, msgspec.msgpack.encode(one)) for one in orders]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, ChangelogPartition):
            return  # Spark's own, when there is nothing to read
        place = Place.from_wire(partition.place)
        order = msgspec.msgpack.decode(partition.order, type=Stretch)
        target = arrow_schema(self._schema)
        # The columns that the table had when the stream began: it cannot have more in between.
        rows = pa.schema(list(target.field("after").type))
        yield from changes_of_part(place, order, rows).cast(target).to_batches(_BATCH_ROWS)

    def _homes(self) -> list[LayeredTable]:
        return homes_of(Place.from_wire(self._root), self._table)

    def _same(self, offset: Offset) -> list[LayeredTable]:
        """The homes of the table, if it is the one that the offset is of."""
        homes = self._homes()
        now = _offset(homes[0], 0)["incarnation"]
        if now != offset["incarnation"]:
            raise TableReplaced(
                "the table was made anew since the stream began",
                object_=self._table,
                hint="start a new stream, with a checkpoint of its own, and read the table once",
                operation="read changes",
            )
        return homes


def _offset(home: LayeredTable, position: Position) -> Offset:
    # An incarnation's directory is its number.
    return {"incarnation": int(home.place.url.rsplit("/", 1)[1]), "position": position}


def _cut(seen: Snapshot, after: Position, rows_max: int) -> Position:
    """The end of the last file that fits, of those with changes after that; of one at the least."""
    rows, upto = 0, seen.position
    fresh = [file for file in seen.ingest if may_follow(file, after)]
    if not all(POSITION in file.high for file in fresh):
        return seen.position  # there is no telling where one ends
    for number, file in enumerate(sorted(fresh, key=lambda file: file.low[POSITION])):
        rows += file.rows
        if number and rows > rows_max:
            return upto
        upto = min(seen.position, file.high[POSITION])
    return seen.position
