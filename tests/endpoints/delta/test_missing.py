"""What a file that is not there means: the table's death, its progress, or a loss (L4)."""

import shutil
from pathlib import Path

import pytest

from lockgate.endpoints.delta.delete import delete
from lockgate.endpoints.delta.fenced import TableDead
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.missing import FilesMoved
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.rewrite import rewrite
from lockgate.endpoints.delta.vacuum import vacuum
from lockgate.model.errors import NotFound, ObjectMissing
from tests.support.lakes import DISPATCHER, LEADER, ROWS, Writer, rows_in

T = "public.t"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Place(str(tmp_path / "lake"), "lake"))


@pytest.fixture
def writer(lake: Lake) -> Writer:
    table = LayeredTable.create(lake.place(T, 1), "h", ROWS, ["id", "part"], LEADER, DISPATCHER)
    writer = Writer(table)
    writer.put(1, 2)
    table.drain(LEADER)
    writer.put(2, v=5)
    return writer


def test_read_after_the_table_was_deleted_it_is_dead(lake: Lake, writer: Writer) -> None:
    seen = writer.table.snapshot()
    writer.table.kill(LEADER)
    delete(lake, T, 1, 0)
    with pytest.raises(TableDead):
        writer.table.read(seen)


def test_drained_after_the_table_was_deleted_it_is_dead(lake: Lake, writer: Writer) -> None:
    plan = writer.table.plan_drain()
    assert plan is not None
    LayeredTable.open(lake.place(T, 1), "h").kill(LEADER)
    delete(lake, T, 1, 0)
    with pytest.raises(TableDead):
        rewrite(writer.table.place, plan.orders[0])
    with pytest.raises(TableDead):
        writer.table.land_drain(LEADER, plan, [])
    with pytest.raises(TableDead):
        writer.table.drain(LEADER)
    assert not Path(writer.table.place.url).exists(), "nothing was made there again"


@pytest.mark.parametrize("layer", ["stable", "ingest-h"])
def test_a_dead_table_whose_files_are_going_is_dead(writer: Writer, layer: str) -> None:
    seen = writer.table.snapshot()
    writer.table.kill(LEADER)
    for path in Path(writer.table.place.url, layer).glob("*.parquet"):
        path.unlink()
    with pytest.raises(TableDead):
        writer.table.read(seen)


def test_files_that_were_replaced_meanwhile_are_looked_up_again(writer: Writer) -> None:
    seen = writer.table.snapshot()
    plan = writer.table.plan_drain()
    assert plan is not None
    writer.table.drain(LEADER)
    writer.table.prune(DISPATCHER)
    vacuum(writer.table.place, retention_s=0, grace_s=0)
    with pytest.raises(FilesMoved):
        writer.table.read(seen)
    with pytest.raises((FilesMoved, ObjectMissing)):
        rewrite(writer.table.place, plan.orders[0])
    assert rows_in(writer.table.read()) == writer.rows


@pytest.mark.parametrize("layer", ["stable", "ingest-h"])
def test_a_file_that_the_newest_state_names_is_lost(writer: Writer, layer: str) -> None:
    for path in Path(writer.table.place.url, layer).glob("*.parquet"):
        path.unlink()
    for work in (writer.table.read, lambda: writer.table.drain(LEADER)):
        with pytest.raises(ObjectMissing, match=f"a data file of {layer} is gone") as caught:
            work()
        assert "resync" in caught.value.hint
    assert writer.table.stable.look().position == 20, "nothing was committed"


def test_a_directory_that_was_deleted_by_hand_is_said(lake: Lake, writer: Writer) -> None:
    seen = writer.table.snapshot()
    shutil.rmtree(writer.table.place.url)
    with pytest.raises(TableDead):
        writer.table.read(seen)
    for work in (writer.table.snapshot, lambda: writer.table.drain(LEADER)):
        with pytest.raises(ObjectMissing, match="gone") as caught:
            work()
        assert "by hand" in caught.value.hint
    with pytest.raises(NotFound) as missed:  # a feed opens it for every batch
        LayeredTable.open(writer.table.place, "h")
    assert "resync" in missed.value.hint
    assert not Path(writer.table.place.url).exists()


def test_a_log_that_was_deleted_by_hand_is_said(writer: Writer) -> None:
    shutil.rmtree(Path(writer.table.place.url, "stable", "_delta_log"))
    with pytest.raises(ObjectMissing, match="gone"):
        writer.table.read()
