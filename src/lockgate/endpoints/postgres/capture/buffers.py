"""What is decoded and not yet in a file, by shape; taken out by position.

Positions rise with the stream, so everything up to a position is a front part of what came. A batch
of a buffer that ended within a transaction is the only one that has to be cut.
"""

from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lockgate.model.positions import Position
from lockgate.model.tables import TableShape

__all__ = ["Buffers", "after"]

_SMALL: Final = 4_096
"""Batches of fewer rows than this are made one before they are written."""


class _Part(NamedTuple):
    batch: pa.RecordBatch
    low: Position
    high: Position
    bytes: int


class Buffers:
    """Batches of changes. For one thread."""

    def __init__(self) -> None:
        self._parts: dict[TableShape, list[_Part]] = {}
        self.rows = 0
        self.bytes = 0
        self.low: Position | None = None
        """The least position in here."""

    def add(self, shape: TableShape, batch: pa.RecordBatch) -> None:
        """Take a batch in; all positions are beyond those that were taken out."""
        if not batch.num_rows:
            return
        part = _part(batch)
        self._parts.setdefault(shape, []).append(part)
        self.rows += batch.num_rows
        self.bytes += part.bytes
        self.low = part.low if self.low is None else min(self.low, part.low)

    def take(self, upto: Position | None = None) -> list[pa.Table]:
        """Everything up to a position, or just everything: a table for each shape."""
        tables: list[pa.Table] = []
        left: dict[TableShape, list[_Part]] = {}
        for shape, parts in self._parts.items():
            taken, kept = _divided(parts, upto)
            if taken:
                tables.append(_table(taken))
            if kept:
                left[shape] = kept
        self._parts = left
        rest = [part for parts in left.values() for part in parts]
        self.rows = sum(part.batch.num_rows for part in rest)
        self.bytes = sum(part.bytes for part in rest)
        self.low = min((part.low for part in rest), default=None)
        return tables


def after(batch: pa.RecordBatch, position: Position) -> pa.RecordBatch:
    """The changes of a batch beyond a position."""
    return batch.filter(pc.greater(batch["position"], position))


def _part(batch: pa.RecordBatch) -> _Part:
    ends = pc.min_max(batch["position"])
    return _Part(batch, ends["min"].as_py(), ends["max"].as_py(), batch.nbytes)


def _divided(parts: list[_Part], upto: Position | None) -> tuple[list[pa.RecordBatch], list[_Part]]:
    """What lies up to the position, and the rest."""
    taken: list[pa.RecordBatch] = []
    kept: list[_Part] = []
    for part in parts:
        if upto is None or part.high <= upto:
            taken.append(part.batch)
        elif part.low > upto:
            kept.append(part)
        else:
            taken.append(part.batch.filter(pc.less_equal(part.batch["position"], upto)))
            kept.append(_part(after(part.batch, upto)))
    return taken, kept


def _table(batches: list[pa.RecordBatch]) -> pa.Table:
    table = pa.Table.from_batches(batches)
    return table.combine_chunks() if table.num_rows < _SMALL * len(batches) else table
