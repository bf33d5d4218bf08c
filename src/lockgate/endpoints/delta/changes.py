"""Changes as the ingest layer keeps them, and what many of them come to.

A row of ingest is three columns of ours and a row of the table:

    _lockgate_position   where in the source's log it was committed
    _lockgate_seq        its place among all changes; no two are equal
    _lockgate_op         put: the row is now so; delete: only its key says something;
                         wipe: all rows of the table are gone, the row itself says nothing

Every put is a whole row: what the source did not send because it had not changed is filled in
before it gets here. So the last change of a key is all there is to know about the key, and a wipe
makes everything before it not worth knowing.

Ours stand first, where readers of Delta look for statistics before they look no further: which
files hold changes after a position is told by those alone. Columns go by name all the same, for
there are tables in which ours stand last.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.delta.files import DataFile
from lockgate.endpoints.keys import encode
from lockgate.model.positions import Position

__all__ = [
    "DELETE",
    "OP",
    "OURS",
    "POSITION",
    "PUT",
    "SEQ",
    "WIPE",
    "in_order",
    "ingest_schema",
    "known",
    "last_states",
    "may_follow",
    "merge",
    "rows_of",
    "window",
]

POSITION: Final = "_lockgate_position"
SEQ: Final = "_lockgate_seq"
OP: Final = "_lockgate_op"
OURS: Final = (POSITION, SEQ, OP)
PUT, DELETE, WIPE = "put", "delete", "wipe"

Mask = npt.NDArray[np.bool_]


def ingest_schema(rows: pa.Schema) -> pa.Schema:
    """The schema of a table's ingest layer. Nothing is required: a delete has its key alone."""
    fields = [pa.field(field.name, field.type) for field in rows]
    ours = [(POSITION, pa.int64()), (SEQ, pa.int64()), (OP, pa.string())]
    return pa.schema([*(pa.field(name, kind, nullable=False) for name, kind in ours), *fields])


def may_follow(file: DataFile, position: Position) -> bool:
    """False when all changes of a file of ingest lie at or before the position. One that does not
    tell may have later ones."""
    high: Position | None = file.high.get(POSITION)
    return high is None or high > position


def window(changes: pa.Table, after: Position, upto: Position) -> pa.Table:
    """The changes with positions in (after, upto]."""
    inside = pc.and_(pc.greater(changes[POSITION], after), pc.less_equal(changes[POSITION], upto))
    # Mostly all of a file's are: then nothing is copied.
    return changes if pc.all(inside, min_count=0).as_py() else changes.filter(inside)


def in_order(changes: pa.Table) -> pa.Table:
    """The changes by their numbers."""
    seqs = np.asarray(changes[SEQ])
    if np.any(seqs[1:] < seqs[:-1]):  # files are mostly listed in their order
        changes = changes.take(pa.array(np.argsort(seqs, kind="stable")))
    return changes


def last_states(changes: pa.Table, key: list[str]) -> tuple[pa.Table, bool]:
    """The last change of every key; and whether the table was wiped before them."""
    changes = in_order(changes)
    wipes = np.flatnonzero(np.asarray(pc.equal(changes[OP], WIPE)))
    wiped = len(wipes) > 0
    if wiped:
        changes = changes.slice(int(wipes[-1]) + 1)
    if not changes.num_rows:
        return changes, wiped
    last = encode([changes[name] for name in key]).last()
    if len(last) < changes.num_rows:
        changes = changes.take(pa.array(np.sort(last)))
    return changes, wiped


def rows_of(states: pa.Table) -> pa.Table:
    """The rows that are there after the changes, without our columns."""
    return states.filter(pc.equal(states[OP], PUT)).drop_columns(list(OURS))


def merge(base: pa.Table, states: pa.Table, key: list[str]) -> pa.Table:
    """The base without the keys that the states know of, and the rows that they bring."""
    if not states.num_rows:
        return base
    kept = base
    if base.num_rows:
        kept = base.filter(pa.array(~known(base, states, key)))
    return pa.concat_tables([kept, rows_of(states).select(base.column_names).cast(base.schema)])


def known(base: pa.Table, states: pa.Table, key: list[str]) -> Mask:
    """Which rows of the base have a key that is among the states'. There are states."""
    if len(key) == 1:
        return np.asarray(pc.is_in(base[key[0]], value_set=_plain(states[key[0]])))
    codes = encode([_both(base[name], states[name]) for name in key])
    known: Mask = np.zeros(codes.size, dtype=np.bool_)
    known[codes.codes[base.num_rows :]] = True
    found: Mask = known[codes.codes[: base.num_rows]]
    return found


def _both(first: Any, second: Any) -> Any:
    return pa.chunked_array([*first.chunks, *second.cast(first.type).chunks], type=first.type)


def _plain(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
