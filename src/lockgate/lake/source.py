"""`spark.read.format("lockgate")`: lake tables as a data source of Spark's, in Python.

    path            the lake: a directory, or a URL of an object store
    table           the table, as in public.orders
    asOf, version   as in `lockgate.lake.read`
    columns         a,b,c: only these; the data source interface has no other way to say it, except
                    `.schema("a bigint, b string")`
    changes         true: not the rows but the changelog, which is what a stream reads
    startingPosition   of a changelog: `earliest` (all that the layers still hold), `latest`, or a
                    position, after which it begins
    endingPosition  of a changelog that is read in batch; else as far as the table has come
    maxRowsPerBatch of a stream: about so many changes at once
    aws_region, …   what the store wants to know and anybody may; see `Place`

No JVM package is needed for any of it, whatever the store: tasks read with Arrow.

**Filters** are not handed down to such sources. Spark 4.3 could (`pushFilters`), and then keeps
what one query has handed down for the next one over the same DataFrame that hands down nothing:
rows are missing there. `lockgate.lake.read` has them handed down, to Spark's own Parquet reader.

**What travels.** Options are part of Spark's plan, and a Connect server writes them to its records
in clear: credentials among them are refused. `register(spark, options=…)` takes them. They are then
in the bytes of the registered class, which Spark keeps and shows nowhere, as they have to be: the
processes that plan and read are started from it. A task gets the place with its credentials, names
of files, and keys that changed, to leave out. Where the environment of the executors knows the
store (`AWS_…`), give none, and none travels.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from lockgate.endpoints.delta.changelog import changelog_schema
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable, Snapshot
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.travel import snapshot_of
from lockgate.lake import merged
from lockgate.lake.opening import Options, homes_of, looked_up, only, place_of, whole
from lockgate.lake.parquet import arrow_schema, spark_schema
from lockgate.lake.streaming import ChangelogStream
from lockgate.model.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LockgateSource", "register"]

_SECRET: Final = re.compile("secret|token|password|access_key|account_key")
_ROWS_PER_TASK: Final = 1_000_000
_BATCH_ROWS: Final = 65_536
_OURS: Final = frozenset(
    {
        "path",
        "table",
        "asof",
        "version",
        "columns",
        "changes",
        "startingposition",
        "endingposition",
        "maxrowsperbatch",
    }
)


def register(spark: "SparkSession", options: Options | None = None) -> None:
    """Let this session know the format `lockgate`; `options` are what its lakes' store wants to
    know, credentials among it. Called again, they are others."""
    store = place_of("/", options).options
    # A class of its own, so that it is sent as it is and not by its name.
    kind = type("LockgateSource", (LockgateSource,), {"STORE": msgspec.msgpack.encode(store)})
    spark.dataSource.register(kind)


class LockgateSource(DataSource):
    """A table of a lake, or its changelog."""

    STORE: ClassVar[bytes] = b"\x80"
    """What `register` was given for the store."""

    @classmethod
    def name(cls) -> str:
        return "lockgate"

    @property
    def place(self) -> Place:
        """The lake."""
        named = {key.lower(): value for key, value in self.options.items()}
        store = {key: value for key, value in named.items() if key not in _OURS}
        asked = self.option("path").partition("?")[2].lower()
        if any(_SECRET.search(text) for text in (*store, asked)):
            raise UsageError(
                "credentials in options are written to Spark's records in clear",
                object_="format lockgate",
                hint="give them to lockgate.lake.register(spark, options=…)",
            )
        given = msgspec.msgpack.decode(self.STORE, type=dict[str, str])
        return place_of(self.option("path"), {**given, **store})

    def option(self, name: str, default: str | None = None) -> str:
        """One of the options above."""
        value = self.options.get(name, default)
        if value is None:
            raise UsageError(
                f"the option {name!r} is missing",
                object_="format lockgate",
                hint='spark.read.format("lockgate").option("path", …).option("table", …)',
            )
        return value

    @property
    def is_changelog(self) -> bool:
        """Whether the changes are asked for, not the rows."""
        asked = self.options.get("changes", "").lower() == "true"
        return asked or "startingPosition" in self.options

    def schema(self) -> StructType:
        table = homes_of(self.place, self.option("table"))[0]
        if self.is_changelog:
            return spark_schema(changelog_schema(table.rows))
        rows = table.rows
        if "version" in self.options:
            rows = pa.schema(snapshot_of(table, int(self.option("version")))[1].schema())
        wanted = [name.strip() for name in self.options.get("columns", "").split(",") if name]
        return spark_schema(only(rows, wanted, self.option("table")) if wanted else rows)

    def reader(self, schema: StructType) -> DataSourceReader:
        if self.is_changelog:
            return ChangelogReader(self, schema)
        return RowsReader(self, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        if not self.is_changelog:
            raise UsageError(
                "a stream of a lake table is its changelog",
                object_=self.option("table"),
                hint='say so: .option("changes", "true"); its columns are others than the rows\'',
            )
        return ChangelogStream(
            self.place.to_wire(),
            self.option("table"),
            schema,
            self.option("startingPosition", "latest"),
            int(self.option("maxRowsPerBatch", "0")),
        )


class RowsPartition(InputPartition):
    """Parts of a table for one task."""

    def __init__(self, place: bytes, key: list[str], rows: bytes, parts: bytes) -> None:
        self.place = place
        self.key = key
        self.rows = rows
        """The schema of the table's rows."""
        self.parts = parts


