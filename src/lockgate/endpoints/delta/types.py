"""Rows of a database as rows of a lake: which Delta type each column has, and how values get there.

What travels typed in the change log has a Delta type of its own. Of what travels as text, decimals
with bounds become decimals; all else stays the text that PostgreSQL writes, exact for every type.

| travels as                     | in the lake                | Delta                           |
| ------------------------------ | -------------------------- | ------------------------------- |
| bool, int16, int32, int64      | the same                   | boolean, short, integer, long   |
| float32, float64, binary       | the same                   | float, double, binary           |
| date32                         | the same                   | date                            |
| timestamp[us]                  | the same                   | timestamp_ntz (a table feature) |
| timestamp[us, tz=UTC]          | the same                   | timestamp                       |
| string: numeric(p,s),          | decimal128(p,s)            | decimal(p,s)                    |
|   p up to 38, s from 0 to p    |                            |                                 |
| string: everything else        | the same                   | string                          |

- A numeric without bounds, or of a domain, stays text: which digits it will have nobody knows.
- `NaN` is in numeric(p,s) and not in a decimal. It is refused, by column, rather than made
  something else. A table that is made with the column among its `texts` keeps it.
- ±infinity of dates and times stays the greatest and the least number: exact, and in the right
  order for every reader. To write such a value out is beyond many of them (docs/TYPES.md).

Every column may be null. Of a key's columns none is, in rows; but a change may be one of no row.
"""

import re
from collections.abc import Collection, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.delta.changes import OURS
from lockgate.endpoints.postgres.types import Unrepresentable, arrow_type, from_text, to_text
from lockgate.model.errors import Terminal
from lockgate.model.tables import Column, TableShape, quoted

__all__ = ["ColumnRefused", "KeyRequired", "from_lake", "lake_schema", "to_lake"]

_NUMERIC: Final = 1700
"""The number of PostgreSQL's type `numeric`."""
_BOUNDED: Final = re.compile(r"(?:numeric|decimal)\((\d+)(?:,(-?\d+))?\)")
_DIGITS_MAX: Final = 38
_NO_NUMBER: Final = r"^(NaN|-?Infinity)$"


class ColumnRefused(Terminal):
    """A lake table cannot have a column of this name."""

    code = "lake-column-refused"


class KeyRequired(Terminal):
    """A lake table is kept by its key, and this table has none."""

    code = "lake-key-required"


def lake_schema(shape: TableShape, texts: Collection[str] = ()) -> pa.Schema:
    """The table in the lake. `texts` are columns to be kept as PostgreSQL's text.

    Raises KeyRequired or ColumnRefused where there can be no such table.
    """
    _check_key(shape)
    _check_names(shape)
    return pa.schema(
        [
            pa.field(column.name, pa.string() if column.name in texts else _lake_type(column))
            for column in shape.columns
        ]
    )


def to_lake(
    columns: Sequence[pa.Array | pa.ChunkedArray],
    shape: TableShape,
    schema: pa.Schema | None = None,
) -> pa.Table:
    """The columns of the shape, as they travel, as rows of the lake.

    `schema` is the lake table's own where it is known: it says what was kept as text, and what
    was of another type when the table was made. Raises Unrepresentable, with the column's name.
    """
    schema = lake_schema(shape) if schema is None else schema
    arrays = [
        _brought(values, schema.field(column.name).type, shape, column)
        for column, values in zip(shape.columns, columns, strict=True)
    ]
    fields = [schema.field(column.name) for column in shape.columns]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def from_lake(values: pa.Array | pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    """Values of the lake as they travel: what `to_lake` was given."""
    to = arrow_type(column)
    parts = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    return pa.chunked_array([_travelling(part, to, column) for part in parts], to)


def _travelling(values: Any, to: pa.DataType, column: Column) -> Any:
    if pa.types.is_decimal(values.type):
        return _digits(values)
    if values.type == pa.string():
        return from_text(values, to, column.name)
    return values.cast(to)


def _digits(values: Any) -> Any:
    """Decimals as PostgreSQL writes them. Arrow would write a small one as `1E-8`."""
    scale = values.type.scale
    whole = pa.decimal128(_DIGITS_MAX, 0)  # the same bytes, without the point
    numbers = pa.Array.from_buffers(whole, len(values), values.buffers(), offset=values.offset)
    texts = numbers.cast(pa.string())
    if not scale:
        return texts
    sign = pc.if_else(pc.starts_with(texts, "-"), "-", "")
    digits = pc.utf8_lpad(pc.utf8_ltrim(texts, "-"), scale + 1, "0")
    before = pc.utf8_slice_codeunits(digits, 0, -scale)
    behind = pc.utf8_slice_codeunits(digits, -scale)
    return pc.binary_join_element_wise(pc.binary_join_element_wise(sign, before, ""), behind, ".")


def _lake_type(column: Column) -> pa.DataType:
    kind = arrow_type(column)
    if kind != pa.string() or column.type_id not in (0, _NUMERIC):
        return kind
    bounds = _BOUNDED.fullmatch(column.type)
    if bounds is None:
        return kind
    digits, scale = int(bounds[1]), int(bounds[2] or 0)
    fits = 1 <= digits <= _DIGITS_MAX and 0 <= scale <= digits
    return pa.decimal128(digits, scale) if fits else kind


def _brought(values: Any, to: pa.DataType, shape: TableShape, column: Column) -> Any:
    if values.type == to:
        return values
    if to == pa.string():
        parts = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        return pa.chunked_array([to_text(part) for part in parts], pa.string())
    object_ = f"{shape.table.id}.{quoted(column.name)}"
    try:
        return values.cast(to)
    except pa.ArrowInvalid as error:
        if values.type == pa.string() and pc.any(_not_numbers(values)).as_py():
            raise Unrepresentable(
                "a value is NaN, which no decimal of a lake table is",
                object_=object_,
                hint="mask the column or leave it out; or make it another value at the source, and "
                "resync the table",
                operation="bring into the lake",
                cause=error,
            ) from error
        raise Unrepresentable(
            f"a value does not fit into the lake's {to}",
            object_=object_,
            hint="the column's type was changed at the source: resync the table",
            operation="bring into the lake",
            cause=error,
        ) from error


def _not_numbers(values: Any) -> Any:
    return pc.match_substring_regex(values, _NO_NUMBER)


def _check_key(shape: TableShape) -> None:
    if not shape.key:
        raise KeyRequired(
            "a lake table is kept by its key, and this table has none",
            object_=shape.table.id,
            hint="give it a primary key, or choose a unique index over columns that are not null "
            "as its replica identity; or leave the table out",
        )


def _check_names(shape: TableShape) -> None:
    """Delta and Spark take upper and lower case for the same; every other name can be quoted."""
    seen: dict[str, str] = {}
    for column in shape.columns:
        object_ = f"{shape.table.id}.{quoted(column.name)}"
        folded = column.name.lower()
        if folded in OURS:
            raise ColumnRefused(
                "the name is one that lake tables have for columns of Lockgate's",
                object_=object_,
                hint="rename the column at the source, or leave it out",
            )
        if folded in seen:
            raise ColumnRefused(
                f"the name differs from {quoted(seen[folded])} in upper and lower case alone, and "
                "lake tables do not tell these apart",
                object_=object_,
                hint="rename one of the two at the source, or leave one out",
            )
        seen[folded] = column.name
