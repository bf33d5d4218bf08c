"""The changelog as a stream of Spark's: every change once, whatever is drained and pruned (L1)."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row

import lockgate
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.lake import following
from lockgate.pipeline.session import Spark
from tests.lake.conftest import TABLE
from tests.support.lakes import DELETE, DISPATCHER, LEADER, PUT, ROWS, WIPE, Writer

ATTEMPTS = 4
NOT_STARTED = "failed to connect back"
Told = tuple[str, int, dict[str, Any] | None, dict[str, Any] | None]


@pytest.fixture(autouse=True)
def _registered(spark: Spark) -> None:
    lockgate.lake.register(spark.session)


class Stream:
    """A streaming query that takes what is there, and is started again each time."""

    def __init__(self, spark: Spark, root: Place, folder: Path, **options: Any) -> None:
        reader = spark.session.readStream.format("lockgate").option("changes", "true")
        self._frame = reader.options(path=root.url, table=TABLE, **options).load()
        self._folder = folder
        self.batches = 0

    def take(self) -> list[Told]:
        found: list[Row] = []

        def keep(batch: DataFrame, _: int) -> None:
            rows = batch.collect()
            found.extend(sorted(rows, key=lambda row: row["_seq"]))
            self.batches += 1

        for attempt in range(ATTEMPTS):
            query = (
                self._frame.writeStream.foreachBatch(keep)
                .option("checkpointLocation", str(self._folder / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            try:
                query.awaitTermination()
                break
            except StreamingQueryException as error:
                # Spark gives a worker ten seconds to start, whatever else the machine has to do.
                if NOT_STARTED not in str(error) or attempt + 1 == ATTEMPTS:
                    raise
        return [_told(row) for row in found]


def _told(row: Row) -> Told:
    before, after = (row[name] and row[name].asDict() for name in ("before", "after"))
    return (row["_op"], row["_position"], before, after)


def _row(id_: int, v: int | None, part: str = "a") -> dict[str, Any]:
    return {"id": id_, "part": part, "v": v}


def test_changes_come_once_and_with_both_images_across_drains_and_prunes(
    spark: Spark, root: Place, writer: Writer, tmp_path: Path
) -> None:
    writer.put(1, 2, v=1)
    stream = Stream(spark, root, tmp_path, startingPosition="earliest")
    assert stream.take() == [
        ("insert", 10, None, _row(1, 1)),
        ("insert", 20, None, _row(2, 1)),
    ]
    writer.table.drain(LEADER)
    writer.table.prune(DISPATCHER)
    assert stream.take() == []
    writer.land((PUT, 1, "a", 2), (DELETE, 2, "a", None))
    writer.table.drain(LEADER)
    writer.table.prune(DISPATCHER)
    writer.land((PUT, 2, "a", None), (PUT, 1, "a", 3))
    assert stream.take() == [
        ("update", 30, _row(1, 1), _row(1, 2)),
        ("delete", 40, _row(2, 1), None),
        ("insert", 50, None, _row(2, None)),
        ("update", 60, _row(1, 2), _row(1, 3)),
    ]
    writer.land((WIPE, 0, "", None), (PUT, 1, "a", 4))
    writer.table.drain(LEADER)
    assert stream.take() == [
        ("truncate", 70, None, None),
        ("insert", 80, None, _row(1, 4)),
    ]


def test_a_key_that_changes_goes_and_comes(
    spark: Spark, root: Place, writer: Writer, tmp_path: Path
) -> None:
    writer.put(1, v=5)
    writer.table.drain(LEADER)
    stream = Stream(spark, root, tmp_path, startingPosition=str(writer.position))
    writer.land((DELETE, 1, "a", None), (PUT, 7, "a", 5))
    assert stream.take() == [
        ("delete", 20, _row(1, 5), None),
        ("insert", 30, None, _row(7, 5)),
    ]


def test_a_stream_from_the_latest_has_only_what_comes(
    spark: Spark, root: Place, writer: Writer, tmp_path: Path
) -> None:
    writer.put(1)
    stream = Stream(spark, root, tmp_path, startingPosition="latest")
    assert stream.take() == []
    writer.put(2)
    assert [told[:2] for told in stream.take()] == [("insert", 20)]


def test_many_changes_are_cut_into_parts_and_batches(
    spark: Spark, root: Place, writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(0, 60, 10):
        writer.put(*range(at, at + 10), v=at)
    writer.table.drain(LEADER)
    start = writer.position
    for v in range(3):
        writer.put(*range(0, 60, 2), v=100 + v)
    writer.land((WIPE, 0, "", None))
    writer.put(3, 50)
    place = Lake(root).place(TABLE, 1)
    stream = Stream(spark, root, tmp_path, startingPosition=str(start), maxRowsPerBatch="40")
    batched = stream.take()
    assert stream.batches == 3
    # The same in parts of a few keys each.
    monkeypatch.setattr(following, "ROWS_PER_PART", 10)
    table = LayeredTable.open(place, "h")
    from lockgate.endpoints.delta.travel import stretch

    orders = following.plan(table, stretch(table, start, writer.position), start)
    assert len(orders) > 4
    parts = [following.changes_of_part(place, one, ROWS).to_pylist() for one in orders]
    rows = sorted((row for part in parts for row in part), key=lambda row: row["_seq"])
    assert [(r["_op"], r["_position"], r["before"], r["after"]) for r in rows] == batched
    assert [told[0] for told in batched].count("truncate") == 1
    assert batched[-1] == ("insert", writer.position, None, _row(50, 0))
    assert batched[31] == ("update", start + 320, _row(2, 100), _row(2, 101))


def test_a_stream_does_not_go_on_in_a_table_made_anew(
    spark: Spark, root: Place, writer: Writer, tmp_path: Path
) -> None:
    writer.put(1)
    stream = Stream(spark, root, tmp_path, startingPosition="earliest")
    stream.take()
    writer.table.kill(LEADER)
    again = Writer(
        LayeredTable.create(
            Lake(root).place(TABLE, 20),
            "h",
            ROWS,
            ["id", "part"],
            LEADER,
            DISPATCHER,
            20,
            settled=20,
        )
    )
    again.position = 20
    again.put(5)
    with pytest.raises(Exception, match="made anew since the stream began"):
        stream.take()


def test_a_stream_that_was_away_too_long_is_told_from_where_on(
    spark: Spark, root: Place, writer: Writer, tmp_path: Path
) -> None:
    writer.put(1)
    stream = Stream(spark, root, tmp_path, startingPosition="earliest")
    stream.take()
    for id_ in (2, 3):
        writer.put(id_)
        writer.table.drain(LEADER)
    writer.table.prune(DISPATCHER)
    for path in Path(writer.table.place.url, "ingest-h").glob("*.parquet"):
        path.unlink()
    with pytest.raises(Exception, match="can be read from position 30 on"):
        stream.take()


def test_the_changelog_is_read_in_batch_too(spark: Spark, root: Place, writer: Writer) -> None:
    writer.put(1, 2)
    writer.put(1, v=3)
    writer.table.drain(LEADER)
    reader = spark.session.read.format("lockgate").option("changes", "true")
    found = reader.options(
        path=root.url, table=TABLE, startingPosition="0/A", endingPosition="30"
    ).load()
    assert sorted(map(_told, found.collect()), key=lambda told: told[1]) == [
        ("insert", 20, None, _row(2, 0)),
        ("update", 30, _row(1, 0), _row(1, 3)),
    ]


def test_a_stream_of_rows_is_refused(spark: Spark, root: Place, writer: Writer) -> None:
    reader = spark.session.readStream.format("lockgate")
    frame = reader.options(path=root.url, table=TABLE).load()
    with pytest.raises(Exception, match="a stream of a lake table is its changelog"):
        frame.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()
