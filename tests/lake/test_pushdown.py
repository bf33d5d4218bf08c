"""Columns and filters reach both Parquet scans, and filters bring back no row that has changed."""

import re
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame

import lockgate
from lockgate.endpoints.delta.place import Place
from lockgate.pipeline.session import Spark
from tests.lake.conftest import TABLE
from tests.support.lakes import DELETE, LEADER, PUT, Writer

FILTERS = (
    "v = 1",
    "v = 2",
    "v <> 1",
    "v IS NULL",
    "v IS NOT NULL AND id > 3",
    "id = 3",
    "id = 3 AND v = 1",
    "id = 4",
    "id IN (4, 5, 20)",
    "part = 'b'",
    "part = 'a' AND id BETWEEN 3 AND 7",
    "id = 6 AND v = 1",
    "id = 3 OR v = 1",
    "coalesce(v, 1) = 1",
)


@pytest.fixture
def frame(spark: Spark, root: Place, writer: Writer) -> DataFrame:
    """Every row of stable has v = 1; what has changed since has not, or is gone."""
    writer.put(*range(10), v=1)
    writer.table.drain(LEADER)
    writer.land((PUT, 3, "a", 2), (DELETE, 4, "a", None), (PUT, 5, "a", None), (PUT, 20, "b", 2))
    writer.land((PUT, 6, "a", 1), (PUT, 6, "a", 2), (PUT, 7, "a", 3), (DELETE, 7, "a", None))
    return lockgate.lake.read(spark.session, root.url, TABLE)


def test_a_filter_gives_what_it_gives_on_all_rows(
    spark: Spark, frame: DataFrame, writer: Writer
) -> None:
    rows = [(id_, part, v) for (id_, part), v in writer.rows.items()]
    plain = spark.session.createDataFrame(rows, frame.schema).cache()
    for where in FILTERS:
        found, wanted = (sorted(map(str, one.where(where).collect())) for one in (frame, plain))
        assert found == wanted, where


def _scans(frame: DataFrame) -> list[tuple[str, str, set[str]]]:
    """Of each scan of a plan: the layer, what is pushed to it, and the columns that it reads."""
    plan = frame._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
    found = []
    for scan in re.findall(r"FileScan parquet .*", plan):
        columns = re.search(r"ReadSchema: struct<(.*?)>", scan)
        filters = re.search(r"PushedFilters: \[(.*?)\], ReadSchema", scan)
        assert columns is not None
        assert filters is not None
        names = {part.split(":")[0] for part in columns[1].split(",") if part}
        found.append(("ingest" if "_lockgate" in scan else "stable", filters[1], names))
    return found


@pytest.fixture(autouse=True)
def _whole_plans(spark: Spark) -> Iterator[None]:
    name = "spark.sql.debug.maxToStringFields"
    before = spark.session.conf.get(name)
    spark.session.conf.set(name, "1000")
    spark.session.conf.set("spark.sql.maxMetadataStringLength", "10000")
    yield
    spark.session.conf.set(name, before)
    spark.session.conf.unset("spark.sql.maxMetadataStringLength")


def test_only_the_columns_that_are_asked_for_are_read(frame: DataFrame) -> None:
    scans = _scans(frame.select("v"))
    assert {layer for layer, _, _ in scans} == {"stable", "ingest"}
    for layer, _, columns in scans:
        if layer == "stable":
            assert columns == {"id", "part", "v"}, "the key is compared"
        else:
            assert columns >= {"_lockgate_position", "_lockgate_seq"}
    assert all("v" not in columns for _, _, columns in _scans(frame.select("part")))


def test_a_filter_on_the_key_reaches_every_scan(frame: DataFrame) -> None:
    scans = _scans(frame.where("id = 6"))
    assert len(scans) == 3, "stable, the keys that changed, and their rows"
    assert all("EqualTo(id,6)" in filters for _, filters, _ in scans)


def test_another_filter_reaches_the_rows_and_not_the_keys_that_changed(frame: DataFrame) -> None:
    scans = _scans(frame.where("v = 1"))
    with_filter = [layer for layer, filters, _ in scans if "EqualTo(v,1)" in filters]
    assert sorted(with_filter) == ["ingest", "stable"]
    assert [layer for layer, filters, _ in scans if "(v" not in filters] == ["ingest"]
