"""Any reader of Delta reads stable, and after a drain that is the table (L10)."""

import datetime as dt
import decimal
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

import lockgate
from lockgate.endpoints.delta import drain_plan
from lockgate.endpoints.delta.changes import OP, POSITION, SEQ, ingest_schema
from lockgate.endpoints.delta.compact import compact
from lockgate.endpoints.delta.files import write_file
from lockgate.endpoints.delta.lake import STABLE, Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import NotFound
from lockgate.pipeline.session import Spark
from tests.lake.conftest import TABLE
from tests.support.lakes import DELETE, DISPATCHER, LEADER, PUT, ROWS, WIPE, Writer

WIDE = pa.schema(
    [
        ("id", pa.int32()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("price", pa.decimal128(12, 2)),
        ("note", pa.string()),
        ("raw", pa.binary()),
        ("ok", pa.bool_()),
        ("ratio", pa.float64()),
    ]
)


def _rows(*ids: int) -> list[dict[str, object]]:
    return [
        {
            "id": n,
            "day": dt.date(2031, 1, 1 + n),
            "at": dt.datetime(2031, 7, 1, 12, n, tzinfo=dt.UTC),
            "local": dt.datetime(2031, 7, 1, 12, n),  # noqa: DTZ001 - a column without a zone
            "price": decimal.Decimal(n) + decimal.Decimal("0.25"),
            "note": None if n % 2 else f"ä{n}",
            "raw": bytes([n]),
            "ok": n % 3 == 0,
            "ratio": n / 4,
        }
        for n in ids
    ]


def _land(table: LayeredTable, position: int, *ids: int) -> None:
    rows = [
        {**row, POSITION: position, SEQ: position * 100 + n, OP: PUT}
        for n, row in enumerate(_rows(*ids))
    ]
    table.land(DISPATCHER, pa.Table.from_pylist(rows, schema=ingest_schema(WIDE)), position)


def test_polars_delta_rs_and_both_our_readers_give_the_same_rows(
    spark: Spark, tmp_path: Path
) -> None:
    place = Lake(Place(str(tmp_path), "lake")).place("public.wide", 1)
    table = LayeredTable.create(place, "h", WIDE, ["id"], LEADER, DISPATCHER, 1, settled=1)
    _land(table, 10, 1, 2, 3)
    table.drain(LEADER)
    _land(table, 20, 3, 4)
    table.drain(LEADER)
    wanted = _rows(1, 2, 3, 4)
    url = f"{place.url}/stable"
    spark.session.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        lockgate.lake.register(spark.session)
        source = spark.session.read.format("lockgate")
        found = {
            "polars": pl.read_delta(url).to_arrow(),
            "delta-rs": pa.table(DeltaTable(url).to_pyarrow_table()),
            "read": lockgate.lake.read(spark.session, str(tmp_path), "public.wide").toArrow(),
            "source": source.option("path", str(tmp_path))
            .option("table", "public.wide")
            .load()
            .toArrow(),
        }
        before = lockgate.lake.read(spark.session, str(tmp_path), "public.wide", version=1)
        older = before.toArrow().select(WIDE.names).cast(WIDE)
    finally:
        spark.session.conf.unset("spark.sql.session.timeZone")
    for reader, rows in found.items():
        plain = rows.select(WIDE.names).cast(WIDE).sort_by("id")
        assert plain.to_pylist() == wanted, reader
    then = pa.table(DeltaTable(url, version=1).to_pyarrow_table()).cast(WIDE)
    assert older.sort_by("id").equals(then.sort_by("id"))
    assert older.num_rows == 3


def _seen_by_all(spark: Spark, root: Place) -> dict[str, set[tuple[object, ...]]]:
    """The rows of the table, by who reads them."""
    url = lockgate.lake.stable(root.url, TABLE)
    delta_rs = DeltaTable(url)
    sql = QueryBuilder().register("t", delta_rs).execute("SELECT * FROM t")
    source = spark.session.read.format("lockgate").options(path=root.url, table=TABLE).load()
    found = {
        "polars": pl.read_delta(url).to_arrow(),
        "delta-rs": pa.table(delta_rs.to_pyarrow_table()),
        "its own engine": pa.table(sql.read_all()),
        "read": lockgate.lake.read(spark.session, root.url, TABLE).toArrow(),
        "source": source.toArrow(),
    }
    names = ["id", "part", "v", *(["w"] if "w" in found["polars"].column_names else [])]
    seen = {}
    for reader, rows in found.items():
        assert sorted(rows.column_names) == sorted(names), reader
        listed = [tuple(row.values()) for row in rows.select(names).to_pylist()]
        seen[reader] = set(listed)
        assert len(seen[reader]) == len(listed), f"{reader}: a row is there twice"
    return seen


def test_after_each_kind_of_change_all_readers_have_the_same_rows(
    spark: Spark, root: Place, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a key of two columns: rows that are alike in one of them are told apart."""
    lockgate.lake.register(spark.session)
    table = writer.table

    def level(what: str, *more: object) -> None:
        table.drain(LEADER)
        wanted = {(*key, v, *more) for key, v in writer.rows.items()}
        for reader, rows in _seen_by_all(spark, root).items():
            assert rows == wanted, f"{what}: {reader}"

    writer.land(*((PUT, n, part, n) for n in range(6) for part in "ab"))
    level("inserts")
    writer.land((PUT, 1, "b", None), (DELETE, 2, "a", None), (DELETE, 3, "b", None))
    level("an update and deletes")
    writer.land((DELETE, 4, "a", None), (PUT, 40, "a", 4), (DELETE, 5, "a", None), (PUT, 5, "c", 5))
    level("keys that change, in one column each")
    writer.land((DELETE, 1, "a", None), (PUT, 1, "a", 8), (PUT, 7, "a", 1), (DELETE, 7, "a", None))
    level("a row that comes again, and one that comes and goes")
    writer.land((PUT, 8, "a", 1), (WIPE, 0, "", None), (PUT, 1, "b", 2), (PUT, 9, "a", 3))
    level("a wipe, and rows after it")
    with monkeypatch.context() as small:
        small.setattr(drain_plan, "ROWS_MAX", 4)
        writer.land(*((PUT, n, part, n) for n in range(10, 20) for part in "ab"))
        level("many files")
        writer.land((DELETE, 12, "a", None), (PUT, 13, "b", None))
        level("many files, of which some are rewritten")
    files = len(table.snapshot().stable)
    assert compact(table, LEADER) is not None
    assert len(table.snapshot().stable) < files
    level("compaction")
    table.evolve(pa.schema([*ROWS, ("w", pa.string())]), writer.position + 5, DISPATCHER)
    table.follow_ingest(LEADER)
    level("a column that is new", None)
    writer.land((DELETE, 14, "a", None), (PUT, 15, "b", 7))
    level("rows that are rewritten with it", None)
    writer.land((WIPE, 0, "", None))
    level("a wipe, and nothing after it")
    writer.position += 10
    row = {"id": 1, "part": "a", "v": 1, "w": "ä", POSITION: writer.position, SEQ: 900, OP: PUT}
    batch = pa.Table.from_pylist([row], schema=ingest_schema(table.rows))
    table.land(DISPATCHER, batch, writer.position)
    writer.rows[1, "a"] = 1
    level("a value in the new column", "ä")


def test_another_reader_is_told_where_the_living_table_lies(tmp_path: Path) -> None:
    """Of a table that is copied anew there are two directories, and for a while after that too."""
    lake = Lake(Place(str(tmp_path), "lake"))
    name = "public.wide"

    def rows() -> int:
        return pl.read_delta(lockgate.lake.stable(str(tmp_path), name)).height

    with pytest.raises(NotFound):
        rows()
    old = LayeredTable.create(
        lake.place(name, 1), "h", WIDE, ["id"], LEADER, DISPATCHER, 1, settled=1
    )
    _land(old, 10, 1, 2, 3)
    old.drain(LEADER)
    assert rows() == 3
    place = lake.place(name, 50)
    new = LayeredTable.create(place, "h", WIDE, ["id"], LEADER, DISPATCHER, 50, awaits_copy=True)
    assert rows() == 3, "the new one has no rows yet"
    file = write_file(place.child(STABLE), pa.Table.from_pylist(_rows(1, 2), schema=WIDE), ["id"])
    new.land_copy(LEADER, [file], 50, 50)
    assert rows() == 2
    lake.end(name, 1)
    assert lake.incarnations(name) == [1, 50], "what is dead stays for a day"
    assert rows() == 2
    lake.end(name, 50)
    with pytest.raises(NotFound):
        rows()


def test_a_large_table_is_written_so_that_everybody_reads_it(spark: Spark, tmp_path: Path) -> None:
    """Differences, dictionaries and decimals as whole numbers are for files of many rows only."""
    count = 60_000
    keys = np.arange(count)
    ends = np.array([-(2**31), 2**31 - 1, 0, -1])
    plain = pa.table(
        {
            "id": pa.array(keys, pa.int64()),
            "jumps": pa.array(np.concatenate([keys[: count - 4], ends]), pa.int32()),
            "price": pa.array(keys % 7_000).cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2)),
            "at": pa.array(keys * 1_000_003, pa.timestamp("us", "UTC")),
            "state": pa.array([None, "new", "paid"] * (count // 3)),
        }
    )
    place = Lake(Place(str(tmp_path), "lake")).place("public.large", 1)
    schema = plain.schema
    table = LayeredTable.create(place, "h", schema, ["id"], LEADER, DISPATCHER, 1, settled=1)
    numbers = pa.array(keys + 2)
    landed = plain.append_column(POSITION, numbers).append_column(SEQ, numbers)
    landed = landed.append_column(OP, pa.array([PUT] * count))
    wanted = ingest_schema(schema)
    table.land(DISPATCHER, landed.select(wanted.names).cast(wanted), count + 2)
    table.drain(LEADER)
    url = f"{place.url}/stable"
    ours = lockgate.lake.read(spark.session, str(tmp_path), "public.large")
    found = {
        "polars": pl.read_delta(url).to_arrow(),
        "delta-rs": pa.table(DeltaTable(url).to_pyarrow_table()),
        "its own engine": pa.table(
            QueryBuilder().register("t", DeltaTable(url)).execute("SELECT * FROM t").read_all()
        ),
        "Spark": ours.toArrow(),
    }
    for reader, rows in found.items():
        assert rows.select(schema.names).cast(schema).sort_by("id").equals(plain), reader
