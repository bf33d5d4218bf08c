"""Spark reads both layers as one table (L1), and nothing that was committed later."""

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lockgate
from lockgate.endpoints.delta.changes import OP, POSITION, SEQ, ingest_schema
from lockgate.endpoints.delta.faults import FileCorrupt
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.rewrite import rewrite
from lockgate.endpoints.delta.travel import NotLevel, PositionAhead, PositionGone, VersionGone
from lockgate.endpoints.delta.vacuum import vacuum
from lockgate.model.errors import NotFound, UsageError
from lockgate.model.ids import Token
from lockgate.pipeline.session import Spark
from tests.lake.conftest import TABLE
from tests.support.lakes import DELETE, DISPATCHER, LEADER, PUT, ROWS, WIPE, Rows, Writer, rows_in

KEY = ["id", "part"]
FOLLOWER = Token(3, 1, 2)


def _read(spark: Spark, root: Place, **options: Any) -> Rows:
    found = lockgate.lake.read(spark.session, root.url, TABLE, **options)
    return rows_in(pa.Table.from_pandas(found.toPandas(), schema=ROWS, preserve_index=False))


def _vacuum(writer: Writer) -> None:
    """With no regard for who may still want to read."""
    vacuum(writer.table.place, retention_s=-10, grace_s=-10)


# --- one answer for one position ------------------------------------------------------------------


def test_a_position_has_one_answer_before_during_and_after_a_drain(
    spark: Spark, root: Place, writer: Writer
) -> None:
    """Insert, update, delete, reinsert, a key that changes, NULLs, and a wipe after it."""
    writer.put(1, 2, 3, 4)
    assert _read(spark, root) == writer.rows, "a table that exists only in ingest"
    writer.table.drain(LEADER)
    assert _read(spark, root) == writer.rows, "one that exists only in stable"
    writer.land((PUT, 2, "a", 9), (DELETE, 3, "a", None), (PUT, 5, "a", None), (PUT, 2, "a", None))
    writer.land((DELETE, 4, "a", None), (PUT, 4, "a", 7), (DELETE, 1, "a", None), (PUT, 1, "b", 0))
    then, position = dict(writer.rows), writer.position
    assert _read(spark, root) == then
    plan = writer.table.plan_drain()
    assert plan is not None
    new = [file for order in plan.orders for file in rewrite(writer.table.place, order)]
    writer.land((WIPE, 0, "", None), (PUT, 2, "a", 5))
    assert _read(spark, root, as_of=position) == then, "during a drain"
    writer.table.land_drain(LEADER, plan, new)
    assert _read(spark, root, as_of=position) == then, "after it"
    assert _read(spark, root) == {(2, "a"): 5}, "what was there before a wipe is gone"
    writer.table.drain(LEADER)
    writer.table.prune(DISPATCHER)
    assert _read(spark, root, as_of=position) == then, "after another one"
    assert _read(spark, root, as_of=position - 40) == {
        (1, "a"): 0,
        (2, "a"): None,
        (4, "a"): 0,
        (5, "a"): None,
    }, "between the positions of two batches"
    _vacuum(writer)
    with pytest.raises(PositionGone) as gone:
        _read(spark, root, as_of=position)
    assert gone.value.earliest == writer.position
    assert _read(spark, root, as_of=gone.value.earliest) == writer.rows


def _follow(writer: Writer, table: LayeredTable, *changes: tuple[str, int, str, Any]) -> None:
    """The same changes by another home, with numbers of its own."""
    first = writer.position - 10 * len(changes)
    rows = [
        {"id": id_, "part": part, "v": v, POSITION: first + 10 * n, SEQ: 900 + first + n, OP: op}
        for n, (op, id_, part, v) in enumerate(changes, 1)
    ]
    table.land(FOLLOWER, pa.Table.from_pylist(rows, schema=ingest_schema(ROWS)), writer.position)


def test_a_follower_that_is_ahead_is_read_and_so_is_the_leader(
    spark: Spark, root: Place, writer: Writer
) -> None:
    writer.put(1, 2)
    other = LayeredTable.create(writer.table.place, "other", ROWS, KEY, LEADER, FOLLOWER, 1)
    batch = ((PUT, 1, "a", 0), (PUT, 2, "a", 0))
    _follow(writer, other, *batch)
    writer.table.drain(LEADER)
    then = dict(writer.rows)
    ahead = ((DELETE, 1, "a", None), (PUT, 3, "a", 3))
    writer.position += 20  # the leader's ingest has not got these
    _follow(writer, other, *ahead)
    assert _read(spark, root) == {(2, "a"): 0, (3, "a"): 3}
    assert _read(spark, root, as_of=20) == then
    assert _read(spark, root, as_of=30) == {(2, "a"): 0}


