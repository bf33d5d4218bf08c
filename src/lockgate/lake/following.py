"""The changelog of a table between two positions, in parts for tasks that read with Arrow.

A part is a range of the key's first column. Its task reads the changes of the stretch, and what the
table had of their keys before it: the rows of stable that may be among them, and the changes of
ingest since stable was drained.
"""

from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.delta.changelog import changelog
from lockgate.endpoints.delta.changes import (
    OP,
    POSITION,
    WIPE,
    ingest_schema,
    known,
    last_states,
    may_follow,
    merge,
    window,
)
from lockgate.endpoints.delta.files import DataFile
from lockgate.endpoints.delta.lake import INGEST, STABLE
from lockgate.endpoints.delta.layered import LayeredTable, Snapshot
from lockgate.endpoints.delta.place import Place
from lockgate.lake.scanning import from_ipc, overlaps, scan, to_ipc
from lockgate.model.positions import Position
from lockgate.model.value import Value

__all__ = ["ROWS_PER_PART", "Stretch", "changes_of_part", "plan"]

ROWS_PER_PART: Final = 200_000
_ASKED_MAX: Final = 10_000
"""More keys than this are not looked for one by one."""


class Stretch(Value, frozen=True):
    """What a task needs to know for its part of the changelog."""

    home: str
    key: tuple[str, ...]
    stable: tuple[DataFile, ...]
    ingest: tuple[DataFile, ...]
    drained: Position
    after: Position
    upto: Position
    edges: bytes
    """The values at which parts begin."""
    part: int


def plan(table: LayeredTable, seen: Snapshot, after: Position) -> list[Stretch]:
    """The parts of the changelog from `after` up to where the snapshot ends."""
    fresh = [file for file in seen.ingest if may_follow(file, after)]
    if not fresh or after >= seen.position:
        return []
    edges = _edges(table, fresh, after, seen.position)
    one = Stretch(
        table.home,
        tuple(table.key),
        tuple(_told(file, table.key[0]) for file in seen.stable),
        tuple(_told(file, POSITION) for file in seen.ingest),
        seen.drained,
        after,
        seen.position,
        to_ipc(pa.table({"edge": edges})),
        0,
    )
    return [msgspec.structs.replace(one, part=part) for part in range(len(edges) + 1)]


def changes_of_part(place: Place, order: Stretch, schema: pa.Schema) -> pa.Table:
    """The part's changelog; `schema` is that of the table's rows."""
    key = list(order.key)
    changes = _changes(place, order, schema)
    fresh = window(changes, order.after, order.upto)
    if not fresh.num_rows:
        return changelog(schema.empty_table(), fresh, key)
    keyed = fresh.filter(pc.not_equal(fresh[OP], WIPE))
    states, wiped = last_states(window(changes, order.drained, order.after), key)
    base = schema.empty_table()
    if keyed.num_rows and not wiped:
        base = _found(place, order, schema, keyed)
    base = merge(base, states, key)
    if base.num_rows and keyed.num_rows:
        base = base.filter(pa.array(known(base, keyed, key)))
    if order.part:  # a wipe is everybody's, and told by the first
        return _without_wipes(changelog(base, fresh, key))
    return changelog(base, fresh, key)


def _without_wipes(log: pa.Table) -> pa.Table:
    return log.filter(pc.not_equal(log["_op"], "truncate"))


# --- cutting --------------------------------------------------------------------------------------


def _edges(table: LayeredTable, files: list[DataFile], after: Position, upto: Position) -> Any:
    """Values of the key's first column that cut the changes into even parts."""
    first = table.key[0]
    kind = table.rows.field(first).type
    parts = -(-sum(file.rows for file in files) // ROWS_PER_PART)
    if parts < 2:
        return pa.array([], kind)
    layer = f"{INGEST}{table.home}"
    where = (pc.field(POSITION) > after) & (pc.field(POSITION) <= upto) & (pc.field(OP) != WIPE)
    schema = ingest_schema(table.rows)
    batches = [
        b for file in files for b in scan(table.place, layer, file.path, schema, [first], where)
    ]
    values = pa.Table.from_batches(batches, pa.schema([schema.field(first)]))[first]
    ranked = values.take(pc.sort_indices(values))
    if not len(ranked):
        return pa.array([], kind)
    at = np.arange(1, parts) * len(ranked) // parts
    return pc.unique(ranked.take(pa.array(at))).cast(kind)


def _bounds(order: Stretch) -> tuple[Any, Any]:
    """The least value of the part, and the least that is beyond it; None where there is no end."""
    edges = from_ipc(order.edges)["edge"]
    low = edges[order.part - 1] if order.part else None
    return low, edges[order.part] if order.part < len(edges) else None


def _told(file: DataFile, column: str) -> DataFile:
    """What of a file a task has to know: its other edges may be long texts."""
    low, high = ({c: v for c, v in e.items() if c == column} for e in (file.low, file.high))
    return msgspec.structs.replace(file, low=low, high=high)


# --- reading --------------------------------------------------------------------------------------


def _changes(place: Place, order: Stretch, schema: pa.Schema) -> pa.Table:
    """All changes since stable was drained, of the part's keys."""
    first = pc.field(order.key[0])
    where = (pc.field(POSITION) > order.drained) & (pc.field(POSITION) <= order.upto)
    low, high = _bounds(order)
    inside = [first >= low] if low is not None else []
    inside += [first < high] if high is not None else []
    for bound in inside:
        where = where & (bound | (pc.field(OP) == WIPE))
    wanted = ingest_schema(schema)
    layer = f"{INGEST}{order.home}"
    batches = (
        batch
        for file in order.ingest
        for batch in scan(place, layer, file.path, wanted, wanted.names, where)
    )
    return pa.Table.from_batches(batches, wanted)


def _found(place: Place, order: Stretch, schema: pa.Schema, keyed: pa.Table) -> pa.Table:
    """The rows of stable that have one of the keys."""
    key = list(order.key)
    first = key[0]
    asked = pc.unique(keyed[first])
    asked = asked.take(pc.sort_indices(asked))
    low, high = asked[0], asked[-1]
    where = (pc.field(first) >= low) & (pc.field(first) <= high)
    if len(asked) <= _ASKED_MAX:
        where = where & pc.field(first).isin(asked)
    found = [
        rows.filter(pa.array(known(rows, keyed, key)))
        for file in order.stable
        if _may_hold(file, first, asked)
        for batch in scan(place, STABLE, file.path, schema, schema.names, where)
        if (rows := pa.Table.from_batches([batch])).num_rows
    ]
    return pa.concat_tables([schema.empty_table(), *found])


def _may_hold(file: DataFile, column: str, asked: Any) -> bool:
    """Whether one of the values lies in the file's range."""
    least = file.low.get(column)
    if least is None or column not in file.high:
        return True
    at = pc.search_sorted(asked, pa.scalar(least, asked.type), side="left").as_py()
    return at < len(asked) and overlaps(file, column, asked[at].as_py(), asked[at].as_py())
