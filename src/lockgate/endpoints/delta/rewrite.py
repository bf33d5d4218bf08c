"""Rewriting one file of a stable table: what a task of a drain does."""

import msgspec
import pyarrow as pa

from lockgate.endpoints.delta.changes import merge, rows_of
from lockgate.endpoints.delta.files import DataFile, read_file, read_part, write_file
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import LockgateError
from lockgate.model.value import Value

__all__ = ["RewriteOrder", "RewriteTask", "Rewritten", "rewrite", "rewrite_task"]


class RewriteOrder(Value, frozen=True):
    """Make one file out of some, and a part of the states."""

    files: tuple[str, ...]
    """Whose rows are kept, below the stable table."""
    states: str
    part: int
    key: tuple[str, ...]


class RewriteTask(Value, frozen=True):
    """An order on its way to a task."""

    place: bytes
    order: RewriteOrder


class Rewritten(Value, frozen=True):
    """What came of it."""

    file: DataFile | None = None
    """None: no row was left."""
    error: str = ""
    hint: str = ""


def rewrite(place: Place, order: RewriteOrder) -> DataFile | None:
    """Write the new file. Nobody sees it before a commit names it."""
    stable = place.child("stable")
    key = list(order.key)
    states = read_part(place.child("work"), order.states, order.part)
    base = [read_file(stable, path) for path in order.files]
    rows = merge(pa.concat_tables(base), states, key) if base else rows_of(states)
    return write_file(stable, rows, key[:1]) if rows.num_rows else None


def rewrite_task(item: bytes) -> bytes:
    """The same as a task of Spark's."""
    task = msgspec.msgpack.decode(item, type=RewriteTask)
    try:
        done = Rewritten(rewrite(Place.from_wire(task.place), task.order))
    except LockgateError as error:
        done = Rewritten(error=str(error), hint=error.hint)
    return msgspec.msgpack.encode(done)
