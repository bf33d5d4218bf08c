"""Columns and filters reach the scan of the rows, and filters bring back no row that is gone."""

import re
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame

import lockgate
from lockgate.endpoints.delta.place import Place
from lockgate.lake import reading
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


def _scans(frame: DataFrame) -> dict[str, tuple[str, set[str]]]:
    """Of each scan of a plan, the rows' and the changed keys': what is pushed to it, and what it
    reads."""
    plan = frame._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
    found = {}
    for scan in re.findall(r"FileScan parquet .*", plan):
        columns = re.search(r"ReadSchema: struct<(.*?)>", scan)
        filters = re.search(r"PushedFilters: \[(.*?)\], ReadSchema", scan)
        files = re.search(r"InMemoryFileIndex\((\d+) paths\)", scan)
        assert columns is not None
        assert filters is not None
        assert files is not None
        names = {part.split(":")[0] for part in columns[1].split(",") if part}
        found[files[1]] = (filters[1], names)
    assert len(found) == 2
    return dict(zip(("keys", "rows"), [found[count] for count in sorted(found)], strict=True))


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
    ours = {"_lockgate_seq", "_lockgate_op"}
    scans = _scans(frame.select("v"))
    assert scans["rows"][1] == {"id", "part", "v"} | ours, "the key is compared"
    assert scans["keys"][1] == {"id", "part"}
    assert "v" not in _scans(frame.select("part"))["rows"][1]


def test_a_filter_on_the_key_reaches_both_scans(frame: DataFrame) -> None:
    for filters, _ in _scans(frame.where("id = 6")).values():
        assert "EqualTo(id,6)" in filters


def test_another_filter_reaches_the_rows_and_not_the_keys_that_changed(frame: DataFrame) -> None:
    scans = _scans(frame.where("v = 1"))
    assert "EqualTo(v,1)" in scans["rows"][0]
    assert "(v" not in scans["keys"][0]


@pytest.mark.parametrize("sent", [True, False])
def test_more_keys_than_are_sent_are_joined_otherwise_with_the_same_rows(
    spark: Spark, root: Place, writer: Writer, monkeypatch: pytest.MonkeyPatch, sent: bool
) -> None:
    writer.put(*range(10), v=1)
    writer.table.drain(LEADER)
    writer.land((PUT, 3, "a", 2), (DELETE, 4, "a", None), (PUT, 3, "a", 5), (PUT, 20, "b", 2))
    if not sent:
        monkeypatch.setattr(reading, "KEYS_SENT_MAX", 3)
    threshold = "spark.sql.autoBroadcastJoinThreshold"
    before = spark.session.conf.get(threshold)
    spark.session.conf.set(threshold, "-1")  # nothing is small enough to be sent unasked
    try:
        frame = lockgate.lake.read(spark.session, root.url, TABLE)
        plan = frame._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
        assert ("SortMergeJoin" in plan) == (not sent)
        found = frame.collect()
    finally:
        spark.session.conf.set(threshold, before)
    assert sorted(map(tuple, found)) == sorted((*key, v) for key, v in writer.rows.items())
