"""The columns of a lake table: how they may change in place, and what older files lack.

A column is added and is NULL in every row that was there before. What Delta cannot do in place
without touching all files (a column that goes, another type) makes a new incarnation: its first
copy brings all rows as they are by then.
"""

import pyarrow as pa
from deltalake import Field, Schema

from lockgate.model.errors import Terminal

__all__ = [
    "NeedsNewIncarnation",
    "conform",
    "from_wire",
    "new_fields",
    "others",
    "to_wire",
    "united",
]


class NeedsNewIncarnation(Terminal):
    """The table cannot become like this in place."""

    code = "needs-new-incarnation"


def new_fields(current: pa.Schema, wanted: pa.Schema, label: str) -> list[Field]:
    """The columns to add. NeedsNewIncarnation when that alone does not do."""
    target = {field.name: field for field in Schema.from_arrow(wanted).fields}
    plain = pa.schema(Schema.from_arrow(wanted))
    gone = [name for name in current.names if name not in target]
    if gone:
        raise _refused(f"column {gone[0]} is gone", label)
    for field in current:
        if plain.field(field.name).type != field.type:
            kind = plain.field(field.name).type
            raise _refused(f"column {field.name} is {field.type}, and is to be {kind}", label)
    return [
        Field(name, field.type, nullable=True)
        for name, field in target.items()
        if name not in current.names
    ]


def united(stable: pa.Schema, ingest: pa.Schema, ours: tuple[str, ...]) -> pa.Schema:
    """The columns of the rows that both layers give: those of stable, then what is new."""
    more = [f for f in ingest if f.name not in stable.names and f.name not in ours]
    return pa.schema([*stable, *more])


def others(current: pa.Schema, wanted: pa.Schema) -> list[str]:
    """The columns that are of another type by now."""
    plain = pa.schema(Schema.from_arrow(wanted))
    return [
        field.name
        for field in plain
        if field.name in current.names and current.field(field.name).type != field.type
    ]


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows with these columns; NULL where the file is older than the column."""
    if rows.schema.equals(schema):
        return rows
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    if not columns:
        return rows
    return pa.Table.from_arrays(columns, schema=schema)


def to_wire(schema: pa.Schema) -> bytes:
    return bytes(schema.serialize())


def from_wire(wire: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(wire))


def _refused(what: str, label: str) -> NeedsNewIncarnation:
    return NeedsNewIncarnation(
        f"the table cannot be changed in place: {what}",
        object_=label,
        hint="copy the table anew: `lockgate feed resync FEED TABLE`",
        operation="evolve",
    )
