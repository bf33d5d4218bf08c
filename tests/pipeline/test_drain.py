"""A drain as a Spark job does what one in memory does, and leaves nothing behind."""

import errno
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lockgate.endpoints.delta import drain_plan
from lockgate.endpoints.delta.faults import FileCorrupt
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import EndpointUnavailable, ObjectMissing, StaleOwner, StorageFull
from lockgate.model.ids import Token
from lockgate.pipeline import drain as pipeline_drain
from lockgate.pipeline.drain import compact, drain
from lockgate.pipeline.jobs import TaskFailed
from lockgate.pipeline.session import Spark
from tests.support.lakes import DELETE, DISPATCHER, LEADER, ROWS, WIPE, Writer, rows_in


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Writer:
    monkeypatch.setattr(drain_plan, "ROWS_MAX", 200)
    place = Place(str(tmp_path / "t"), "lake/t")
    return Writer(LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER))


def test_rows_are_drained_by_tasks(spark: Spark, writer: Writer) -> None:
    table = writer.table
    for start in range(0, 1000, 200):
        writer.put(*range(start, start + 200))
        assert drain(spark, table, LEADER, "drain") is not None
    assert len(table.snapshot().stable) == 5
    writer.put(*range(0, 1000, 7), v=1)
    writer.land(*((DELETE, id_, "a", None) for id_ in range(0, 1000, 11)))
    done = drain(spark, table, LEADER, "drain")
    assert done is not None
    assert done.to == writer.position
    assert rows_in(table.read()) == writer.rows
    assert not table.snapshot().ingest
    assert drain(spark, table, LEADER, "drain") is None
    assert list(Path(table.place.url, "work").iterdir()) == []


def test_a_wiped_table_is_empty(spark: Spark, writer: Writer) -> None:
    writer.put(1, 2)
    drain(spark, writer.table, LEADER, "drain")
    writer.land((WIPE, 0, "", None))
    drain(spark, writer.table, LEADER, "drain")
    assert writer.table.snapshot().stable == ()


def test_a_stale_leader_lands_nothing_and_leaves_no_plan(spark: Spark, writer: Writer) -> None:
    writer.put(1)
    writer.table.stable.claim(Token(9, 1, 1))
    with pytest.raises(StaleOwner):
        drain(spark, writer.table, LEADER, "drain")
    assert list(Path(writer.table.place.url).glob("work/*")) == []
    assert rows_in(writer.table.read()) == writer.rows


def test_a_lost_file_is_said_and_nothing_lands(spark: Spark, writer: Writer) -> None:
    file = _file(spark, writer)
    file.unlink()
    with pytest.raises(ObjectMissing, match="gone") as caught:
        drain(spark, writer.table, LEADER, "drain")
    assert "resync" in caught.value.hint
    assert writer.table.stable.look().position == 10


def test_of_a_drain_of_which_a_part_fails_no_file_is_left(spark: Spark, writer: Writer) -> None:
    """On a disk that is full every attempt would leave more."""
    table = writer.table
    for start in range(0, 600, 200):
        writer.put(*range(start, start + 200))
        drain(spark, table, LEADER, "drain")
    stable = Path(table.place.url, "stable")
    lost = min(table.snapshot().stable, key=lambda file: file.low["id"])
    (stable / lost.path).unlink()
    before = set(stable.glob("*.parquet"))
    writer.put(*range(0, 600, 50), v=1)
    with pytest.raises(ObjectMissing):
        drain(spark, table, LEADER, "drain")
    assert set(stable.glob("*.parquet")) == before


@pytest.mark.parametrize("work", [drain, compact])
def test_of_a_commit_that_fails_no_file_is_left(
    spark: Spark, writer: Writer, monkeypatch: pytest.MonkeyPatch, work: Any
) -> None:
    stable = _small_files(spark, writer)
    before = set(stable.glob("*.parquet"))
    _fail(monkeypatch, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    with pytest.raises(StorageFull):
        work(spark, writer.table, LEADER, "work")
    assert set(stable.glob("*.parquet")) == before


@pytest.mark.parametrize("work", [drain, compact])
def test_of_a_commit_that_may_be_there_the_files_stay(
    spark: Spark, writer: Writer, monkeypatch: pytest.MonkeyPatch, work: Any
) -> None:
    stable = _small_files(spark, writer)
    before = set(stable.glob("*.parquet"))
    _fail(monkeypatch, OSError(errno.EIO, "the connection was lost"))
    with pytest.raises(EndpointUnavailable):
        work(spark, writer.table, LEADER, "work")
    assert set(stable.glob("*.parquet")) > before


def test_of_tasks_of_which_one_fails_the_others_files_go(
    spark: Spark, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stable = _small_files(spark, writer)
    before = set(stable.glob("*.parquet"))
    run = pipeline_drain.run_tasks

    def one_fails(*args: Any, **named: Any) -> list[bytes]:
        receipts: list[bytes | None] = [*run(*args, **named)]
        assert set(stable.glob("*.parquet")) > before
        raise TaskFailed("a task failed", object_="work", trace="", receipts=[*receipts, None])

    monkeypatch.setattr(pipeline_drain, "run_tasks", one_fails)
    with pytest.raises(TaskFailed):
        drain(spark, writer.table, LEADER, "drain")
    assert set(stable.glob("*.parquet")) == before


def test_a_damaged_file_is_no_reason_to_try_again(spark: Spark, writer: Writer) -> None:
    file = _file(spark, writer)
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(FileCorrupt, match=file.name):
        drain(spark, writer.table, LEADER, "drain")
    assert writer.table.stable.look().position == 10


def test_columns_that_are_new_to_ingest_come_to_stable(spark: Spark, writer: Writer) -> None:
    writer.put(1)
    drain(spark, writer.table, LEADER, "drain")
    writer.table.evolve(pa.schema([*ROWS, ("w", pa.string())]), writer.position + 1)
    writer.put(2)
    drain(spark, writer.table, LEADER, "drain")
    assert writer.table.stable.schema.names == ["id", "part", "v", "w"]
    assert writer.table.read().num_rows == 2


def test_small_files_are_put_together_by_tasks(
    spark: Spark, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(drain_plan, "ROWS_MAX", 2)
        for id_ in range(6):
            writer.put(id_)
            drain(spark, writer.table, LEADER, "drain")
    assert len(writer.table.snapshot().stable) == 6
    done = compact(spark, writer.table, LEADER, "compact")
    assert done is not None
    assert (done.files_before, done.files_after) == (6, 1)
    assert rows_in(writer.table.read()) == writer.rows
    assert compact(spark, writer.table, LEADER, "compact") is None


def _small_files(spark: Spark, writer: Writer) -> Path:
    """Where there are two of them; there is a change for one of their keys."""
    for id_ in (1, 150):
        writer.put(*range(id_, id_ + 10))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(drain_plan, "ROWS_MAX", 10)
            drain(spark, writer.table, LEADER, "drain")
    assert len(writer.table.snapshot().stable) == 2
    writer.put(1, v=2)
    return Path(writer.table.place.url, "stable")


def _fail(patched: pytest.MonkeyPatch, error: OSError) -> None:
    """At the next commit: nothing of it comes to the store."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    patched.setattr(DeltaTable, "create_write_transaction", fail)


def _file(spark: Spark, writer: Writer) -> Path:
    """The one file of stable; there is a change for one of its keys."""
    writer.put(1)
    drain(spark, writer.table, LEADER, "drain")
    [file] = writer.table.snapshot().stable
    writer.put(1, v=2)
    return Path(writer.table.place.url, "stable", file.path)
