"""Rewriting files of a stable table: what a task of a drain or a compaction does."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait

import msgspec
import pyarrow as pa

from lockgate.endpoints.delta.death import layer_faults
from lockgate.endpoints.delta.files import DataFile, Flush, delete_files, write_stream
from lockgate.endpoints.delta.graves import is_buried, is_gone
from lockgate.endpoints.delta.lake import STABLE, WORK
from lockgate.endpoints.delta.missing import stream_data, table_dead
from lockgate.endpoints.delta.parts import Part, read_part
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.schemas import from_wire
from lockgate.endpoints.delta.weaving import woven
from lockgate.model.errors import LockgateError, ObjectMissing
from lockgate.model.value import Value

__all__ = ["RewriteOrder", "RewriteTask", "Rewritten", "rewrite", "rewrite_tasks"]


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


def rewrite(place: Place, order: RewriteOrder, flush: Flush = Place.flush) -> list[DataFile]:
    """Write the new files. Nobody sees them before a commit names them. See `write_stream`."""
    key = list(order.key)
    schema = from_wire(order.schema)
    # What a row is known by is compared, for which it has to be spelled out.
    coded = [name for name in schema.names if name not in key]
    pieces = _pieces(place, order.files, schema, coded)
    if order.states is not None:
        pieces = woven(pieces, _states(place, order.states), key, schema)
    return write_stream(place.child(STABLE), schema, pieces, key[:1], order.file_rows, flush)


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


def rewrite_tasks(items: list[bytes]) -> list[bytes]:
    """The same as a task of Spark's. While an order is carried out, the files of those before it go
    to the disk: each of the two would wait for the other half of the time."""
    with ThreadPoolExecutor(1, thread_name_prefix="flush") as disk:
        begun: list[tuple[Place, Rewritten, list[Future[None]]]] = []
        try:
            for item in items:
                begun.append(_begun(msgspec.msgpack.decode(item, type=RewriteTask), disk))
            return [msgspec.msgpack.encode(_settled(*one)) for one in begun]
        except BaseException:  # nobody hears of any of them, and it is tried again
            for stable, done, flushes in begun:
                wait(flushes)
                delete_files(stable, done.files)
            raise


def _begun(task: RewriteTask, disk: Executor) -> tuple[Place, Rewritten, list[Future[None]]]:
    place = Place.from_wire(task.place)
    flushes: list[Future[None]] = []

    def flush(layer: Place, path: str) -> None:
        flushes.append(disk.submit(layer.flush, path))

    try:
        done = Rewritten(tuple(rewrite(place, task.order, flush)))
    except LockgateError as error:
        done = Rewritten(error=error.as_dict())
    return place.child(STABLE), done, flushes


def _settled(stable: Place, done: Rewritten, flushes: list[Future[None]]) -> Rewritten:
    """What came of an order once its files are on the disk. Of one that failed they are deleted."""
    wait(flushes)
    if done.error:
        return done
    try:
        with layer_faults("write", stable):
            for each in flushes:
                each.result()
    except LockgateError as error:
        delete_files(stable, done.files)
        return Rewritten(error=error.as_dict())
    return done
