"""Every type of docs/TYPES.md in a lake, read back by strangers, and held against the server.

One table has a column of each type. What deltalake, polars and Spark read of it is written as text
and given to the server, which reads it as the type and prints it: equal to what the source prints.
"""

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from lockgate import lake
from lockgate.endpoints.delta.types import lake_schema
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.tables import TableName
from lockgate.pipeline.session import Spark
from tests.endpoints.postgres.sink.test_types import EXTENSIONS, KINDS, TYPES, Kind
from tests.support.databases import fresh_database
from tests.support.lake_copies import LakeScene, as_texts, lake_scene

TABLE = TableName("public", "t")
MORE = [
    Kind("numeric(38,0)", ("9" * 38, "-" + "9" * 38, "0")),
    Kind("numeric(38,38)", ("0." + "9" * 38, "-0." + "0" * 37 + "1", "0")),
    Kind("numeric(20,9)", ("0.000000001", "-0.000000001", "99999999999.999999999")),
    Kind("numeric(39,2)", ("1.00", "NaN")),
    Kind("numeric(3,5)", ("0.00999", "NaN")),
    Kind("numeric(5,-2)", ("1234500", "NaN")),
]
EVERY = [kind for kind in [*KINDS, *MORE] if kind.values]


def _cell(kind: Kind, row: int) -> str | None:
    """A column's values one after the other, and then NULL, or the first one for ever."""
    if row < len(kind.values):
        return kind.values[row]
    return None if kind.null else kind.values[0]


@pytest.fixture(scope="module")
def scene(
    spark: Spark, pg18: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LakeScene]:
    columns = ", ".join(f"c{number} {kind.type}" for number, kind in enumerate(EVERY))
    ddl = f"CREATE TABLE t (id bigint PRIMARY KEY, {columns})"
    with (
        fresh_database(pg18) as url,
        lake_scene(url, tmp_path_factory.mktemp("types"), EXTENSIONS, TYPES, ddl) as scene,
    ):
        for row in range(1 + max(len(kind.values) for kind in EVERY)):
            names = ", ".join(f"c{number}" for number in range(len(EVERY)))
            marks = ", ".join(["%s"] * len(EVERY))
            scene.here.execute(
                f"INSERT INTO t (id, {names}) VALUES ({row}, {marks})".encode(),
                [_cell(kind, row) for kind in EVERY],
            )
        scene.begin()
        [outcome] = scene.copy(spark)
        assert (outcome.error, outcome.refusal) == (None, None)
        scene.table(TABLE)
        yield scene


def _by_deltalake(scene: LakeScene, spark: Spark) -> pa.Table:
    return DeltaTable(_stable(scene)).to_pyarrow_table()


def _by_polars(scene: LakeScene, spark: Spark) -> pa.Table:
    return pl.read_delta(_stable(scene)).to_arrow()


def _by_spark(scene: LakeScene, spark: Spark) -> pa.Table:
    files = [f"{_stable(scene)}/{file.path}" for file in scene.record.files("s-t")]
    return spark.session.read.parquet(*files).toArrow()


def _by_lockgate(scene: LakeScene, spark: Spark) -> pa.Table:
    return lake.read(spark.session, scene.lake_url, TABLE.id).toArrow()


def _stable(scene: LakeScene) -> str:
    return scene.place(TABLE).child("stable").url


READERS = [_by_deltalake, _by_polars, _by_spark, _by_lockgate]
Reader = Callable[[LakeScene, Spark], pa.Table]


@pytest.mark.parametrize("reader", READERS, ids=lambda one: one.__name__[4:])
def test_every_value_is_what_the_server_has(spark: Spark, scene: LakeScene, reader: Reader) -> None:
    shape = scene.shapes[TABLE]
    found = reader(scene, spark).cast(lake_schema(shape))
    scene.assert_same(TABLE, as_texts(found, shape))