class RowsReader(DataSourceReader):
    """The merged table. What it keeps is pickled to tasks: bytes and plain values only."""

    def __init__(self, source: LockgateSource, schema: StructType) -> None:
        self._root = source.place.to_wire()
        self._table = source.option("table")
        self._as_of = source.options.get("asOf")
        self._version = source.options.get("version")
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        table, seen = self._looked_up()
        rows = table.rows
        only(rows, self._schema.names, self._table)
        told = (table.place.to_wire(), list(table.key), rows.serialize().to_pybytes())
        packs = _packed(merged.plan(table, seen))
        return [RowsPartition(*told, pack) for pack in packs]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RowsPartition):
            return  # Spark's own, when there is nothing to read
        place, key = Place.from_wire(partition.place), partition.key
        rows = pa.ipc.read_schema(pa.py_buffer(partition.rows))
        target = arrow_schema(self._schema)
        for part in merged.decoded(partition.parts):
            found = merged.rows_of_part(place, part, key, rows, target.names)
            for table in found:
                yield from table.cast(target).to_batches(_BATCH_ROWS)

    def _looked_up(self) -> tuple[LayeredTable, Snapshot]:
        root = Place.from_wire(self._root)
        with whole(Lake(root), self._table):
            if self._version is None:
                return looked_up(root, self._table, self._as_of)
            table = homes_of(root, self._table)[0]
            return table, snapshot_of(table, int(self._version))[0]


class ChangelogReader(DataSourceReader):
    """The changelog between two positions, at once."""

    def __init__(self, source: LockgateSource, schema: StructType) -> None:
        self._stream = ChangelogStream(
            source.place.to_wire(),
            source.option("table"),
            schema,
            source.option("startingPosition", "earliest"),
        )
        self._upto = source.options.get("endingPosition")

    def partitions(self) -> Sequence[InputPartition]:
        start = self._stream.initialOffset()
        end = self._stream.ending(start, self._upto)
        return list(self._stream.partitions(start, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._stream.read(partition)


def _packed(parts: list[merged.Part]) -> list[bytes]:
    """Small parts together, one pack for a task."""
    packs: list[list[merged.Part]] = []
    rows = _ROWS_PER_TASK
    for part in parts:
        if rows + part.rows > _ROWS_PER_TASK:
            packs.append([])
            rows = 0
        packs[-1].append(part)
        rows += part.rows
    return [merged.encoded(pack) for pack in packs]
