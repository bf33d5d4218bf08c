"""Rows of files and what changed among them, as one stream in the order of the key.

    rows of files   1  2  4 │  5  7  8 │  9 …         piece by piece, as they are read
    states          2: put     6: put     8: delete   sorted by the key's first column
    out             1  2' 4 │  5  6' 7 │  9 …

A piece is compared with the states of its own range only, and a put goes where its key belongs. So
a file that was in order stays in order: later drains go through it as quickly as the first, its
values lie beside those that compress well with them, and readers skip row groups by their range.

Order is a kindness, not a promise. Where a piece is not in order, or its key is of a type whose
order is not the same for everybody, it is compared with all states and the puts come at the end.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.delta.changes import known, rows_of
from lockgate.endpoints.delta.schemas import conform
from lockgate.endpoints.keys import whole

__all__ = ["has_order", "woven"]

Index = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def has_order(kind: pa.DataType) -> bool:
    """Types whose order is the same for every reader, and whose values are exact in the log."""
    return bool(pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_string(kind))


def woven(
    pieces: Iterable[pa.Table], states: pa.Table, key: list[str], schema: pa.Schema
) -> Iterator[pa.Table]:
    """The rows without the keys that the states know of, and the rows that the states bring.

    Every state's key is among the pieces' at most once.
    """
    if not states.num_rows:
        yield from pieces
        return
    loom = _Loom(states, key, schema)
    for piece in pieces:
        if piece.num_rows:
            yield loom.weave(piece)
    yield loom.rest()


class _Loom:
    """The states in order, and how many puts have been given."""

    def __init__(self, states: pa.Table, key: list[str], schema: pa.Schema) -> None:
        self._key = key
        self._first = key[0]
        self._ordered = has_order(schema.field(self._first).type)
        if self._ordered and not _ascends(whole(states[self._first])):
            states = states.sort_by(self._first)
        self._states = conform(states.select(key), pa.schema([schema.field(name) for name in key]))
        self._firsts = whole(self._states[self._first])
        self._puts = conform(rows_of(states), schema).combine_chunks()
        self._put_firsts = whole(self._puts[self._first])
        self._given = 0

    def weave(self, piece: pa.Table) -> pa.Table:
        """What becomes of the piece, and the puts that belong in it or before it."""
        firsts = whole(piece[self._first])
        if not (self._ordered and _ascends(firsts)):
            return _kept(piece, known(piece, self._states, self._key))
        low, high = firsts[0], firsts[-1]
        start, end = _place(self._firsts, low, "left"), _place(self._firsts, high, "right")
        upto = max(self._given, _place(self._put_firsts, high, "right"))
        gone = self._gone(piece, firsts, start, end)
        if upto == self._given:
            return _kept(piece, gone)
        puts = self._puts.slice(self._given, upto - self._given)
        edges = self._put_firsts.slice(self._given, upto - self._given)
        self._given = upto
        before = np.asarray(pc.search_sorted(firsts, edges, side="left")).astype(np.int64)
        return _together(piece, puts, np.flatnonzero(~gone), before)

    def rest(self) -> pa.Table:
        """The puts that belong behind everything, or nowhere."""
        return self._puts.slice(self._given)

    def _gone(self, piece: pa.Table, firsts: Any, start: int, end: int) -> Mask:
        """Which rows of a piece that is in order have keys of the states from start to end."""
        if start == end:
            return np.zeros(piece.num_rows, dtype=np.bool_)
        if len(self._key) > 1:
            return known(piece, self._states.slice(start, end - start), self._key)
        # A few are looked up among many that are in order: no need to look at each of the many.
        near = self._firsts.slice(start, end - start)
        at = pc.search_sorted(firsts, near, side="left")
        gone: Mask = np.zeros(piece.num_rows, dtype=np.bool_)
        gone[np.asarray(at.filter(pc.equal(firsts.take(at), near)))] = True
        return gone


def _together(piece: pa.Table, puts: pa.Table, kept: Index, before: Index) -> pa.Table:
    """The kept rows of the piece, with each put before the row of this number."""
    order = np.insert(kept, np.searchsorted(kept, before), piece.num_rows + np.arange(len(before)))
    puts = conform(puts, piece.schema)  # whose columns may be dictionaries
    both = pa.concat_batches([*piece.to_batches(), *puts.to_batches()])
    # The numbers are ours, and are all there: nothing has to look at each of them to see that.
    return pa.Table.from_batches([pc.take(both, pa.array(order), boundscheck=False)])


def _kept(piece: pa.Table, gone: Mask) -> pa.Table:
    return piece.filter(pa.array(~gone)) if gone.any() else piece


def _ascends(values: Any) -> bool:
    pairs = pc.less_equal(values.slice(0, len(values) - 1), values.slice(1))
    return bool(pc.all(pairs, min_count=0).as_py())


def _place(ranked: Any, edge: Any, side: str) -> int:
    found: int = pc.search_sorted(ranked, edge, side=side).as_py()
    return found
