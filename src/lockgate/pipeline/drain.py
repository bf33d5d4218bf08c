"""Draining a layered table as one Spark job: a task for each file that is rewritten.

The driver works out the last state of every key that changed and which files may hold it; tasks
read, merge and write; the driver commits what came of it. Killed anywhere before that, nothing has
happened but files that nobody names.

What goes wrong keeps its kind: whether trying again can help is for whoever asked to know. A disk
that is full or a file that is damaged is no reason to read and write a table again and again.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from lockgate.endpoints.delta.commit_files import taking_back
from lockgate.endpoints.delta.compact import Compacted, Compaction, land_compaction, plan_compaction
from lockgate.endpoints.delta.faults import FileCorrupt
from lockgate.endpoints.delta.fenced import TableDead
from lockgate.endpoints.delta.files import DataFile, delete_files
from lockgate.endpoints.delta.layered import Drained, LayeredTable
from lockgate.endpoints.delta.missing import FilesMoved
from lockgate.endpoints.delta.rewrite import RewriteOrder, RewriteTask, Rewritten
from lockgate.model.errors import (
    LockgateError,
    MissingPrivilege,
    ObjectMissing,
    StorageFull,
    Transient,
)
from lockgate.model.ids import Token
from lockgate.pipeline.jobs import TaskFailed, run_tasks
from lockgate.pipeline.session import Spark

__all__ = ["DrainFailed", "compact", "drain"]

_KIND: Final = "rewrite"


class DrainFailed(Transient):
    """A file could not be rewritten. Nothing has happened to the table; it is tried again."""

    code = "drain-failed"


_KINDS: Final[dict[str, type[LockgateError]]] = {
    kind.code: kind
    for kind in (
        FileCorrupt,
        FilesMoved,
        MissingPrivilege,
        ObjectMissing,
        StorageFull,
        TableDead,
    )
}


def drain(spark: Spark, table: LayeredTable, token: Token, tag: str) -> Drained | None:
    """Bring what ingest has into stable, about as much as one drain takes. None: nothing."""
    table.follow_ingest(token)
    plan = table.plan_drain()
    if plan is None:
        return None
    try:
        new = _rewritten(spark, table, plan.orders, plan.old, tag)
        with taking_back(table.stable.place, new):
            return table.land_drain(token, plan, new)
    finally:
        table.forget_plan(plan)


def compact(spark: Spark, table: LayeredTable, token: Token, tag: str) -> Compacted | None:
    """Make one file of small ones that lie next to each other. None: there are none."""
    plan: Compaction | None = plan_compaction(table)
    if plan is None:
        return None
    new = _rewritten(spark, table, plan.orders, plan.old, tag)
    with taking_back(table.stable.place, new):
        return land_compaction(table, token, plan, new)


def _rewritten(
    spark: Spark,
    table: LayeredTable,
    orders: Sequence[RewriteOrder],
    old: Sequence[DataFile],
    tag: str,
) -> list[DataFile]:
    wire = table.place.to_wire()
    items = [msgspec.msgpack.encode(RewriteTask(wire, order)) for order in orders]
    sizes = {file.path: file.bytes for file in old}
    weights = [1.0 + sum(sizes[path] for path in order.files) for order in orders]
    # A task for a slot: how long a file takes is told by its size, so all end about together, and
    # every further task would cost as much as a sixth of a file.
    try:
        receipts = run_tasks(spark, _KIND, items, tag, weights=weights, tasks=spark.slots)
    except TaskFailed as error:
        # No commit names the others' files: on a disk that is full they would be in the way. Those
        # of tasks that were stopped, nobody was told of: they go with a vacuum.
        delete_files(table.stable.place, _files(_told(error.receipts)))
        raise
    done = _told(receipts)
    for one in done:
        if one.error:
            delete_files(table.stable.place, _files(done))
            raise _error(one.error)
    return _files(done)


def _told(receipts: Iterable[bytes | None]) -> list[Rewritten]:
    return [msgspec.msgpack.decode(one, type=Rewritten) for one in receipts if one is not None]


def _files(done: Iterable[Rewritten]) -> list[DataFile]:
    return [file for one in done for file in one.files]


def _error(said: dict[str, str]) -> LockgateError:
    kind = _KINDS.get(said["code"], DrainFailed)
    return kind(
        said["what"],
        object_=said["object"],
        hint=said["hint"],
        operation="drain",
        cause=said["cause"] or None,
    )
