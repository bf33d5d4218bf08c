"""A whole table in parts for tasks that read with Arrow: what `format("lockgate")` reads in batch.

Who plans looks at the keys of ingest only. Each file of stable goes to a task with the keys that it
is to leave out, which are those of its range; each file of ingest with the places of the rows that
are the last of their key. So no row passes through the planner, and no task looks at another's.
"""

from collections.abc import Iterator

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.delta.changes import (
    OP,
    PUT,
    ingest_schema,
    known,
    last_states,
    window,
)
from lockgate.endpoints.delta.files import DataFile
from lockgate.endpoints.delta.lake import INGEST, STABLE
from lockgate.endpoints.delta.layered import LayeredTable, Snapshot
from lockgate.endpoints.delta.missing import read_data
from lockgate.endpoints.delta.place import Place
from lockgate.lake.scanning import from_ipc, scan, to_ipc
from lockgate.model.value import Value

__all__ = ["Part", "plan", "rows_of_part"]

_FILE, _ROW = "_lockgate_file", "_lockgate_row"


class Part(Value, frozen=True):
    """One file, and which of its rows count."""

    layer: str
    path: str
    rows: int
    keys: bytes = b""
    """Of stable: the keys whose rows do not count; empty when there are none."""
    places: bytes = b""
    """Of ingest: the places of the rows that count, 4 bytes each."""


def plan(table: LayeredTable, seen: Snapshot) -> list[Part]:
    """The parts that the table's rows are in."""
    states, wiped = _states(table, seen)
    parts = [] if wiped else list(_stable_parts(table, seen, states))
    puts = states.filter(pc.equal(states[OP], PUT))
    numbers = np.asarray(puts[_FILE])
    places = np.asarray(puts[_ROW]).astype(np.uint32)
    for number, file in enumerate(seen.ingest):
        mine = np.sort(places[numbers == number])
        if len(mine):
            layer = f"{INGEST}{table.home}"
            parts.append(Part(layer, file.path, len(mine), places=mine.tobytes()))
    return parts


def rows_of_part(
    place: Place,
    part: Part,
    key: list[str],
    schema: pa.Schema,
    columns: list[str],
) -> Iterator[pa.Table]:
    """The rows of a part that count, in these columns, a piece at a time."""
    if part.places:
        wanted = pa.schema([schema.field(name) for name in columns])
        data = read_data(place, part.layer, part.path, columns=columns, schema=wanted)
        yield data.take(pa.array(np.frombuffer(part.places, dtype=np.uint32)))
        return
    gone = from_ipc(part.keys) if part.keys else None
    # The key is needed to tell which rows changed, whether it is asked for or not.
    needed = list(dict.fromkeys([*columns, *(key if gone is not None else [])]))
    for batch in scan(place, part.layer, part.path, schema, needed):
        rows = pa.Table.from_batches([batch])
        if gone is not None and rows.num_rows:
            rows = rows.filter(pa.array(~known(rows, gone, key)))
        yield rows.select(columns)


def _states(table: LayeredTable, seen: Snapshot) -> tuple[pa.Table, bool]:
    """The last change of each key: the key, what it is, and where it stands."""
    schema = ingest_schema(pa.schema([table.rows.field(name) for name in table.key]))
    found = [schema.empty_table()]
    for file in seen.ingest:
        layer = f"{INGEST}{table.home}"
        found.append(read_data(table.place, layer, file.path, schema=schema))
    changes = pa.concat_tables(found)
    numbers = np.repeat(np.arange(len(found)) - 1, [part.num_rows for part in found])
    rows = np.concatenate([np.arange(part.num_rows) for part in found])
    changes = changes.append_column(_FILE, pa.array(numbers, pa.int64()))
    changes = changes.append_column(_ROW, pa.array(rows, pa.int64()))
    return last_states(window(changes, seen.drained, seen.position), table.key)


def _stable_parts(table: LayeredTable, seen: Snapshot, states: pa.Table) -> Iterator[Part]:
    first = table.key[0]
    keys = states.select(table.key).sort_by(first)
    ranked = keys[first].combine_chunks()
    for file in seen.stable:
        near = keys.slice(*_stretch(ranked, file, first))
        keys_out = to_ipc(near.combine_chunks()) if near.num_rows else b""
        yield Part(STABLE, file.path, file.rows, keys=keys_out)


def _stretch(ranked: pa.Array, file: DataFile, column: str) -> tuple[int, int]:
    """Where the keys of the file's range begin among the ranked ones, and how many they are."""
    if column not in file.low or column not in file.high:
        return 0, len(ranked)
    edges = ((file.low[column], "left"), (file.high[column], "right"))
    start, end = (
        pc.search_sorted(ranked, pa.scalar(edge, ranked.type), side=side).as_py()
        for edge, side in edges
    )
    return start, end - start


def encoded(parts: list[Part]) -> bytes:
    return msgspec.msgpack.encode(parts)


def decoded(data: bytes) -> list[Part]:
    return msgspec.msgpack.decode(data, type=list[Part])
