"""Tables with more columns than Delta keeps statistics of unless told (32): no change is lost."""

from typing import Any

import pyarrow as pa
import pytest

from lockgate.endpoints.delta import drain_plan, layer_notes, layered
from lockgate.endpoints.delta.changes import OP, POSITION, PUT, SEQ, ingest_schema
from lockgate.endpoints.delta.files import live_files
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.travel import earliest, snapshot_at, stretch
from lockgate.lake import merged, streaming
from lockgate.lake.following import changes_of_part, plan
from tests.support.lakes import DISPATCHER, LEADER

WIDTHS = [31, 32, 33, 100]


def _rows(width: int) -> pa.Schema:
    """The key is the last of the columns."""
    return pa.schema([*((f"c{n}", pa.int64()) for n in range(width - 1)), ("id", pa.int64())])


def _create(place: Place, width: int) -> LayeredTable:
    return LayeredTable.create(place, "h", _rows(width), ["id"], LEADER, DISPATCHER, 1, settled=1)


def _land(table: LayeredTable, position: int, v: int, *ids: int) -> None:
    rows = [
        {**dict.fromkeys(table.rows.names, v), "id": id_, POSITION: position, SEQ: position + n}
        for n, id_ in enumerate(ids)
    ]
    changes = pa.Table.from_pylist([{**row, OP: PUT} for row in rows], ingest_schema(table.rows))
    table.land(DISPATCHER, changes.select(table.ingest.schema.names), position)


def _read(table: LayeredTable, position: int) -> dict[int, int]:
    """In memory, and in parts as tasks read it: the same."""
    seen = snapshot_at(table, position)
    names = table.rows.names
    parts = [
        piece
        for part in merged.plan(table, seen)
        for piece in merged.rows_of_part(table.place, part, table.key, table.rows, names)
    ]
    rows = _told(table.read(seen))
    assert _told(pa.concat_tables([table.rows.empty_table(), *parts])) == rows
    return rows


def _told(rows: pa.Table) -> dict[int, int]:
    return {row["id"]: row["c0"] for row in rows.to_pylist()}


def _changes(table: LayeredTable, after: int, upto: int) -> list[tuple[str, int, Any, int]]:
    seen = stretch(table, after, upto)
    parts = [changes_of_part(table.place, one, table.rows) for one in plan(table, seen, after)]
    return [
        (row["_op"], row["after"]["id"], row["before"] and row["before"]["c0"], row["after"]["c0"])
        for part in parts
        for row in part.to_pylist()
    ]


def _goes_through_a_life(table: LayeredTable) -> None:
    _land(table, 10, 1, 1, 2, 3)
    assert _told(table.read()) == {1: 1, 2: 1, 3: 1}
    drained = table.drain(LEADER)
    assert drained is not None
    assert drained.changes == 3
    assert _told(table.read()) == {1: 1, 2: 1, 3: 1}
    _land(table, 20, 2, 3, 4)
    assert _told(table.read()) == {1: 1, 2: 1, 3: 2, 4: 2}
    table.drain(LEADER)
    table.prune(DISPATCHER)
    assert _told(table.read()) == {1: 1, 2: 1, 3: 2, 4: 2}
    _land(table, 30, 3, 1)
    assert earliest(table) <= 10
    assert _read(table, 10) == {1: 1, 2: 1, 3: 1}
    assert _read(table, 20) == {1: 1, 2: 1, 3: 2, 4: 2}
    assert _read(table, 30) == {1: 3, 2: 1, 3: 2, 4: 2}
    assert _changes(table, 10, 30) == [
        ("update", 3, 1, 2),
        ("insert", 4, None, 2),
        ("update", 1, 1, 3),
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_table_of_many_columns_keeps_every_change(place: Place, width: int) -> None:
    table = _create(place, width)
    _goes_through_a_life(table)
    assert len(table.snapshot().ingest) == 1, "what was drained is pruned"


@pytest.mark.parametrize("width", WIDTHS)
def test_a_key_behind_many_columns_tells_which_files_to_rewrite(
    place: Place, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_plan, "ROWS_MAX", 4)
    table = _create(place, width)
    for at in range(3):
        _land(table, 10 * (at + 1), 0, *range(4 * at, 4 * at + 4))
        table.drain(LEADER)
    before = {file.path for file in table.snapshot().stable}
    assert len(before) == 3
    _land(table, 40, 1, 5)
    table.drain(LEADER)
    assert len(before - {file.path for file in table.snapshot().stable}) == 1
    assert _told(table.read()) == {**dict.fromkeys(range(12), 0), 5: 1}


# --- lakes from before ----------------------------------------------------------------------------


def _ours_last(rows: pa.Schema) -> pa.Schema:
    names = [*rows.names, POSITION, SEQ, OP]
    return pa.schema([ingest_schema(rows).field(name) for name in names])


@pytest.fixture
def older(place: Place, monkeypatch: pytest.MonkeyPatch, width: int) -> LayeredTable:
    """Made when our columns stood last and Delta was told nothing of statistics."""
    with monkeypatch.context() as before:
        before.setattr(layer_notes, "KEPT", {})
        before.setattr(layer_notes, "OF_INGEST", {})
        before.setattr(layered, "ingest_schema", _ours_last)
        return _create(place, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_an_older_table_goes_on(older: LayeredTable) -> None:
    _goes_through_a_life(older)
    assert len(older.snapshot().ingest) == 1, "its statistics are seen from then on"


@pytest.mark.parametrize("width", [100])
def test_a_file_that_does_not_tell_its_positions_may_have_any(
    older: LayeredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_notes, "STATISTICS", {})
    monkeypatch.setattr(layer_notes, "OF_INGEST", {})
    for at in range(4):
        _land(older, 10 * (at + 1), at, at, at + 1)
    files = live_files(older.ingest.handle)
    assert not any(POSITION in file.high for file in files)
    seen = older.snapshot()
    assert len(seen.ingest) == 4
    assert streaming._cut(seen, 0, 1) == 40, "no batch ends in the middle of a file"
    assert older.plan_drain(rows_max=2) is not None
    older.drain(LEADER)
    assert older.prune(DISPATCHER) == 0
    assert _told(older.read()) == {0: 0, 1: 1, 2: 2, 3: 3, 4: 3}
    _land(older, 50, 9, 2)
    older.drain(LEADER)
    assert _told(older.read()) == {0: 0, 1: 1, 2: 9, 3: 3, 4: 3}
    assert _told(older.read(snapshot_at(older, 30))) == {0: 0, 1: 1, 2: 2, 3: 2}