def test_a_change_that_is_there_twice_is_read_once(
    spark: Spark, root: Place, writer: Writer
) -> None:
    """Nobody lands one so; if it came to that, no row is lost for it, and none doubled."""
    writer.put(1, 2, 3)
    writer.table.drain(LEADER)
    writer.land((PUT, 1, "a", 1), (PUT, 2, "a", 2), (PUT, 1, "a", 3), (DELETE, 3, "a", None))
    [file] = writer.table.snapshot().ingest
    again = pq.read_table(f"{writer.table.place.url}/ingest-h/{file.path}")
    writer.position += 10
    writer.table.land(DISPATCHER, again, writer.position)
    assert len(writer.table.snapshot().ingest) == 2
    assert _read(spark, root) == writer.rows


def test_a_home_that_begins_behind_what_is_drained_is_not_read(
    spark: Spark, root: Place, writer: Writer
) -> None:
    writer.put(1, 2)
    late = LayeredTable.create(writer.table.place, "late", ROWS, KEY, LEADER, FOLLOWER, 100)
    late.note_position(FOLLOWER, 200)
    assert _read(spark, root) == writer.rows, "not what the late one has, which is nothing"


# --- which moment ---------------------------------------------------------------------------------


def test_a_position_is_written_as_people_see_it(spark: Spark, root: Place, writer: Writer) -> None:
    writer.put(1)
    writer.put(2)
    for as_of in (10, "10", "0/A", " 0/a "):
        assert _read(spark, root, as_of=as_of) == {(1, "a"): 0}


def test_a_time_shows_what_was_to_be_read_then(spark: Spark, root: Place, writer: Writer) -> None:
    writer.put(1)
    stamp = writer.table.ingest.handle.history(1)[0]["timestamp"]
    then = dt.datetime.fromtimestamp(stamp / 1000, dt.UTC)
    while writer.table.ingest.handle.history(1)[0]["timestamp"] <= stamp + 1:
        writer.put(2)
    assert _read(spark, root, as_of=then) == {(1, "a"): 0}
    assert _read(spark, root, as_of=(then + dt.timedelta(hours=1)).isoformat()) == writer.rows
    with pytest.raises(NotFound, match="not there yet at 2001"):
        _read(spark, root, as_of=dt.datetime(2001, 1, 1, tzinfo=dt.UTC))


def test_a_version_is_that_of_stable(spark: Spark, root: Place, writer: Writer) -> None:
    writer.put(1)
    writer.table.drain(LEADER)
    writer.put(2)
    assert _read(spark, root, version=1) == {(1, "a"): 0}
    with pytest.raises(VersionGone):
        _read(spark, root, version=7)


@pytest.mark.parametrize(
    "options",
    [
        {"as_of": "yesterday"},
        {"as_of": -1},
        {"as_of": dt.datetime(2031, 1, 1)},  # noqa: DTZ001 - what is refused
        {"as_of": 10, "version": 1},
        {"columns": ["nope"]},
    ],
)
def test_what_means_nothing_is_refused(
    spark: Spark, root: Place, writer: Writer, options: dict[str, Any]
) -> None:
    writer.put(1)
    with pytest.raises(UsageError):
        _read(spark, root, **options)


def test_what_is_to_come_is_said_to_be(spark: Spark, root: Place, writer: Writer) -> None:
    with pytest.raises(PositionAhead):
        _read(spark, root, as_of=5000)


# --- which table ----------------------------------------------------------------------------------


def test_a_first_copy_is_not_read_before_it_is_level(spark: Spark, root: Place) -> None:
    place = Lake(root).place(TABLE, 7)
    table = LayeredTable.create(place, "h", ROWS, KEY, LEADER, DISPATCHER, 7)
    with pytest.raises(NotLevel, match="has not landed yet"):
        _read(spark, root)
    writer = Writer(table)
    table.land_copy(LEADER, [], 7, settled=25)
    writer.put(1, 2)
    with pytest.raises(NotLevel, match="from position 25 on, not at 20"):
        _read(spark, root)
    writer.put(3)
    assert _read(spark, root) == writer.rows
    with pytest.raises(NotLevel):
        _read(spark, root, as_of=20)


def test_while_a_table_is_copied_anew_the_old_one_is_read(
    spark: Spark, root: Place, writer: Writer
) -> None:
    writer.put(1)
    LayeredTable.create(Lake(root).place(TABLE, 50), "h", ROWS, KEY, LEADER, DISPATCHER, 50)
    assert _read(spark, root) == {(1, "a"): 0}


def test_a_damaged_table_is_listed_with_the_others_and_says_so_itself(
    spark: Spark, root: Place, writer: Writer
) -> None:
    place = Lake(root).place("public.other", 1)
    LayeredTable.create(place, "h", ROWS, KEY, LEADER, DISPATCHER, 1, settled=1)
    max(Path(place.url, "stable", "_delta_log").glob("*.json")).write_bytes(b"")
    assert set(lockgate.lake.tables(root.url)) == {"public.other", TABLE}
    assert _read(spark, root) == {}
    with pytest.raises(FileCorrupt):
        lockgate.lake.read(spark.session, root.url, "public.other")


def test_a_dropped_table_is_not_there_and_the_next_one_is(
    spark: Spark, root: Place, writer: Writer
) -> None:
    writer.put(1)
    assert lockgate.lake.tables(root.url) == [TABLE]
    writer.table.kill(LEADER)
    assert lockgate.lake.tables(root.url) == []
    with pytest.raises(NotFound, match="no such table"):
        _read(spark, root)
    place = Lake(root).place(TABLE, 2)
    again = Writer(LayeredTable.create(place, "h", ROWS, KEY, LEADER, DISPATCHER, 2, settled=2))
    again.put(7)
    assert _read(spark, root) == {(7, "a"): 0}


