"""The schema of the change log's segments: changes of one table in one shape.

| column    | type                  |                                                              |
| --------- | --------------------- | ------------------------------------------------------------ |
| position  | int64                 | where the change stands in the source's log                  |
| seq       | int64                 | the order of all changes of a feed; a file is in no order    |
| op        | uint8                 | `I`, `U`, `D` or `T`                                         |
| xid       | int64                 | the transaction, 32 bits as sent                             |
| time      | timestamp[us, tz=UTC] | of the commit                                                |
| unchanged | binary                | a bitset over the shape's columns, lowest bit first: those   |
|           |                       | whose value in `new` was not sent; null when all were        |
| new       | struct                | the shape's columns; null for `D` and `T`                    |
| old       | struct                | the key's columns, or all where the identity is not the key; |
|           |                       | null for `I`, `T`, and for a `U` that left the key alone     |
"""

from typing import Final

import msgspec
import pyarrow as pa

from lockgate.endpoints.postgres.types import arrow_type
from lockgate.model.tables import Column, Identity, TableShape
from lockgate.store.changelog.shapes import SHAPE

__all__ = ["OPS", "old_columns", "segment_schema"]

OPS: Final = b"IUDT"


def old_columns(shape: TableShape) -> tuple[Column, ...]:
    """The columns that `old` has, in the shape's order."""
    if shape.identity is Identity.KEY and shape.key:
        return tuple(column for column in shape.columns if column.name in shape.key)
    return shape.columns


def segment_schema(shape: TableShape) -> pa.Schema:
    """What a segment of rows of this shape looks like."""
    return pa.schema(
        [
            pa.field("position", pa.int64()),
            pa.field("seq", pa.int64()),
            pa.field("op", pa.uint8()),
            pa.field("xid", pa.int64()),
            pa.field("time", pa.timestamp("us", "UTC")),
            pa.field("unchanged", pa.binary()),
            pa.field("new", _struct(shape.columns)),
            pa.field("old", _struct(old_columns(shape))),
        ],
        metadata={SHAPE: msgspec.json.encode(shape)},
    )


def _struct(columns: tuple[Column, ...]) -> pa.DataType:
    return pa.struct([pa.field(column.name, arrow_type(column)) for column in columns])
