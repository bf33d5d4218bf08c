"""Batches of the segment schema out of the row messages of one table in one shape."""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from lockgate.endpoints.postgres.pgoutput.loads import Bytes, Indexes, Loads
from lockgate.endpoints.postgres.pgoutput.malformed import Malformed
from lockgate.endpoints.postgres.pgoutput.relations import MaskKind, Relation, TablePlan
from lockgate.endpoints.postgres.pgoutput.segments import old_columns, segment_schema
from lockgate.endpoints.postgres.pgoutput.tuples import Cells, Flags, spread, walk
from lockgate.endpoints.postgres.pgoutput.values import Window, column, masked, validity
from lockgate.endpoints.postgres.types import arrow_type
from lockgate.model.tables import Column

__all__ = ["ROWS", "Changes", "Reader"]

ROWS: Final = 16_384
"""Rows of one batch at most: what is read and written per row then stays in the cache."""

_SPAN: Final = 2**30
"""Bytes of the buffer that one batch's rows lie in at most, for more than one row."""

_INSERT, _UPDATE, _DELETE, _TRUNCATE = b"IUDT"
_NEW, _KEY, _OLD = b"NKO"
_TUPLE: Final = 6
"""Where the first tuple begins: after the kind, the table's number and the tuple's letter."""


class Changes(NamedTuple):
    """Row messages of one table, in the order of the stream, with what the stream knows of them.

    For truncations `starts` and `ends` are not read.
    """

    ops: Bytes
    starts: Indexes
    ends: Indexes
    positions: Indexes
    seqs: Indexes
    xids: Indexes
    times: Indexes

    def part(self, start: int, end: int) -> "Changes":
        """The changes from `start` to before `end`."""
        ops, *numbers = self
        return Changes(ops[start:end], *[each[start:end] for each in numbers])


class _Image(NamedTuple):
    """The new or the old tuples of the rows that have one."""

    rows: Indexes
    cells: dict[int, Cells]


