"""What many changes come to, against a dictionary that takes them one by one (L1)."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.endpoints.delta.changes import (
    DELETE,
    OP,
    POSITION,
    PUT,
    SEQ,
    WIPE,
    ingest_schema,
    last_states,
    merge,
    window,
)

ROWS = pa.schema([("a", pa.int64()), ("b", pa.string()), ("v", pa.float64())])
Row = tuple[int, str, float | None]

keys = st.tuples(st.integers(0, 3), st.sampled_from(["", "x", "ü'\";"]))
values = st.none() | st.integers(0, 5).map(float)
rows = st.builds(lambda key, value: (*key, value), keys, values)
changes = st.lists(
    st.tuples(st.sampled_from([PUT, PUT, PUT, DELETE, WIPE]), rows, st.integers(1, 4))
)


def _ingest(history: list[tuple[str, Row, int]]) -> pa.Table:
    position = 0
    out: list[dict[str, Any]] = []
    for seq, (op, (a, b, v), step) in enumerate(history):
        position += step
        row = {"a": a, "b": b, "v": v} if op == PUT else {"a": a, "b": b, "v": None}
        if op == WIPE:
            row = {"a": None, "b": None, "v": None}
        out.append({**row, POSITION: position, SEQ: seq, OP: op})
    return pa.Table.from_pylist(out, schema=ingest_schema(ROWS))


def _table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([{"a": a, "b": b, "v": v} for a, b, v in rows], schema=ROWS)


def _expected(
    base: list[Row], history: list[tuple[str, Row, int]], upto: int, key: list[str]
) -> list[Row]:
    def key_of(row: Row) -> tuple[Any, ...]:
        return tuple(row["abv".index(name)] for name in key)

    there = {key_of(row): row for row in base}
    position = 0
    for op, row, step in history:
        position += step
        if position > upto:
            break
        if op == WIPE:
            there.clear()
        elif op == PUT:
            there[key_of(row)] = row
        else:
            there.pop(key_of(row), None)
    return sorted(there.values(), key=repr)


@pytest.mark.parametrize("key", [["a", "b"], ["b", "a"], ["a"]])
@given(base=st.lists(rows, unique_by=lambda row: row[:1]), history=changes, upto=st.integers(0, 30))
def test_merged_it_is_what_the_changes_made_of_it(
    key: list[str], base: list[Row], history: list[tuple[str, Row, int]], upto: int
) -> None:
    states, wiped = last_states(window(_ingest(history), 0, upto), key)
    found = merge(_table([] if wiped else base), states, key)
    assert found.schema == ROWS
    there = sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)
    assert there == _expected(base, history, upto, key)


@given(history=changes, cut=st.integers(0, 30))
def test_merging_in_two_steps_is_merging_in_one(
    history: list[tuple[str, Row, int]], cut: int
) -> None:
    """Which is why a drain changes no answer, wherever it cuts."""
    ingest = _ingest(history)
    whole, _ = last_states(ingest, ["a", "b"])
    first, _ = last_states(window(ingest, 0, cut), ["a", "b"])
    second, wiped = last_states(window(ingest, cut, 10**6), ["a", "b"])
    drained = merge(_table([]), first, ["a", "b"])
    after = merge(_table([]) if wiped else drained, second, ["a", "b"])
    assert sorted(after.to_pylist(), key=repr) == sorted(
        merge(_table([]), whole, ["a", "b"]).to_pylist(), key=repr
    )
