"""Single rows of a layered table, by key: what an update that left a large value alone goes by."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.delta.changes import last_states, merge
from lockgate.endpoints.delta.files import DataFile
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.keys import encode

__all__ = ["look_up"]


def look_up(table: LayeredTable, keys: pa.Table, columns: list[str]) -> pa.Table:
    """The rows of these keys that there are: the key, and the columns."""
    schema = table.rows
    wanted = pa.schema([schema.field(name) for name in dict.fromkeys([*table.key, *columns])])
    keys = keys.select(table.key).cast(pa.schema([schema.field(name) for name in table.key]))
    seen = table.snapshot()
    changes = _of(table.changes(seen), keys, table.key)
    states, wiped = last_states(changes, table.key)
    first = keys[table.key[0]]
    near = [] if wiped else [file for file in seen.stable if _may_have(file, table.key[0], first)]
    parts = [_of(table.rows_in(file, wanted), keys, table.key) for file in near]
    return merge(pa.concat_tables([wanted.empty_table(), *parts]), states, table.key)


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
