"""Applying changes as one Spark job: all spans of a feed's round together.

The driver says what each span, or part of a big one, has to do; a task reads the change log's
files, works out the net effects and writes them behind the fence: small ones together, others one
by one. See `endpoints.postgres.sink.together` for what a task does.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.copy.locate import chunk_finder
from lockgate.endpoints.postgres.copy.survey import key_columns
from lockgate.endpoints.postgres.schema.discover import discover
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.sink.snapshots import ChunkOf
from lockgate.endpoints.postgres.sink.together import Ask, apply_all
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.apply import ApplyError, ApplyItem, Receipt
from lockgate.model.value import Value
from lockgate.pipeline.jobs import TASKS_PER_SLOT, TaskFailed, run_tasks
from lockgate.pipeline.session import Spark
from lockgate.store.changelog.packs import slice_of

__all__ = ["apply_items", "apply_tasks"]


_SLICES_PER_TASK: Final = 200
"""Segments in packs are small: so many of them are a task's work."""


class _Task(Value, frozen=True):
    item: ApplyItem
    target: bytes
    """The target's URL on the wire: a secret may be in it."""
    source: bytes = b""
    """The source's, when it has to be asked which snapshot a key was copied under."""


def apply_items(
    spark: Spark,
    items: Sequence[ApplyItem],
    target: PostgresUrl,
    tag: str,
    *,
    source: PostgresUrl | None = None,
) -> list[Receipt]:
    """Apply all items in one job, and give their receipts in the items' order.

    `source` is asked about keys of items that have several snapshots.
    """
    encode = msgspec.msgpack.encode
    url, asked = target.to_wire(), b"" if source is None else source.to_wire()
    tasks = [encode(_Task(item, url, asked if len(item.snapshots) > 1 else b"")) for item in items]
    weights = [sum(map(_weight, item.segments)) for item in items]
    # Never more tasks than the work is worth, for each costs some 20 ms, whatever it does.
    fewer = max(spark.slots, min(spark.slots * TASKS_PER_SLOT, math.ceil(sum(weights))))
    receipts: Sequence[bytes | None]
    trouble: ApplyError | None = None
    try:
        receipts = run_tasks(spark, "apply", tasks, tag, weights=weights, tasks=fewer)
    except TaskFailed as failed:
        receipts, trouble = failed.receipts, ApplyError.of(failed)
    return [
        Receipt(item.span.id, item.part, error=trouble)
        if receipt is None
        else msgspec.msgpack.decode(receipt, type=Receipt)
        for item, receipt in zip(items, receipts, strict=True)
    ]


def _weight(uri: str) -> float:
    """What a segment costs, against one in a file of its own."""
    return 1.0 if slice_of(uri) is None else 1 / _SLICES_PER_TASK


def apply_tasks(items: list[bytes]) -> list[bytes]:
    """What a Spark task does for its items, all of one job and so of one target."""
    tasks = [msgspec.msgpack.decode(data, type=_Task) for data in items]
    asked = [Ask(task.item, _chunk_of(task) if task.source else None) for task in tasks]
    receipts = apply_all(asked, PostgresUrl.from_wire(tasks[0].target))
    return [msgspec.msgpack.encode(receipt) for receipt in receipts]


def _chunk_of(task: _Task) -> ChunkOf:
    """Asks when it is called, so that what goes wrong is part of the receipt."""
    item, source = task.item, PostgresUrl.from_wire(task.source)

    def find(keys: list[Any]) -> npt.NDArray[np.int64]:
        with PostgresSink(PostgresUrl.from_wire(task.target)) as sink:
            chunks = sink.chunks(item.feed, item.span.id)
        with connect(source, purpose=f"{item.feed} chunks", autocommit=True) as connection:
            definition = discover(connection, [item.shape.table])[item.shape.table]
        key = key_columns(definition)
        return chunk_finder(source, item.feed, key, item.shape.key, chunks, item.snapshots)(keys)

    return find
