"""A drain as a Spark job does what one in memory does, and leaves nothing behind."""

from pathlib import Path

import pytest

from lockgate.endpoints.delta import drain_plan
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import StaleOwner
from lockgate.model.ids import Token
from lockgate.pipeline.drain import DrainFailed, drain
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
    assert list(Path(writer.table.place.url, "work").iterdir()) == []
    assert rows_in(writer.table.read()) == writer.rows


def test_a_lost_file_is_said_and_nothing_lands(spark: Spark, writer: Writer) -> None:
    writer.put(1)
    drain(spark, writer.table, LEADER, "drain")
    [file] = writer.table.snapshot().stable
    Path(writer.table.place.url, "stable", file.path).unlink()
    writer.put(1, v=2)
    with pytest.raises(DrainFailed, match="gone"):
        drain(spark, writer.table, LEADER, "drain")
    assert writer.table.stable.look().position == 10
