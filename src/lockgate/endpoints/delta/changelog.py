"""What happened to a table's rows, change by change, with what was there before and after each.

    _op        insert, update, delete, or truncate, which has neither a before nor an after
    _position  where in the source's log it was committed
    _seq       its place among all changes
    before     the row that was there; of a row that nobody knows, what the delete said of its key
    after      the row that is there now

What was before a change is what the last one of the same key made of it, unless all was wiped
between the two; for the first of its key it is the row that the table had when it began. All of it
is worked out over whole columns.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.delta.changes import DELETE, OP, POSITION, PUT, SEQ, WIPE
from lockgate.endpoints.keys import encode

__all__ = ["changelog", "changelog_schema"]

Index = npt.NDArray[np.int64]

_INSERT, _UPDATE, _DELETE, _TRUNCATE = range(4)
_NAMES: Final = pa.array(["insert", "update", "delete", "truncate"])
_NONE: Final = -1


def changelog_schema(rows: pa.Schema) -> pa.Schema:
    """The columns of a changelog of such rows."""
    row = pa.struct([pa.field(field.name, field.type) for field in rows])
    return pa.schema(
        [
            pa.field("_op", pa.string()),
            pa.field("_position", pa.int64()),
            pa.field("_seq", pa.int64()),
            pa.field("before", row),
            pa.field("after", row),
        ]
    )


def changelog(base: pa.Table, changes: pa.Table, key: list[str]) -> pa.Table:
    """The changelog of `changes`, in their order.

    `base` has the rows that were there before, at least those whose keys are among the changes'.
    """
    schema = changelog_schema(base.schema)
    if not changes.num_rows:
        return schema.empty_table()
    changes = changes.sort_by(SEQ)
    puts, deletes, wipes = (np.asarray(pc.equal(changes[OP], op)) for op in (PUT, DELETE, WIPE))
    rows = pa.concat_tables([base, changes.select(base.column_names).cast(base.schema)])
    own = base.num_rows + np.arange(changes.num_rows)
    before = _before(rows, base.num_rows, key, puts, wipes)
    kinds = np.where(puts, np.where(before == _NONE, _INSERT, _UPDATE), _DELETE)
    kinds[wipes] = _TRUNCATE
    before = np.where(deletes & (before == _NONE), own, before)
    images = _images(rows, schema.field("before").type)
    return pa.Table.from_arrays(
        [
            _NAMES.take(pa.array(kinds)),
            changes[POSITION],
            changes[SEQ],
            images.take(_places(before)),
            images.take(_places(np.where(puts, own, _NONE))),
        ],
        schema=schema,
    )


def _before(
    rows: pa.Table,
    first: int,
    key: list[str],
    puts: npt.NDArray[np.bool_],
    wipes: npt.NDArray[np.bool_],
) -> Index:
    """For each change, the place of the row that it found; changes begin at place `first`."""
    # What the table began with is as if it were put before all changes.
    put = np.concatenate([np.ones(first, dtype=np.bool_), puts])
    wiped = np.concatenate([np.zeros(first, dtype=np.bool_), wipes])
    since = np.cumsum(wiped)
    codes = encode([rows[name] for name in key]).codes
    codes = np.where(wiped, -1 - np.arange(len(codes)), codes)
    order = np.argsort(codes, kind="stable")
    later, earlier = order[1:], order[:-1]
    found = (codes[later] == codes[earlier]) & put[earlier] & (since[later] == since[earlier])
    out = np.full(len(codes), _NONE, dtype=np.int64)
    out[later[found]] = earlier[found]
    return out[first:]


def _images(rows: pa.Table, kind: pa.DataType) -> Any:
    columns = [column.combine_chunks() for column in rows.itercolumns()]
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _places(index: Index) -> Any:
    return pa.array(index, mask=index == _NONE)
