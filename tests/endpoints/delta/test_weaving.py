"""Weaving changes into a stream of rows is merging them, and leaves what was in order so."""

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.endpoints.delta.changes import DELETE, OP, POSITION, PUT, SEQ, ingest_schema, merge
from lockgate.endpoints.delta.weaving import woven

KINDS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "int": (pa.int64(), lambda n: n - 5),
    "text": (pa.string(), lambda n: "aäz"[n % 3] * (n // 3 + 1)),
    "date": (pa.date32(), lambda n: dt.date(2026, 1, 1) + dt.timedelta(n)),
    "float": (pa.float64(), lambda n: [float("nan"), -0.5][n] if n < 2 else float(n)),
}
numbers = st.lists(st.integers(0, 20), unique=True)
changed = st.lists(
    st.tuples(st.integers(0, 24), st.sampled_from([PUT, DELETE])),
    unique_by=lambda change: change[0],
)


def _rows(kind: str, keys: list[int], v: int) -> pa.Table:
    arrow, value = KINDS[kind]
    schema = pa.schema([("k", arrow), ("v", pa.int64())])
    return pa.Table.from_pylist([{"k": value(n), "v": v} for n in keys], schema=schema)


def _states(kind: str, changes: list[tuple[int, str]]) -> pa.Table:
    rows = _rows(kind, [n for n, _ in changes], 1)
    numbers = pa.array(range(len(changes)), pa.int64())
    ops = pa.array([op for _, op in changes], pa.string())
    return pa.Table.from_arrays(
        [numbers, numbers, ops, *rows.columns], schema=ingest_schema(rows.schema)
    )


def _listed(rows: pa.Table) -> list[str]:
    """As they are written, for a NaN is not equal to itself."""
    return sorted(map(repr, rows.to_pylist()))


def _pieces(rows: pa.Table, size: int) -> Iterator[pa.Table]:
    return (rows.slice(at, size) for at in range(0, rows.num_rows, size))


def _woven(base: pa.Table, states: pa.Table, key: list[str], size: int) -> pa.Table:
    out = woven(_pieces(base, size), states, key, base.schema)
    return pa.concat_tables([base.schema.empty_table(), *out])


@pytest.mark.parametrize("kind", KINDS)
@given(keys=numbers, changes=changed, size=st.integers(1, 6))
def test_it_is_what_merging_makes_of_it(
    kind: str, keys: list[int], changes: list[tuple[int, str]], size: int
) -> None:
    base, states = _rows(kind, keys, 0), _states(kind, changes)
    found = _woven(base, states, ["k"], size)
    assert found.schema == base.schema
    wanted = merge(base, states, ["k"])
    assert _listed(found) == _listed(wanted)


@pytest.mark.parametrize("kind", ["int", "text", "date"])
@given(keys=numbers, changes=changed, size=st.integers(1, 6))
def test_what_was_in_order_stays_in_order(
    kind: str, keys: list[int], changes: list[tuple[int, str]], size: int
) -> None:
    base = _rows(kind, keys, 0).sort_by("k")
    found = _woven(base, _states(kind, changes), ["k"], size)["k"].to_pylist()
    assert found == sorted(found)


@given(
    keys=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), unique=True),
    changes=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from([PUT, DELETE])),
        unique_by=lambda change: change[:2],
    ),
    size=st.integers(1, 6),
    ordered=st.booleans(),
)
def test_a_key_of_two_columns_is_told_by_both(
    keys: list[tuple[int, int]],
    changes: list[tuple[int, int, str]],
    size: int,
    ordered: bool,
) -> None:
    keys = sorted(keys) if ordered else keys
    base = pa.table({"a": [a for a, _ in keys], "b": [b for _, b in keys], "v": [0] * len(keys)})
    base = base.cast(pa.schema([("a", pa.int64()), ("b", pa.int64()), ("v", pa.int64())]))
    rows = [
        {"a": a, "b": b, "v": 1, POSITION: n, SEQ: n, OP: op}
        for n, (a, b, op) in enumerate(changes)
    ]
    states = pa.Table.from_pylist(rows, schema=ingest_schema(base.schema))
    found = _woven(base, states, ["a", "b"], size)
    wanted = merge(base, states, ["a", "b"])
    assert _listed(found) == _listed(wanted)


words = st.sampled_from([None, "", "a", "ä", "paid"])


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=str)
@given(
    rows=st.lists(st.tuples(st.integers(0, 20), words), unique_by=lambda row: row[0]),
    changes=st.lists(
        st.tuples(st.integers(0, 24), words, st.sampled_from([PUT, DELETE])),
        unique_by=lambda change: change[0],
    ),
    size=st.integers(1, 6),
    ordered=st.booleans(),
)
def test_rows_that_have_a_dictionary_are_woven_as_those_without(
    kind: pa.DataType,
    rows: list[tuple[int, str | None]],
    changes: list[tuple[int, str | None, str]],
    size: int,
    ordered: bool,
) -> None:
    rows = sorted(rows, key=lambda row: row[0]) if ordered else rows
    schema = pa.schema([("k", pa.int64()), ("v", kind)])
    texts = pa.array([v for _, v in rows], pa.string()).cast(kind)
    base = pa.table([pa.array([k for k, _ in rows], pa.int64()), texts], schema=schema)
    numbers = pa.array(range(len(changes)), pa.int64())
    states = pa.Table.from_arrays(
        [
            numbers,
            numbers,
            pa.array([op for _, _, op in changes], pa.string()),
            pa.array([k for k, _, _ in changes], pa.int64()),
            pa.array([v for _, v, _ in changes], pa.string()).cast(kind),
        ],
        schema=ingest_schema(schema),
    )
    coded = schema.set(1, pa.field("v", pa.dictionary(pa.int32(), kind)))
    # Each piece with a dictionary of its own, as those of two groups of a file have them.
    pieces = [piece.cast(coded) for piece in _pieces(base, size)]
    out = [piece.cast(schema) for piece in woven(pieces, states, ["k"], schema)]
    found = pa.concat_tables([schema.empty_table(), *out])
    assert _listed(found) == _listed(merge(base, states, ["k"]))
