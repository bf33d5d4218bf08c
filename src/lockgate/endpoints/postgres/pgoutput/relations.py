"""What the stream tells about tables, and what a feed wants of them.

A Relation message precedes the first change of a table, and comes again whenever the table may
have changed. For each, the feed is asked for its *plan*: which columns travel, in what shape,
and which of them are masked.
"""

import struct
from typing import Final

import msgspec

from lockgate.endpoints.postgres.pgoutput.malformed import Malformed
from lockgate.endpoints.postgres.types import TEXT
from lockgate.model.feed_config import Mask, MaskKind
from lockgate.model.tables import Column, TableName, TableShape
from lockgate.model.value import Value

__all__ = ["Mask", "MaskKind", "Relation", "RelationColumn", "TablePlan", "read_relation"]


class RelationColumn(Value, frozen=True):
    """One column as the stream describes it. A domain has a type number of its own here."""

    name: str
    type_id: int
    modifier: int
    key: bool
    """Part of the replica identity. Under FULL every column is."""


class Relation(Value, frozen=True):
    """A table as the stream describes it: the columns that the publication sends."""

    oid: int
    table: TableName
    identity: str
    """`pg_class.relreplident`: `d`efault, `n`othing, `f`ull, by `i`ndex."""
    columns: tuple[RelationColumn, ...]


class TablePlan(Value, frozen=True):
    """What a feed wants of a table: its shape, and a mask per masked column's name."""

    shape: TableShape
    masks: dict[str, Mask] = msgspec.field(default_factory=dict)

    @property
    def travelling(self) -> TableShape:
        """The shape that the rows have: masked columns are text."""
        if not self.masks:
            return self.shape
        columns = tuple(self._masked(column) for column in self.shape.columns)
        return msgspec.structs.replace(self.shape, columns=columns)

    def _masked(self, column: Column) -> Column:
        if column.name not in self.masks:
            return column
        return msgspec.structs.replace(column, type="text", type_id=TEXT)


_HEAD: Final = struct.Struct(">I")
_COUNT: Final = struct.Struct(">cH")
_TYPE: Final = struct.Struct(">Ii")


def read_relation(message: bytes) -> Relation:
    """The Relation message, its first byte `R` included."""
    try:
        return _read(message)
    except (struct.error, ValueError, IndexError) as error:
        raise Malformed("a Relation message cannot be read", cause=error) from error


def _read(message: bytes) -> Relation:
    (oid,) = _HEAD.unpack_from(message, 1)
    schema, at = _text(message, 5)
    name, at = _text(message, at)
    identity, count = _COUNT.unpack_from(message, at)
    at += _COUNT.size
    columns = []
    for _ in range(count):
        flags = message[at]
        column, at = _text(message, at + 1)
        type_id, modifier = _TYPE.unpack_from(message, at)
        at += _TYPE.size
        columns.append(RelationColumn(column, type_id, modifier, bool(flags & 1)))
    if at != len(message):
        raise ValueError(f"{len(message) - at} bytes too many")
    # An empty schema is how the protocol writes pg_catalog.
    table = TableName(schema or "pg_catalog", name)
    return Relation(oid, table, identity.decode("ascii"), tuple(columns))


def _text(message: bytes, at: int) -> tuple[str, int]:
    """A text that ends with a zero byte, and where the next field begins."""
    end = message.index(0, at)
    return message[at:end].decode("utf-8"), end + 1
