"""Rewriting files of a stable table: what a task of a drain or a compaction does."""

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa

from lockgate.endpoints.delta.files import DataFile, write_stream
from lockgate.endpoints.delta.graves import is_buried, is_gone
from lockgate.endpoints.delta.lake import STABLE, WORK
from lockgate.endpoints.delta.missing import stream_data, table_dead
from lockgate.endpoints.delta.parts import Part, read_part
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.schemas import from_wire
from lockgate.endpoints.delta.weaving import woven
from lockgate.model.errors import LockgateError, ObjectMissing
from lockgate.model.value import Value

__all__ = ["RewriteOrder", "RewriteTask", "Rewritten", "rewrite", "rewrite_task"]


class RewriteOrder(Value, frozen=True):
    """Make new files out of some, and a part of the states."""

    files: tuple[str, ...]
    """Whose rows are kept, below the stable table."""
    states: Part | None
    """None: the rows stay as they are."""
    key: tuple[str, ...]
    schema: bytes
    """The columns of the new files."""
    file_rows: int
    """Rows of a new file, at most."""


class RewriteTask(Value, frozen=True):
    """An order on its way to a task."""

    place: bytes
    order: RewriteOrder


class Rewritten(Value, frozen=True):
    """What came of it."""

    files: tuple[DataFile, ...] = ()
    """None: no row was left."""
    error: dict[str, str] = msgspec.field(default_factory=dict)
    """Why it was not done, see `LockgateError.as_dict`; empty when it was."""


def rewrite(place: Place, order: RewriteOrder) -> list[DataFile]:
    """Write the new files. Nobody sees them before a commit names them."""
    key = list(order.key)
    schema = from_wire(order.schema)
    # What a row is known by is compared, for which it has to be spelled out.
    coded = [name for name in schema.names if name not in key]
    pieces = _pieces(place, order.files, schema, coded)
    if order.states is not None:
        pieces = woven(pieces, _states(place, order.states), key, schema)
    return write_stream(place.child(STABLE), schema, pieces, key[:1], order.file_rows)


def _pieces(
    place: Place, paths: Iterable[str], schema: pa.Schema, coded: list[str]
) -> Iterator[pa.Table]:
    for path in paths:
        yield from stream_data(place, STABLE, path, schema, coded)


def _states(place: Place, part: Part) -> pa.Table:
    try:
        return read_part(place.child(WORK), part)
    except ObjectMissing:
        if is_gone(place) or is_buried(place):
            raise table_dead(place) from None
        raise


def rewrite_task(item: bytes) -> bytes:
    """The same as a task of Spark's."""
    task = msgspec.msgpack.decode(item, type=RewriteTask)
    try:
        done = Rewritten(tuple(rewrite(Place.from_wire(task.place), task.order)))
    except LockgateError as error:
        done = Rewritten(error=error.as_dict())
    return msgspec.msgpack.encode(done)