class Reader:
    """Reads the rows of one table as one plan wants them."""

    def __init__(self, relation: Relation, plan: TablePlan) -> None:
        self.relation = relation
        self.plan = plan
        self.shape = plan.travelling
        self.schema = segment_schema(self.shape)
        self.name = self.shape.table.id
        self._old = old_columns(self.shape)
        numbers = {each.name: number for number, each in enumerate(relation.columns)}
        absent = [each.name for each in self.shape.columns if each.name not in numbers]
        if absent:
            raise Malformed(f"the stream does not send {', '.join(absent)}", object_=self.name)
        self._numbers = numbers
        self._in_new = frozenset(numbers[each.name] for each in self.shape.columns)
        self._in_old = frozenset(numbers[each.name] for each in self._old)

    def batches(self, loads: Loads, changes: Changes) -> list[pa.RecordBatch]:
        """The changes as batches of at most `ROWS` rows."""
        out = []
        for start in range(0, len(changes.ops), ROWS):
            out += self._bounded(loads, changes.part(start, start + ROWS))
        return out

    def truncations(self, changes: Changes) -> pa.RecordBatch:
        """The changes, all of them truncations, as one batch."""
        count = len(changes.ops)
        new, old = (pa.nulls(count, self.schema.field(name).type) for name in ("new", "old"))
        return self._batch(changes, pa.nulls(count, pa.binary()), new, old)

    def _bounded(self, loads: Loads, changes: Changes) -> list[pa.RecordBatch]:
        """Rows that lie far apart, or are huge, make smaller batches."""
        count = len(changes.ops)
        if count > 1 and int(changes.ends[-1]) - int(changes.starts[0]) > _SPAN:
            half = count // 2
            parts = changes.part(0, half), changes.part(half, count)
            return [batch for part in parts for batch in self._bounded(loads, part)]
        try:
            return [self._rows(loads, changes)]
        except IndexError as error:
            raise Malformed("a row is cut off", object_=self.name, cause=error) from error

    def _rows(self, loads: Loads, changes: Changes) -> pa.RecordBatch:
        ops, starts = changes.ops, changes.starts
        letters = loads.data[starts + (_TUPLE - 1)]
        with_old = (letters == _KEY) | (letters == _OLD)
        if not (with_old ^ (letters == _NEW)).all() or (with_old & (ops == _INSERT)).any():
            raise Malformed("a row has an unknown form", object_=self.name)
        with_new = ops != _DELETE
        if not (with_old | with_new).all():
            raise Malformed("a deleted row is not identified", object_=self.name)

        ends = starts + _TUPLE
        old = _Image(np.flatnonzero(with_old), {})
        if len(old.rows):
            old = self._walk(loads, ends, old.rows, self._in_old)
            if any(each.unchanged is not None for each in old.cells.values()):
                raise Malformed("a former row is not whole", object_=self.name)
            updated = old.rows[with_new[old.rows]]
            if (loads.data[ends[updated]] != _NEW).any():
                raise Malformed("an updated row has an unknown form", object_=self.name)
            ends[updated] += 1
        new = _Image(np.flatnonzero(with_new), {})
        if len(new.rows):
            new = self._walk(loads, ends, new.rows, self._in_new)
        # Only now is it known that all cells lie inside of their messages.
        if (ends != changes.ends).any():
            raise Malformed("a row is not as long as its message", object_=self.name)

        window = Window(loads, int(starts[0]), int(changes.ends[-1]))
        return self._batch(
            changes,
            self._unchanged(new, len(ops)),
            self._struct(window, "new", self.shape.columns, new, starts),
            self._struct(window, "old", self._old, old, starts),
        )

    def _walk(self, loads: Loads, ends: Indexes, rows: Indexes, wanted: frozenset[int]) -> _Image:
        """The image of the rows that begins where `ends` says, which it moves on."""
        columns = len(self.relation.columns)
        cells, ends[rows] = walk(loads, ends[rows], columns, wanted, self.name)
        return _Image(rows, cells)

    def _struct(
        self,
        window: Window,
        name: str,
        columns: tuple[Column, ...],
        image: _Image,
        messages: Indexes,
    ) -> pa.Array:
        """The image as the struct of this name, null in all other rows."""
        count = len(messages)
        kind = self.schema.field(name).type
        if not len(image.rows):
            return pa.nulls(count, kind)
        missing = None
        if len(image.rows) < count:
            missing = np.ones(count, np.bool_)
            missing[image.rows] = False
        children = []
        for each in columns:
            cells = image.cells[self._numbers[each.name]]
            if missing is not None:
                cells = spread(cells, image.rows, messages)
            if mask := self.plan.masks.get(each.name):
                children.append(masked(window, cells, mask))
            else:
                object_ = f"{self.name}.{each.name}"
                children.append(column(window, cells, arrow_type(each), object_))
        return pa.Array.from_buffers(kind, count, [validity(missing)], children=children)

    def _unchanged(self, image: _Image, count: int) -> pa.Array:
        """The bitset of the columns whose values were not sent."""
        absent = {
            number: cells.unchanged
            for number, each in enumerate(self.shape.columns)
            if (cells := image.cells.get(self._numbers[each.name])) is not None
            and cells.unchanged is not None
            and not self._constant(each)
        }
        if not absent:
            return pa.nulls(count, pa.binary())
        bits = np.zeros((count, (len(self.shape.columns) + 7) // 8), np.uint8)
        for number, flags in absent.items():
            bits[image.rows, number // 8] |= flags.astype(np.uint8) << (number % 8)
        present: Flags = (bits != 0).any(axis=1)
        offsets = np.zeros(count + 1, np.int32)
        np.cumsum(present * bits.shape[1], out=offsets[1:])
        buffers = [validity(~present), pa.py_buffer(offsets), pa.py_buffer(bits[present])]
        return pa.Array.from_buffers(pa.binary(), count, buffers)

    def _constant(self, each: Column) -> bool:
        """True when a mask gives every row the same, whatever was sent or not."""
        mask = self.plan.masks.get(each.name)
        return mask is not None and mask.kind is not MaskKind.HASH

    def _batch(
        self, changes: Changes, unchanged: pa.Array, new: pa.Array, old: pa.Array
    ) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [
                pa.array(changes.positions),
                pa.array(changes.seqs),
                pa.array(changes.ops),
                pa.array(changes.xids),
                pa.array(changes.times).view(pa.timestamp("us", "UTC")),
                unchanged,
                new,
                old,
            ],
            schema=self.schema,
        )
