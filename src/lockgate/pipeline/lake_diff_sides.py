"""The two sides of a diff in which a lake takes part: a table of either kind as a DataFrame.

A side is looked at first (columns, key, size), then opened at a moment, then read: as often as the
diff needs it, the same rows each time. A lake's table is pinned meanwhile, as any reader's can be.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

import msgspec
import psycopg
import pyarrow as pa

from lockgate.endpoints.delta.diff_rows import ERROR, LakeRowsItem, read_rows
from lockgate.endpoints.delta.layered import LayeredTable, Snapshot
from lockgate.endpoints.delta.pins import holding
from lockgate.endpoints.delta.travel import check_level
from lockgate.endpoints.delta.types import lake_schema
from lockgate.endpoints.delta.url import LakeUrl
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.copy.plan import plan_edges
from lockgate.endpoints.postgres.copy.survey import CopyOrder, Surveyed, survey_source
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.sink.chunks import Chunk, Edge
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.lake.opening import homes_of, looked_up, place_of
from lockgate.lake.parquet import arrow_schema, spark_schema
from lockgate.lake.reading import frame_at
from lockgate.model.errors import ObjectMissing
from lockgate.model.ids import NO_TOKEN
from lockgate.model.positions import Position
from lockgate.model.selection import TableSelection
from lockgate.model.spans import SpanSpec
from lockgate.model.tables import TableName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LakeSide", "Opened", "PostgresSide", "Side"]


class Opened(Protocol):
    """A table at a moment."""

    def frame(self, session: "SparkSession", schema: pa.Schema) -> "DataFrame":
        """Its rows in these columns, and the error (`diff_rows.ERROR`)."""


class Side(Protocol):
    """A table as one side has it."""

    schema: pa.Schema
    """Its columns in the types of a lake."""
    key: tuple[str, ...]
    rows: int
    """About how many it has; 0 when nobody knows."""

    def opened(self, moment: str) -> AbstractContextManager[Opened]:
        """The table at a moment, while the block lasts."""


class PostgresSide:
    """A table of a database; its moment is an exported snapshot. Look before that is taken."""

    def __init__(self, url: PostgresUrl, selection: TableSelection, slots: int) -> None:
        self._url = url
        order = CopyOrder(SpanSpec("diff", selection.table.id), NO_TOKEN, selection)
        try:
            known = survey_source(url, "diff", [order])[selection.table]
        except ObjectMissing:
            raise ObjectMissing(
                "there is no such table in the database",
                object_=f"{selection.table}, {url.label}",
                hint="leave it out",
                operation="compare",
            ) from None
        self._known = _with_storage(url, known)
        with connect(url, purpose="diff plan", autocommit=True) as connection:
            self._edges = plan_edges(connection, known.table, known.size, slots=slots)
        self.rows = known.size.rows
        self.key = known.shape.key
        self.schema = lake_schema(known.shape) if known.shape.key else pa.schema([])

    @contextmanager
    def opened(self, moment: str) -> Iterator[Opened]:
        yield _PostgresRows(self._url, self._known, self._edges, moment)


class _PostgresRows:
    def __init__(
        self, url: PostgresUrl, known: Surveyed, edges: Sequence[tuple[Edge, Edge]], moment: str
    ) -> None:
        self._url, self._known, self._edges, self._moment = url, known, edges, moment

    def frame(self, session: "SparkSession", schema: pa.Schema) -> "DataFrame":
        wanted = spark_schema(schema)
        shape, table = self._known.shape, self._known.table
        columns = tuple(column for column in shape.columns if column.name in schema.names)
        items = [
            LakeRowsItem(
                self._url.to_wire(),
                self._moment,
                msgspec.structs.replace(table, columns=tuple(each.name for each in columns)),
                Chunk(no, low, high),
                msgspec.structs.replace(shape, columns=columns),
                arrow_schema(wanted).serialize().to_pybytes(),
            )
            for no, (low, high) in enumerate(self._edges)
        ]
        packed = pa.table({"item": pa.array(map(msgspec.msgpack.encode, items), pa.binary())})
        return session.createDataFrame(packed).mapInArrow(read_rows, wanted.add(ERROR, "string"))


class LakeSide:
    """A table of a lake; its moment is a position, as a number, or nothing: now."""

    def __init__(self, url: LakeUrl, table: TableName) -> None:
        place = url.place()
        self._root = place_of(place.url, place.settings)
        self._table = table.id
        home = homes_of(self._root, self._table)[0]
        self.schema = home.rows
        self.key = tuple(home.key)
        self.rows = sum(file.rows for file in home.snapshot().stable)

    @contextmanager
    def opened(self, moment: str) -> Iterator[Opened]:
        layered, seen = self._looked_up(int(moment) if moment else None)
        with holding(layered.place, layered.home, seen, "a diff"):
            yield _LakeRows(layered, seen)

    def _looked_up(self, position: Position | None) -> tuple[LayeredTable, Snapshot]:
        if position is not None:
            newest = homes_of(self._root, self._table)[0]
            seen = newest.snapshot()
            if seen.position < position:
                # The feed has come further (`diff_level`), so nothing came for it in between.
                check_level(seen, position, newest.label)
                return newest, seen
        return looked_up(self._root, self._table, position)


class _LakeRows:
    def __init__(self, layered: LayeredTable, seen: Snapshot) -> None:
        self._layered, self._seen = layered, seen

    def frame(self, session: "SparkSession", schema: pa.Schema) -> "DataFrame":
        names = ["`" + name.replace("`", "``") + "`" for name in schema.names]
        types: Mapping[str, str] = {
            field.name: field.dataType.simpleString() for field in spark_schema(schema)
        }
        values = [
            f"CAST({name} AS {types[plain]}) AS {name}"
            for name, plain in zip(names, schema.names, strict=True)
        ]
        rows = frame_at(session, self._layered, self._seen, self._layered.rows, schema.names)
        return rows.selectExpr(*values, f"CAST(NULL AS STRING) AS {ERROR}")


def _with_storage(url: PostgresUrl, known: Surveyed) -> Surveyed:
    """With the files that the rows lie in, so that a rewrite after this is noticed."""
    with (
        connect(url, purpose="diff plan", autocommit=True) as connection,
        faults(object_=url.label, operation="read the catalog"),
    ):
        storage = _storage(connection, known.parts)
    return msgspec.structs.replace(
        known, table=msgspec.structs.replace(known.table, storage=storage)
    )


def _storage(connection: psycopg.Connection, parts: Sequence[int]) -> tuple[tuple[int, int], ...]:
    found = connection.execute(
        "SELECT oid::int8, pg_relation_filenode(oid)::int8 FROM unnest(%s::oid[]) AS oid "
        "WHERE pg_relation_filenode(oid) IS NOT NULL",
        (list(parts),),
    ).fetchall()
    return tuple((row[0], row[1]) for row in found)
