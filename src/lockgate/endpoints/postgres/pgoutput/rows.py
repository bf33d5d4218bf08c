"""One row, read by a plain loop: for the few rows that are read one at a time, those of DDL."""

import struct
from typing import Final

from lockgate.endpoints.postgres.pgoutput.malformed import Malformed
from lockgate.endpoints.postgres.pgoutput.relations import Relation

__all__ = ["read_row"]

_COUNT: Final = struct.Struct(">H")
_LENGTH: Final = struct.Struct(">I")


def read_row(message: bytes, relation: Relation) -> dict[str, str | None]:
    """The values of an Insert message as text, by column."""
    try:
        return _read(message, relation)
    except (struct.error, ValueError, IndexError) as error:
        raise Malformed("a row cannot be read", object_=relation.table.id, cause=error) from error


def _read(message: bytes, relation: Relation) -> dict[str, str | None]:
    (count,) = _COUNT.unpack_from(message, 6)
    if count != len(relation.columns):
        raise ValueError(f"{count} columns instead of {len(relation.columns)}")
    at = 8
    values: dict[str, str | None] = {}
    for column in relation.columns:
        kind = message[at : at + 1]
        at += 1
        if kind == b"t":
            (length,) = _LENGTH.unpack_from(message, at)
            at += _LENGTH.size
            if at + length > len(message):
                raise ValueError("a value is cut off")
            values[column.name] = message[at : at + length].decode("utf-8")
            at += length
        elif kind == b"n":
            values[column.name] = None
        else:
            raise ValueError(f"a value of kind {kind!r}")
    if at != len(message):
        raise ValueError(f"{len(message) - at} bytes too many")
    return values
