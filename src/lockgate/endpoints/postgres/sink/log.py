"""Changes of one table in one shape, as arrays: what a segment's columns say, made ready for use.

Values stay where they are in Arrow; everything that decides about rows (operation, position,
order) becomes NumPy. An unchanged TOAST value that the old image holds is filled in here, so that
`unknown` names only what the log really does not have.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.keys import whole
from lockgate.endpoints.postgres.sink.window import NOT_MINE, Window
from lockgate.model.positions import Position
from lockgate.model.tables import Identity, TableShape

__all__ = ["DELETE", "INSERT", "TRUNCATE", "UPDATE", "Log", "concerned", "moves_large_values"]

Index = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

INSERT: Final = ord("I")
UPDATE: Final = ord("U")
DELETE: Final = ord("D")
TRUNCATE: Final = ord("T")


@dataclass(frozen=True)
class Log:
    """The changes of a window. A *row* is a change's place in these arrays; `order` sorts them."""

    shape: TableShape
    op: npt.NDArray[np.uint8]
    position: Index
    xid: Index
    order: Index
    """The rows in the order of the log."""
    new: list[Any]
    """One array per column of the shape. Nothing in it for deletes and truncates."""
    old: dict[int, Any]
    """The columns of the shape that old images have: the key's, or all."""
    has_old: Mask
    unknown: dict[int, Mask]
    """Columns with unchanged TOAST values, and in which rows: the value in `new` means nothing."""

    def __len__(self) -> int:
        return len(self.op)

    @property
    def key(self) -> list[int]:
        """The key's columns by number, in the key's order."""
        number = {column.name: i for i, column in enumerate(self.shape.columns)}
        return [number[name] for name in self.shape.key]

    @classmethod
    def of(cls, table: pa.Table, shape: TableShape, after: Position, to: Position) -> "Log":
        """The changes of `table`, in the segments' schema, with after < position <= to."""
        position = np.asarray(whole(table["position"]), dtype=np.int64)
        inside = (position > after) & (position <= to)
        if not inside.all():
            table = table.filter(pa.array(inside))
            position = position[inside]
        seq = np.asarray(whole(table["seq"]), dtype=np.int64)
        rising = bool((seq[1:] > seq[:-1]).all())
        order = np.arange(len(seq)) if rising else np.argsort(seq, kind="stable")
        names = [column.name for column in shape.columns]
        new, old = table["new"], table["old"]
        number = {name: i for i, name in enumerate(names)}
        new_columns = _fields(new, names)
        old_columns = {
            number[field.name]: column
            for field, column in zip(
                old.type, _fields(old, [field.name for field in old.type]), strict=True
            )
            if field.name in number
        }
        has_old = _valid(old)
        unknown = _unchanged(whole(table["unchanged"]), len(names))
        for i in sorted(unknown.keys() & old_columns.keys()):
            known = unknown[i] & has_old
            if known.any():
                filled = pc.if_else(pa.array(known), old_columns[i], new_columns[i])
                new_columns[i] = filled
                unknown[i] = unknown[i] & ~known
        return cls(
            shape=shape,
            op=np.asarray(whole(table["op"]), dtype=np.uint8),
            position=position,
            xid=np.asarray(whole(table["xid"]), dtype=np.int64),
            order=order.astype(np.int64, copy=False),
            new=new_columns,
            old=old_columns,
            has_old=has_old,
            unknown={i: mask for i, mask in unknown.items() if mask.any()},
        )


def concerned(table: pa.Table, shape: TableShape, window: Window) -> pa.Table:
    """The changes that a key of the window has anything to do with, and every TRUNCATE.

    A change of the key is kept by both sides: each has to know whether the other can do its half.
    """
    keep = np.asarray(whole(pc.equal(table["op"], TRUNCATE)))
    for name in ("new", "old"):
        keys = _fields(table[name], list(shape.key))
        ours = window.floors_of(keys) != NOT_MINE
        keep = keep | (ours & _valid(table[name]))
    # Taken out of their chunks, or all of the file would stay in memory.
    return table.filter(pa.array(keep)).combine_chunks()


def moves_large_values(table: pa.Table, shape: TableShape) -> bool:
    """True when a row changes its key and does not repeat a value.

    Its value may stand in a change of the old key, and so on: then no change is to be left out.
    """
    if shape.identity is Identity.FULL:
        return False
    asks = pc.and_(pc.is_valid(table["unchanged"]), pc.is_valid(table["old"]))
    return bool(pc.any(asks).as_py())


def _fields(column: Any, names: list[str]) -> list[Any]:
    """The fields of a struct column. Where the struct is null, so are they."""
    if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1:
        column = column.chunk(0)
    # `flatten` takes the struct's own nulls along; reading the bare children would not.
    fields = dict(zip([field.name for field in column.type], column.flatten(), strict=True))
    return [whole(fields[name]) for name in names]


def _valid(column: Any) -> Mask:
    return np.asarray(whole(pc.is_valid(column)), dtype=np.bool_)


def _unchanged(column: Any, width: int) -> dict[int, Mask]:
    """The bitsets by column. There are few different ones: each is read once."""
    if column.null_count == len(column):
        return {}
    found = column.dictionary_encode()
    codes = np.asarray(pc.fill_null(found.indices, -1), dtype=np.int64)
    out: dict[int, Mask] = {}
    for code, bits in enumerate(found.dictionary.to_pylist()):
        flags = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), bitorder="little")
        rows = codes == code
        for i in np.flatnonzero(flags[:width]).tolist():
            out[i] = out[i] | rows if i in out else rows
    return out
