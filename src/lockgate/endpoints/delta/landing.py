"""Changes of the change log as changes of an ingest layer, whole rows each.

    log of a window ──► what comes, goes, is wiped ──► values that were not sent again:
                                                         ├─ from an earlier change of the log
                                                         └─ from the lake, by key

An update that changes the key is two changes: the old key goes, the new one comes. Both have the
position of the one, and numbers of their own that follow each other.

A large value that an update did not touch is not in the log. It is what the row had before: the
change that made that state is followed back (`_Past`) until one knows the value, or the lake does.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.delta.changes import DELETE, OP, POSITION, PUT, SEQ, WIPE
from lockgate.endpoints.delta.types import from_lake, to_lake
from lockgate.endpoints.keys import encode
from lockgate.endpoints.postgres.sink.log import DELETE as DELETED
from lockgate.endpoints.postgres.sink.log import TRUNCATE as TRUNCATED
from lockgate.endpoints.postgres.sink.log import UPDATE as UPDATED
from lockgate.endpoints.postgres.sink.log import Log
from lockgate.model.errors import Terminal

__all__ = ["Lookup", "RowMissing", "changes_of"]

Index = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

Lookup = Callable[[pa.Table, list[str]], pa.Table]
"""Given keys, and names of columns: the rows of the lake with these keys, key and columns."""

_NAMES: Final = pa.array([PUT, DELETE, WIPE])
_PUT, _DELETE, _WIPE = 0, 1, 2


class RowMissing(Terminal):
    """A large value is not in the log, and the row that has it is not in the lake."""

    code = "row-missing"


def changes_of(log: Log, seq: Index, schema: pa.Schema, lookup: Lookup) -> pa.Table:
    """The log's changes for an ingest layer of this schema. `seq` numbers the log's rows.

    A column that the source has dropped stays in the lake, and is empty from then on.
    """
    shape = log.shape
    key = log.key
    old_key = [log.old[i] for i in key if i in log.old]
    moved = _moved(log, key, old_key)
    goes = np.flatnonzero((log.op == DELETED) | moved)
    comes = np.flatnonzero((log.op != DELETED) & (log.op != TRUNCATED))
    wiped = np.flatnonzero(log.op == TRUNCATED)
    kinds = np.repeat([_DELETE, _PUT, _WIPE], [len(goes), len(comes), len(wiped)])
    rows = np.concatenate([goes, comes, wiped])
    # Twice the number leaves room: of a row that changed its key, the old one goes first.
    numbers = seq[rows] * 2 + (kinds == _PUT)
    columns = [_column(log, i, goes, comes, len(wiped), key) for i in range(len(shape.columns))]
    if log.unknown:
        columns = _known(log, columns, goes, comes, key, lookup)
    brought = to_lake(columns, shape, schema)
    have = dict(zip(brought.column_names, brought.columns, strict=True))
    have[POSITION] = pa.array(log.position[rows])
    have[SEQ] = pa.array(numbers)
    have[OP] = _NAMES.take(pa.array(kinds))
    empty = {field.name: pa.nulls(len(rows), field.type) for field in schema}
    return pa.table({**empty, **have}, schema=schema)


def _moved(log: Log, key: list[int], old_key: list[Any]) -> Mask:
    """Which updates changed the key."""
    asks: Mask = (log.op == UPDATED) & log.has_old
    if not asks.any():
        return asks
    at = np.flatnonzero(asks)
    both = [
        pa.concat_arrays([_take(old, at), _take(log.new[i], at)])
        for i, old in zip(key, old_key, strict=True)
    ]
    codes = encode(both).codes
    differs: Mask = np.zeros(len(log), dtype=np.bool_)
    differs[at] = codes[: len(at)] != codes[len(at) :]
    return differs


def _column(log: Log, i: int, goes: Index, comes: Index, wipes: int, key: list[int]) -> Any:
    """One column of the ingest: of what goes the key alone, of what comes everything."""
    kind = log.new[i].type
    gone = _take(log.old[i], goes) if i in key and len(goes) else pa.nulls(len(goes), kind)
    return pa.concat_arrays([gone.cast(kind), _take(log.new[i], comes), pa.nulls(wipes, kind)])


# --- values that the log does not repeat ---------------------------------------------------------


def _known(
    log: Log,
    columns: list[Any],
    goes: Index,
    comes: Index,
    key: list[int],
    lookup: Lookup,
) -> list[Any]:
    """The columns with every value that an update left alone."""
    past = _Past(log, columns, goes, comes, key)
    asked: dict[int, tuple[Index, Index]] = {}
    for i, unknown in log.unknown.items():
        lacking = np.flatnonzero(unknown[comes])
        source = past.knows(unknown, comes[lacking])
        in_log = ~unknown[source]
        at = len(goes) + lacking
        columns[i] = _replaced(columns[i], at[in_log], _take(log.new[i], source[in_log]))
        if not in_log.all():
            asked[i] = at[~in_log], past.found_by(source[~in_log])
    return _from_lake(log, columns, asked, key, lookup) if asked else columns


class _Past:
    """Which change made the state that another one found, by rows of the log."""

    def __init__(
        self, log: Log, columns: list[Any], goes: Index, comes: Index, key: list[int]
    ) -> None:
        rows = np.concatenate([goes, comes])
        makes = np.concatenate([np.zeros(len(goes), np.bool_), np.ones(len(comes), np.bool_)])
        codes = encode([columns[i].slice(0, len(rows)) for i in key]).codes
        rank = np.empty(len(log), dtype=np.int64)
        rank[log.order] = np.arange(len(log))
        when = rank[rows] * 2 + makes
        order = np.lexsort((when, codes))
        previous = np.full(len(rows), -1, dtype=np.int64)
        same = codes[order[1:]] == codes[order[:-1]]
        previous[order[1:][same]] = order[:-1][same]
        # A change finds its row under the key that goes, if one goes, else under its own.
        self._finder = np.full(len(log), -1, dtype=np.int64)
        self._finder[comes] = len(goes) + np.arange(len(comes))
        self._finder[goes] = np.arange(len(goes))
        earlier = previous[self._finder[comes]]
        wipe = rank[log.op == TRUNCATED]
        made = (earlier >= 0) & makes[np.maximum(earlier, 0)]
        if len(wipe):
            made &= ~_between(wipe, rank[rows[np.maximum(earlier, 0)]], rank[comes])
        self._before = np.full(len(log), -1, dtype=np.int64)
        self._before[comes[made]] = rows[earlier[made]]

    def knows(self, unknown: Mask, rows: Index) -> Index:
        """For each row, the one that knows the value; where none does, the first of its past."""
        own = np.arange(len(unknown))
        pointers = np.where(unknown & (self._before >= 0), self._before, own)
        while True:
            further = pointers[pointers]
            if np.array_equal(further, pointers):
                return pointers[rows]
            pointers = further

    def found_by(self, rows: Index) -> Index:
        """Where among the ingest's rows the key stands that these find their row under."""
        return self._finder[rows]


