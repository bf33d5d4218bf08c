"""Rows are found by key as they are, and hardly more is read than what is asked for."""

from typing import Any

import pyarrow as pa
import pytest

from lockgate.endpoints.delta import drain_plan, missing
from lockgate.endpoints.delta.changes import DELETE, OP, POSITION, PUT, SEQ, WIPE, ingest_schema
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.lookup import look_up
from lockgate.endpoints.delta.place import Place
from tests.support.lakes import DISPATCHER, LEADER

ROWS = pa.schema(
    [("id", pa.int64()), ("part", pa.string()), ("body", pa.string()), ("other", pa.string())]
)
OURS = {POSITION, SEQ, OP}
KEY = {"id", "part"}


@pytest.fixture
def table(place: Place) -> LayeredTable:
    return LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER, 1, settled=1)


def _land(table: LayeredTable, position: int, *changes: tuple[str, int, str | None]) -> str:
    """A batch, and the name of its file."""
    rows: list[dict[str, Any]] = [
        {POSITION: position, SEQ: position + n, OP: op}
        | ({} if op == WIPE else {"id": id_, "part": "a", "body": body})
        for n, (op, id_, body) in enumerate(changes)
    ]
    before = {file.path for file in table.snapshot().ingest}
    batch = pa.Table.from_pylist(rows, schema=ingest_schema(table.rows))
    table.land(DISPATCHER, batch, position + len(changes))
    [path] = {file.path for file in table.snapshot().ingest} - before
    return path


def _found(table: LayeredTable, *ids: int) -> dict[int, str | None]:
    keys = pa.table({"id": pa.array(ids), "part": ["a"] * len(ids)})
    rows = look_up(table, keys, ["body"])
    assert rows.column_names == ["id", "part", "body"]
    listed = rows.to_pylist()
    assert len({row["id"] for row in listed}) == len(listed)
    return {row["id"]: row["body"] for row in listed}


class Reads:
    """Which columns are read of which file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.columns: dict[str, set[str]] = {}
        read, stream = missing.read_file, missing.stream_file

        def whole(place: Place, path: str, columns: Any, schema: pa.Schema) -> pa.Table:
            self.columns.setdefault(path, set()).update(schema.names)
            return read(place, path, columns, schema)

        def pieces(place: Place, path: str, schema: pa.Schema, coded: Any) -> Any:
            self.columns.setdefault(path, set()).update(schema.names)
            return stream(place, path, schema, coded)

        monkeypatch.setattr(missing, "read_file", whole)
        monkeypatch.setattr(missing, "stream_file", pieces)


def test_large_values_are_read_only_where_a_wanted_row_is(
    table: LayeredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_plan, "ROWS_MAX", 2)
    for start in (0, 100):
        _land(table, 10 + start, (PUT, start, "old"), (PUT, start + 9, "old"))
        table.drain(LEADER)
    near, far = sorted(table.snapshot().stable, key=lambda file: file.low["id"])
    has = _land(table, 220, (PUT, 2, "two"), (PUT, 3, "three"))
    replaced = _land(table, 230, (PUT, 4, "older"), (PUT, 5, "five"))
    gone = _land(table, 240, (PUT, 6, "six"), (DELETE, 9, None))
    last = _land(table, 250, (PUT, 4, "four"))
    reads = Reads(monkeypatch)
    assert _found(table, 2, 4, 9) == {2: "two", 4: "four"}
    assert reads.columns == {
        has: OURS | KEY | {"body"},
        replaced: OURS | KEY,
        gone: OURS | KEY,
        last: OURS | KEY | {"body"},
    }, "no key is left for stable"
    reads.columns.clear()
    assert _found(table, 0, 7) == {0: "old"}
    assert reads.columns == {
        **dict.fromkeys([has, replaced, gone, last], OURS | KEY),
        near.path: KEY | {"body"},
    }
    assert far.path not in reads.columns


def test_a_row_is_what_its_last_change_says(table: LayeredTable) -> None:
    _land(table, 10, *((PUT, id_, "stable") for id_ in range(8)))
    table.drain(LEADER)
    _land(table, 30, (PUT, 1, "updated"), (DELETE, 2, None), (DELETE, 3, None), (PUT, 8, "new"))
    _land(table, 40, (PUT, 3, "again"), (PUT, 1, "later"), (DELETE, 4, None), (PUT, 40, "moved"))
    _land(table, 50, (PUT, 5, None))
    assert _found(table, 0, 1, 2, 3, 4, 5, 8, 40, 99) == {
        0: "stable",
        1: "later",
        3: "again",
        5: None,
        8: "new",
        40: "moved",
    }
    assert _found(table, 2) == {}
    table.drain(LEADER)
    assert _found(table, 1, 2, 3, 40) == {1: "later", 3: "again", 40: "moved"}, "all in stable"


def test_of_what_was_wiped_nothing_is_found(table: LayeredTable) -> None:
    _land(table, 10, (PUT, 1, "stable"), (PUT, 2, "stable"))
    table.drain(LEADER)
    _land(table, 20, (PUT, 3, "ingest"), (PUT, 2, "ingest"))
    _land(table, 30, (WIPE, 0, None), (PUT, 2, "after"))
    assert _found(table, 1, 2, 3) == {2: "after"}


def test_another_row_with_one_column_of_the_key_is_another_row(table: LayeredTable) -> None:
    _land(table, 10, (PUT, 1, "a"))
    rows = [{"id": 1, "part": "b", "body": "b", POSITION: 20, SEQ: 20, OP: PUT}]
    table.land(DISPATCHER, pa.Table.from_pylist(rows, schema=ingest_schema(ROWS)), 20)
    assert _found(table, 1) == {1: "a"}


def test_a_change_that_is_there_twice_is_one_row(table: LayeredTable) -> None:
    for position in (10, 20):
        rows = [{"id": 1, "part": "a", "body": "once", POSITION: position, SEQ: 7, OP: PUT}]
        table.land(DISPATCHER, pa.Table.from_pylist(rows, schema=ingest_schema(ROWS)), position)
    assert _found(table, 1) == {1: "once"}


def test_a_column_that_is_new_to_ingest_is_empty_in_older_changes(table: LayeredTable) -> None:
    _land(table, 10, (PUT, 1, "a"))
    table.drain(LEADER)
    _land(table, 20, (PUT, 2, "b"))
    table.evolve(pa.schema([*ROWS, ("late", pa.string())]), 25, DISPATCHER)
    keys = pa.table({"id": [1, 2], "part": ["a", "a"]})
    rows = look_up(table, keys, ["late"]).sort_by("id")
    assert rows.to_pylist() == [{"id": n, "part": "a", "late": None} for n in (1, 2)]
