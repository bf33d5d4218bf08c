"""`format("lockgate")` in batch: the same rows as `read`, and no more than is asked for."""

from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

import lockgate
from lockgate.endpoints.delta import drain_plan
from lockgate.endpoints.delta.place import Place
from lockgate.pipeline.session import Spark
from tests.lake.conftest import TABLE
from tests.support.lakes import DELETE, LEADER, PUT, WIPE, Rows, Writer


@pytest.fixture(autouse=True)
def _registered(spark: Spark) -> None:
    lockgate.lake.register(spark.session)


def _frame(spark: Spark, root: Place, **options: Any) -> DataFrame:
    reader = spark.session.read.format("lockgate").option("path", root.url).option("table", TABLE)
    return reader.options(**options).load()


def _rows(frame: DataFrame) -> Rows:
    found = frame.collect()
    assert len({(row.id, row.part) for row in found}) == len(found), "a key is there twice"
    return {(row.id, row.part): row.v for row in found}


def test_all_rows_are_there_before_and_after_a_drain_and_a_wipe(
    spark: Spark, root: Place, writer: Writer
) -> None:
    writer.put(1, 2, 3, 4)
    assert _rows(_frame(spark, root)) == writer.rows, "in ingest alone"
    writer.table.drain(LEADER)
    writer.land((PUT, 2, "a", None), (DELETE, 3, "a", None), (PUT, 2, "b", 1), (PUT, 5, "a", 5))
    writer.land((DELETE, 4, "a", None), (PUT, 4, "a", 7), (DELETE, 5, "a", None))
    then, position = dict(writer.rows), writer.position
    assert _rows(_frame(spark, root)) == then
    writer.table.drain(LEADER)
    assert _rows(_frame(spark, root)) == then
    writer.land((WIPE, 0, "", None), (PUT, 9, "a", 9))
    assert _rows(_frame(spark, root)) == writer.rows
    assert _rows(_frame(spark, root, asOf=position)) == then
    assert _rows(_frame(spark, root, version=1)) == {(n, "a"): 0 for n in (1, 2, 3, 4)}


def test_filters_bring_back_no_row_that_was_changed_and_lose_none_of_the_next_query(
    spark: Spark, root: Place, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_plan, "ROWS_MAX", 8)
    for at in range(0, 24, 8):
        writer.put(*range(at, at + 8), v=1)
        writer.table.drain(LEADER)
    writer.land((PUT, 3, "a", 2), (DELETE, 4, "a", None), (PUT, 30, "a", None))
    frame = _frame(spark, root)
    for where, wanted in {
        "v = 1": {key for key, v in writer.rows.items() if v == 1},
        "v = 2": {(3, "a")},
        "id = 3": {(3, "a")},
        "id = 3 AND v = 1": set(),
        "id IN (2, 4, 30, 99)": {(2, "a"), (30, "a")},
        "id >= 22": {(22, "a"), (23, "a"), (30, "a")},
        "v IS NULL": {(30, "a")},
        "part LIKE 'a%' AND id < 2": {(0, "a"), (1, "a")},
        "NOT id > 0": {(0, "a")},
        "id <=> 3 OR v IS NULL": {(3, "a"), (30, "a")},
    }.items():
        assert set(_rows(frame.where(where))) == wanted, where


def test_columns_are_those_that_are_asked_for(spark: Spark, root: Place, writer: Writer) -> None:
    writer.put(1, 2, v=4)
    writer.table.drain(LEADER)
    writer.put(2, 3, v=5)
    frame = _frame(spark, root, columns="v")
    assert frame.columns == ["v"]
    assert sorted(row.v for row in frame.collect()) == [4, 5, 5]
    reader = spark.session.read.format("lockgate").schema("v bigint, id bigint")
    frame = reader.option("path", root.url).option("table", TABLE).load()
    assert sorted(tuple(row) for row in frame.collect()) == [(4, 1), (5, 2), (5, 3)]
    assert _frame(spark, root).agg(sf.count("*")).first()[0] == 3  # type: ignore[index]


def test_an_empty_table_has_no_rows(spark: Spark, root: Place, writer: Writer) -> None:
    assert _rows(_frame(spark, root)) == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table": "public.none"}, "there is no such table in the lake"),
        ({"columns": "nope"}, "the table has no column 'nope'"),
        ({"AWS_SECRET_ACCESS_KEY": "x"}, "credentials in options are written to Spark's records"),
        ({"asOf": "77"}, "the table has come to position 10, not to 77"),
    ],
)
def test_what_cannot_be_read_is_said(
    spark: Spark, root: Place, writer: Writer, options: dict[str, str], said: str
) -> None:
    writer.put(1)
    with pytest.raises(Exception, match=said):
        _frame(spark, root, **options).collect()