def _between(wipes: Index, low: Index, high: Index) -> Mask:
    """Whether a wipe lies between two ranks."""
    wipes = np.sort(wipes)
    found: Mask = np.searchsorted(wipes, low) != np.searchsorted(wipes, high)
    return found


def _from_lake(
    log: Log,
    columns: list[Any],
    asked: dict[int, tuple[Index, Index]],
    key: list[int],
    lookup: Lookup,
) -> list[Any]:
    """Fill in what only the lake has, with one look for all columns."""
    shape = log.shape
    names = [shape.columns[i].name for i in asked]
    finders = np.unique(np.concatenate([found for _, found in asked.values()]))
    keys = pa.table({shape.columns[i].name: _take(columns[i], finders) for i in key})
    there = lookup(keys, names)
    known = {
        column.name: _whole(from_lake(there[column.name], column))
        for column in shape.columns
        if column.name in there.column_names
    }
    both = [pa.concat_arrays([_whole(keys[name]), known[name]]) for name in keys.column_names]
    codes = encode(both).codes
    place = np.full(int(codes.max()) + 1, -1, dtype=np.int64)
    place[codes[len(finders) :]] = np.arange(there.num_rows)
    for i, (at, found) in asked.items():
        rows = place[codes[np.searchsorted(finders, found)]]
        if (rows < 0).any():
            raise RowMissing(
                "a value that was not sent again is not in the lake either",
                object_=f"{shape.table}.{shape.columns[i].name}",
                hint="copy the table anew: lockgate feed resync",
                operation="land changes",
            )
        columns[i] = _replaced(columns[i], at, _take(known[shape.columns[i].name], rows))
    return columns


def _replaced(column: Any, at: Index, values: Any) -> Any:
    if not len(at):
        return column
    mask = np.zeros(len(column), dtype=np.bool_)
    mask[at] = True
    order = np.argsort(at, kind="stable")
    return pc.replace_with_mask(column, pa.array(mask), _take(values, order))


def _take(values: Any, index: Index) -> Any:
    return _whole(values).take(pa.array(index))


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
