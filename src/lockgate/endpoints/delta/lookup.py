"""Single rows of a layered table, by key: what an update that left a large value alone goes by.

    ingest ── keys and our columns ──► the last change of each wanted key
                  │                      └─ a put: the columns, from the file that has it
                  └─ none of a key ──► stable: the columns, from the files whose range it lies in

The columns that are asked for are large: they are read only of files that have a wanted row. Which
keys a file of ingest has it does not tell, so of all of them the keys are read, and those alone.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.delta.changes import (
    OP,
    PUT,
    SEQ,
    WIPE,
    ingest_schema,
    known,
    last_states,
    rows_of,
    window,
)
from lockgate.endpoints.delta.files import DataFile
from lockgate.endpoints.delta.lake import INGEST
from lockgate.endpoints.delta.layered import LayeredTable, Snapshot
from lockgate.endpoints.delta.missing import read_data, stream_data
from lockgate.endpoints.keys import encode

__all__ = ["look_up"]


def look_up(table: LayeredTable, keys: pa.Table, columns: list[str]) -> pa.Table:
    """The rows of these keys that there are: the key, and the columns."""
    schema = table.rows
    wanted = pa.schema([schema.field(name) for name in dict.fromkeys([*table.key, *columns])])
    keys = keys.select(table.key).cast(pa.schema([schema.field(name) for name in table.key]))
    seen = table.snapshot()
    changes = [_changes(table, seen, file, keys) for file in seen.ingest]
    empty = ingest_schema(keys.schema).empty_table()
    states, wiped = last_states(pa.concat_tables([empty, *changes]), table.key)
    brought = _brought(table, seen, changes, states, wanted)
    left = keys.filter(pa.array(~known(keys, states, table.key))) if states.num_rows else keys
    if wiped or not left.num_rows:
        return brought
    first = left[table.key[0]]
    near = [file for file in seen.stable if _may_have(file, table.key[0], first)]
    parts = [_of(table.rows_in(file, wanted), left, table.key) for file in near]
    return pa.concat_tables([brought, *parts])


def _changes(table: LayeredTable, seen: Snapshot, file: DataFile, keys: pa.Table) -> pa.Table:
    """What a file of ingest says of these keys, without the row, and which wipes it has."""
    form = ingest_schema(keys.schema)
    changes = read_data(table.place, f"{INGEST}{table.home}", file.path, schema=form)
    changes = window(changes, seen.drained, seen.position)
    wipes = changes.filter(pc.equal(changes[OP], WIPE))
    return pa.concat_tables([_of(changes, keys, table.key), wipes])


def _brought(
    table: LayeredTable,
    seen: Snapshot,
    changes: list[pa.Table],
    states: pa.Table,
    wanted: pa.Schema,
) -> pa.Table:
    """The rows that the states put. `changes` are those of each file of ingest."""
    form = ingest_schema(wanted)
    puts = states.filter(pc.equal(states[OP], PUT))[SEQ].combine_chunks()
    found = [form.empty_table()]
    for file, mine in zip(seen.ingest, changes, strict=True):
        if not pc.any(pc.is_in(mine[SEQ], puts)).as_py():
            continue
        # Piece by piece: a few large values of many.
        for piece in stream_data(table.place, f"{INGEST}{table.home}", file.path, form):
            found.append(piece.filter(pc.is_in(piece[SEQ], puts)))
    # A change that is there twice, under its one number, is one row.
    return rows_of(last_states(pa.concat_tables(found), table.key)[0])


def _of(rows: pa.Table, keys: pa.Table, key: list[str]) -> pa.Table:
    """Those with one of the keys."""
    if not rows.num_rows:
        return rows
    both = [
        pa.chunked_array([*keys[name].chunks, *rows[name].chunks], type=keys[name].type)
        for name in key
    ]
    codes = encode(both).codes
    return rows.filter(pc.is_in(pa.array(codes[keys.num_rows :]), pa.array(codes[: keys.num_rows])))


def _may_have(file: DataFile, column: str, values: Any) -> bool:
    if column not in file.low or column not in file.high:
        return True
    inside = pc.and_(
        pc.greater_equal(values, file.low[column]), pc.less_equal(values, file.high[column])
    )
    return bool(pc.any(inside).as_py())
