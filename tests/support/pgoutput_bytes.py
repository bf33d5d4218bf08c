"""Messages of pgoutput made by hand, and decoded changes as plain Python, to compare them."""

import struct
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from lockgate.endpoints.postgres.pgoutput.decoder import Decoded
from lockgate.endpoints.postgres.pgoutput.relations import Relation
from lockgate.store.changelog.shapes import shape_of
from tests.support.pgoutput_reference import EPOCH_MICROS, Change, Row

UNCHANGED = object()
"""Instead of a value: not sent, because it is stored apart and was not changed."""

Value = bytes | str | None | object


def begin(lsn: int, time: int = 0, xid: int = 7) -> bytes:
    """`time` in microseconds since 1970, as everywhere here."""
    return struct.pack(">cqqI", b"B", lsn, time - EPOCH_MICROS, xid)


def commit(lsn: int, end: int, time: int = 0) -> bytes:
    return struct.pack(">cbqqq", b"C", 0, lsn, end, time - EPOCH_MICROS)


def relation(it: Relation) -> bytes:
    schema = "" if it.table.schema == "pg_catalog" else it.table.schema
    head = struct.pack(">cI", b"R", it.oid)
    names = schema.encode() + b"\0" + it.table.name.encode() + b"\0"
    columns = b"".join(
        bytes([column.key])
        + column.name.encode()
        + b"\0"
        + struct.pack(">Ii", column.type_id, column.modifier)
        for column in it.columns
    )
    count = struct.pack(">H", len(it.columns))
    return head + names + it.identity.encode() + count + columns


def insert(oid: int, new: Sequence[Value]) -> bytes:
    return struct.pack(">cI", b"I", oid) + b"N" + _tuple(new)


def update(oid: int, new: Sequence[Value], old: Sequence[Value] | None = None) -> bytes:
    before = b"" if old is None else b"K" + _tuple(old)
    return struct.pack(">cI", b"U", oid) + before + b"N" + _tuple(new)


def delete(oid: int, old: Sequence[Value], letter: bytes = b"K") -> bytes:
    return struct.pack(">cI", b"D", oid) + letter + _tuple(old)


def truncate(*oids: int) -> bytes:
    return struct.pack(f">cIb{len(oids)}I", b"T", len(oids), 0, *oids)


def origin(name: str = "elsewhere") -> bytes:
    return struct.pack(">cq", b"O", 1) + name.encode() + b"\0"


def type_(oid: int = 99_999, name: str = "mood") -> bytes:
    return struct.pack(">cI", b"Y", oid) + b"public\0" + name.encode() + b"\0"


def message(content: bytes = b"hello") -> bytes:
    head = struct.pack(">cbq", b"M", 0, 1)
    return head + b"prefix\0" + struct.pack(">I", len(content)) + content


def _tuple(values: Sequence[Value]) -> bytes:
    out = [struct.pack(">H", len(values))]
    for value in values:
        if value is None:
            out.append(b"n")
        elif value is UNCHANGED:
            out.append(b"u")
        else:
            assert isinstance(value, str | bytes)
            text = value.encode() if isinstance(value, str) else value
            out.append(struct.pack(">cI", b"t", len(text)) + text)
    return b"".join(out)


def joined(messages: Iterable[bytes], gap: bytes = b"") -> tuple[bytes, Any, Any]:
    """One buffer of the messages, with `gap` before each, and where each begins and ends."""
    messages = list(messages)
    lengths = np.array([len(each) for each in messages], np.int64)
    ends = np.cumsum(lengths + len(gap))
    return b"".join(gap + each for each in messages), ends - lengths, ends


# --- comparing -----------------------------------------------------------------------------------


def changes_of(*results: Decoded) -> list[Change]:
    """What was decoded, in the order of seq, in the reference decoder's form."""
    changes = [
        change
        for decoded in results
        for shape, batch in decoded.batches
        for change in _changes(shape, batch)
    ]
    return sorted(changes, key=lambda change: change.seq)


def _changes(shape: Any, batch: pa.RecordBatch) -> list[Change]:
    batch.validate(full=True)
    assert shape_of(batch.schema) == shape
    plain = pa.table({name: _numbers(batch.column(name)) for name in batch.schema.names})
    return [
        Change(
            shape.table,
            row["position"],
            row["seq"],
            chr(row["op"]),
            row["xid"],
            row["time"],
            {
                column.name
                for number, column in enumerate(shape.columns)
                if row["unchanged"] and row["unchanged"][number // 8] >> (number % 8) & 1
            },
            row["new"],
            row["old"],
        )
        for row in plain.to_pylist()
    ]


def _numbers(array: pa.Array) -> pa.Array:
    """Times as numbers: Python has not all of them."""
    if pa.types.is_struct(array.type):
        children = [_numbers(array.field(number)) for number in range(array.type.num_fields)]
        names = [field.name for field in array.type]
        return pa.StructArray.from_arrays(children, names, mask=array.is_null())
    if array.type == pa.date32():
        return array.cast(pa.int32())
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.int64())
    return array


def comparable(changes: Iterable[Change]) -> list[Any]:
    """Changes in a form in which equal means the same: NaN is NaN, and -0.0 is not 0.0."""
    return [
        (
            each.table.id,
            each.position,
            each.seq,
            each.op,
            each.xid,
            each.time,
            sorted(each.unchanged),
            _plain(each.new),
            _plain(each.old),
        )
        for each in changes
    ]


def _plain(row: Row | None) -> dict[str, str] | None:
    return None if row is None else {name: repr(_number(value)) for name, value in row.items()}


def _number(value: Any) -> Any:
    if isinstance(value, datetime):
        since = value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return since // timedelta(microseconds=1)
    if isinstance(value, date):
        return value.toordinal() - date(1970, 1, 1).toordinal()
    return value
