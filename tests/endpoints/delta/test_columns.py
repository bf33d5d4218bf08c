"""A column that is added shows in both layers; what Delta cannot do in place is refused (L10)."""

from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from lockgate.endpoints.delta.changes import OP, POSITION, SEQ, ingest_schema
from lockgate.endpoints.delta.compact import compact
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.layered import DrainOvertaken, LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.schemas import NeedsNewIncarnation
from lockgate.model.errors import StaleOwner
from lockgate.model.ids import Token
from tests.support.lakes import DISPATCHER, LEADER, PUT, ROWS, Writer

WIDER = pa.schema([*ROWS, ("w", pa.string())])


@pytest.fixture
def writer(place: Place) -> Writer:
    table = LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER)
    return Writer(table)


def _land(table: LayeredTable, position: int, seq: int, **row: Any) -> None:
    change = {"part": "a", "v": 0, **row, POSITION: position, SEQ: seq, OP: PUT}
    table.land(DISPATCHER, pa.Table.from_pylist([change], schema=ingest_schema(WIDER)), position)


def _wide(table: pa.Table) -> dict[int, str | None]:
    return dict(zip(table["id"].to_pylist(), table["w"].to_pylist(), strict=True))


def test_rows_from_before_have_null_and_rows_after_have_values(writer: Writer) -> None:
    table = writer.table
    writer.put(1, 2)
    table.drain(LEADER)
    writer.put(3)
    table.evolve(WIDER, 35)
    _land(table, 40, 4, id=2, w="x")
    expected = {1: None, 2: "x", 3: None}
    assert _wide(table.read()) == expected, "before stable has the column"
    table.drain(LEADER)
    assert _wide(table.read()) == expected
    assert table.read().column_names == ["id", "part", "v", "w"]


def test_any_reader_of_delta_sees_the_column(writer: Writer, place: Place) -> None:
    writer.put(1)
    writer.table.drain(LEADER)
    writer.table.evolve(WIDER, 15)
    _land(writer.table, 20, 2, id=200, w="x")
    writer.table.drain(LEADER)
    assert _wide(pl.read_delta(f"{place.url}/stable").to_arrow()) == {1: None, 200: "x"}


def test_files_with_and_without_it_become_one(writer: Writer, place: Place) -> None:
    table = writer.table
    writer.put(1)
    table.drain(LEADER)
    table.evolve(WIDER, 15)
    _land(table, 20, 2, id=-5, w="x")  # before all ranges: a file of its own
    table.drain(LEADER)
    assert len(table.snapshot().stable) == 2
    assert compact(table, LEADER) is not None
    assert len(table.snapshot().stable) == 1
    assert _wide(table.read()) == {1: None, -5: "x"}


def test_told_again_it_changes_nothing(writer: Writer) -> None:
    table = writer.table
    version = table.evolve(WIDER, 5).version
    assert table.evolve(WIDER, 5).version == version
    wider = pa.schema([*WIDER, ("z", pa.int64())])
    version = table.evolve(wider, 6).version
    assert table.evolve(WIDER, 5).version == version, "it has more columns by now"
    assert table.ingest.look().position == 6


def test_stable_follows_once(writer: Writer) -> None:
    writer.table.evolve(WIDER, 5)
    marks = writer.table.follow_ingest(LEADER)
    assert writer.table.follow_ingest(LEADER) == marks
    assert marks.position == 0, "a column is no reason to take anything for drained"


def test_a_column_that_comes_while_a_drain_is_planned_loses_no_value(writer: Writer) -> None:
    """What is rewritten has the columns that stable had when the drain began."""
    table = writer.table
    writer.put(1)
    table.drain(LEADER)
    table.follow_ingest(LEADER)
    feed = LayeredTable.open(table.place, "h")
    feed.evolve(WIDER, 15)
    _land(feed, 20, 2, id=2, w="x")
    with pytest.raises(DrainOvertaken):
        table.plan_drain()
    table.drain(LEADER)
    assert _wide(table.read()) == {1: None, 2: "x"}


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        (pa.schema([("id", pa.int64()), ("part", pa.string())]), "column v is gone"),
        (pa.schema([*list(ROWS)[:2], ("v", pa.float64())]), "column v is int64"),
        (pa.schema([*list(ROWS)[:2], ("u", pa.int64())]), "column v is gone"),
    ],
)
def test_what_cannot_be_done_in_place_is_refused(
    writer: Writer, schema: pa.Schema, what: str
) -> None:
    with pytest.raises(NeedsNewIncarnation, match=what) as caught:
        writer.table.evolve(schema, 5)
    assert "resync" in caught.value.hint
    assert writer.table.ingest.look().version == 0


def test_a_former_owner_adds_no_column(place: Place) -> None:
    table = FencedTable.create(place, ROWS, LEADER)
    FencedTable.open(place).claim(Token(2, 0, 1))
    with pytest.raises(StaleOwner):
        table.evolve(LEADER, WIDER)
    assert FencedTable.open(place).schema.names == ROWS.names


def test_columns_and_owner_change_at_once_and_both_hold(place: Place) -> None:
    """Added from a handle that has not seen the newest commit, a column is compared again."""
    table = FencedTable.create(place, ROWS, LEADER)
    other = FencedTable.open(place)
    looked = table.look

    def look_and_lose() -> Any:
        marks = looked()
        if marks.version == 0:
            other.commit(LEADER, lambda _: [], position=7)
        return marks

    table.look = look_and_lose  # type: ignore[method-assign]
    assert table.evolve(LEADER, WIDER, 9).position == 9
    assert other.look().version == 2
    assert other.schema.names == WIDER.names
