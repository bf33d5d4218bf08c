"""Spark reads both layers as one table (L1), and nothing that was committed later."""

from pathlib import Path

import pyarrow as pa
import pytest

import lockgate
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import NotFound
from lockgate.pipeline.session import Spark
from tests.support.lakes import DELETE, DISPATCHER, LEADER, PUT, ROWS, WIPE, Rows, Writer, rows_in

TABLE = 'public."Order/ß"'


@pytest.fixture
def root(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "lake"), "lake")


@pytest.fixture
def writer(root: Place) -> Writer:
    place = Lake(root).place(TABLE, 1)
    return Writer(LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER))


def _read(spark: Spark, root: Place) -> Rows:
    found = lockgate.lake.read(spark.session, root.url, TABLE)
    return rows_in(pa.Table.from_pandas(found.toPandas(), schema=ROWS, preserve_index=False))


def test_every_kind_of_change_shows_before_and_after_a_drain(
    spark: Spark, root: Place, writer: Writer
) -> None:
    writer.put(1, 2, 3, 4)
    assert _read(spark, root) == writer.rows, "a table that exists only in ingest"
    writer.table.drain(LEADER)
    assert _read(spark, root) == writer.rows, "one that exists only in stable"
    writer.land((PUT, 2, "a", 9), (DELETE, 3, "a", None), (PUT, 5, "a", None), (PUT, 2, "a", None))
    writer.land((DELETE, 4, "a", None), (PUT, 4, "a", 7), (PUT, 2, "b", 1), (PUT, 6, "a", 1))
    writer.land((DELETE, 6, "a", None))
    assert _read(spark, root) == writer.rows
    writer.table.drain(LEADER)
    assert _read(spark, root) == writer.rows


def test_what_was_there_before_a_wipe_is_gone(spark: Spark, root: Place, writer: Writer) -> None:
    writer.put(1, 2)
    writer.table.drain(LEADER)
    writer.put(3)
    writer.land((WIPE, 0, "", None), (PUT, 2, "a", 5))
    assert _read(spark, root) == {(2, "a"): 5}


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


def test_a_dropped_table_is_not_there_and_the_next_one_is(
    spark: Spark, root: Place, writer: Writer
) -> None:
    writer.put(1)
    writer.table.kill(LEADER)
    with pytest.raises(NotFound, match="no such table"):
        _read(spark, root)
    place = Lake(root).place(TABLE, 2)
    again = Writer(LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER))
    again.put(7)
    assert _read(spark, root) == {(7, "a"): 0}
    assert Lake(root).tables() == [TABLE]


def test_a_table_that_never_was_is_said(spark: Spark, root: Place) -> None:
    with pytest.raises(NotFound):
        _read(spark, root)