@pytest.mark.parametrize("reader", READERS, ids=lambda one: one.__name__[4:])
def test_types_are_the_lakes(spark: Spark, scene: LakeScene, reader: Reader) -> None:
    """Strangers have wider texts and bytes, and otherwise the same types."""
    wider = {pa.large_string(): pa.string(), pa.string_view(): pa.string()}
    wider |= {pa.large_binary(): pa.binary(), pa.binary_view(): pa.binary()}
    found = {field.name: field.type for field in reader(scene, spark).schema}
    wanted = {field.name: field.type for field in lake_schema(scene.shapes[TABLE])}
    assert {name: wider.get(kind, kind) for name, kind in found.items()} == wanted
    kinds = {kind.type: wanted[f"c{number}"] for number, kind in enumerate(EVERY)}
    assert kinds["numeric(12,4)"] == pa.decimal128(12, 4)
    assert kinds["timestamp without time zone"] == pa.timestamp("us")


def test_infinity_is_after_and_before_all_for_every_reader(spark: Spark, scene: LakeScene) -> None:
    numbers = {kind.type: number for number, kind in enumerate(EVERY)}
    for kind in ("date", "timestamp without time zone", "timestamp with time zone"):
        column = f"c{numbers[kind]}"
        query = f"SELECT id FROM t WHERE {column} > '2024-12-31' ORDER BY id"
        wanted = [row[0] for row in scene.here.execute(query.encode())]
        infinite = f"SELECT count(*) FROM t WHERE {column} = 'infinity' AND id = ANY (%s)"
        assert scene.here.execute(infinite.encode(), (wanted,)).fetchone() == (1,)
        edge = pl.lit(dt.date(2024, 12, 31))
        typed = pl.read_delta(_stable(scene)).filter(pl.col(column) > edge.cast(pl.Date))
        assert sorted(typed["id"].to_list()) == wanted
        frame = lake.read(spark.session, scene.lake_url, TABLE.id)
        literal = f"cast('2024-12-31' AS {dict(frame.dtypes)[column]})"
        found = frame.where(f"{column} > {literal}").select("id").toArrow()
        assert sorted(found["id"].to_pylist()) == wanted
        rows = DeltaTable(_stable(scene)).to_pyarrow_table()
        mask = pc.greater(rows[column], pa.scalar(dt.date(2024, 12, 31)).cast(rows[column].type))
        assert sorted(rows.filter(mask)["id"].to_pylist()) == wanted


NAMES = [
    *(
        "a b",
        "a,b",
        "a.b",
        "Upper",
        "a;b{}()=",
        "tab\tline\n",
        "`",
        "``x",
        "ä",
        'a"b',
        "%20",
        "a/b",
    ),
    *(
        "_metadata",
        "min.x",
        "null",
        "it's",
        "\\",
        "new",
        "_change_type",
        "position",
        "op",
        "#",
        "*",
    ),
]


def test_columns_of_any_name_are_read_by_their_names(
    spark: Spark, pg18: EmbeddedPostgres, tmp_path: Path
) -> None:
    """What Spark takes for more than a name is quoted, by us and by whoever writes SQL."""
    quoted = ['"' + name.replace('"', '""') + '"' for name in NAMES]
    key = f"PRIMARY KEY ({quoted[2]}, {quoted[6]})"
    ddl = [
        f"CREATE TABLE t ({', '.join(f'{name} int' for name in quoted)}, {key})",
        f"INSERT INTO t SELECT {', '.join(str(n) + ' + g' for n in range(len(NAMES)))} "
        "FROM generate_series(1, 3) g",
    ]
    with fresh_database(pg18) as url, lake_scene(url, tmp_path, *ddl) as scene:
        scene.begin()
        [outcome] = scene.copy(spark)
        assert (outcome.error, outcome.refusal) == (None, None)
        scene.table(TABLE)
        wanted = [{name: n + g for n, name in enumerate(NAMES)} for g in (1, 2, 3)]
        for reader in READERS:
            rows = reader(scene, spark).to_pylist()
            assert sorted(rows, key=lambda row: row["new"]) == wanted, reader.__name__