def test_a_table_that_never_was_is_said(spark: Spark, root: Place) -> None:
    with pytest.raises(NotFound):
        _read(spark, root)


# --- what a DataFrame is --------------------------------------------------------------------------


def test_a_dataframe_does_not_change_when_the_table_does(
    spark: Spark, root: Place, writer: Writer
) -> None:
    writer.put(1, 2)
    frame = lockgate.lake.read(spark.session, root.url, TABLE)
    writer.put(2, 3, v=8)
    writer.table.drain(LEADER)
    writer.table.prune(DISPATCHER)
    assert sorted(row.id for row in frame.collect()) == [1, 2]
    assert _read(spark, root) == writer.rows


def test_a_view_shows_what_has_come_once_it_is_called_again(
    spark: Spark, root: Place, writer: Writer
) -> None:
    writer.put(1)
    name = lockgate.lake.view(spark.session, root.url, TABLE)
    assert name == "public__Order___"
    count = f"SELECT count(*) AS n FROM {name} WHERE part = 'a'"
    writer.put(2)
    assert [row.n for row in spark.session.sql(count).collect()] == [1]
    assert lockgate.lake.view(spark.session, root.url, TABLE) == name
    assert [row.n for row in spark.session.sql(count).collect()] == [2]
    assert lockgate.lake.view(spark.session, root.url, TABLE, "orders", as_of=10) == "orders"
    assert [row.id for row in spark.session.table("orders").collect()] == [1]


def test_columns_that_ingest_got_are_null_in_older_rows(
    spark: Spark, root: Place, writer: Writer
) -> None:
    writer.put(1, 2)
    writer.table.drain(LEADER)
    wider = pa.schema([*ROWS, pa.field("w", pa.string())])
    writer.table.evolve(wider, 25, DISPATCHER)
    row = {"id": 2, "part": "a", "v": 3, "w": "new", POSITION: 30, SEQ: 9, OP: PUT}
    batch = pa.Table.from_pylist([row], schema=ingest_schema(wider))
    writer.table.land(DISPATCHER, batch, 30)
    wanted = [(1, "a", 0, None), (2, "a", 3, "new")]
    frame = lockgate.lake.read(spark.session, root.url, TABLE)
    assert sorted(tuple(row) for row in frame.collect()) == wanted
    writer.table.follow_ingest(LEADER)
    writer.table.drain(LEADER)
    frame = lockgate.lake.read(spark.session, root.url, TABLE)
    assert sorted(tuple(row) for row in frame.collect()) == wanted
    some = lockgate.lake.read(spark.session, root.url, TABLE, columns=["w", "id"])
    assert sorted((row.id, row.w) for row in some.collect()) == [(1, None), (2, "new")]


def test_columns_may_be_called_anything(spark: Spark, root: Place) -> None:
    rows = pa.schema([("order.id", pa.int64()), ("a `b`", pa.string())])
    place = Lake(root).place("t", 1)
    table = LayeredTable.create(place, "h", rows, ["order.id"], LEADER, DISPATCHER, 1, settled=1)
    for n, text in enumerate(("old", "new"), 1):
        row = {"order.id": 7, "a `b`": text, POSITION: n * 10, SEQ: n, OP: PUT}
        batch = pa.Table.from_pylist([row], schema=ingest_schema(rows))
        table.land(DISPATCHER, batch, n * 10)
        if n == 1:
            table.drain(LEADER)
    frame = lockgate.lake.read(spark.session, root.url, "t")
    assert frame.toArrow().to_pylist() == [{"order.id": 7, "a `b`": "new"}]
    some = lockgate.lake.read(spark.session, root.url, "t", columns=["a `b`"])
    assert some.toArrow().to_pylist() == [{"a `b`": "new"}]
    lockgate.lake.register(spark.session)
    source = spark.session.read.format("lockgate").options(path=root.url, table="t").load()
    assert source.toArrow().to_pylist() == [{"order.id": 7, "a `b`": "new"}]


def test_a_pinned_state_is_read_after_a_vacuum(spark: Spark, root: Place, writer: Writer) -> None:
    writer.put(1, 2)
    writer.table.drain(LEADER)
    writer.put(2, 3, v=4)
    then = dict(writer.rows)
    with lockgate.lake.pin(root.url, TABLE) as pinned:
        writer.put(1, v=9)
        writer.table.drain(LEADER)
        writer.table.prune(DISPATCHER)
        _vacuum(writer)
        found = pinned.read(spark.session).toPandas()
        assert rows_in(pa.Table.from_pandas(found, schema=ROWS, preserve_index=False)) == then
        assert pinned.position == 40
        assert pinned.read(spark.session, columns=["v"]).columns == ["v"]
    _vacuum(writer)
    with pytest.raises(PositionGone):
        _read(spark, root, as_of=40)
