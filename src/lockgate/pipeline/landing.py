"""Landing the batches of a lake feed's round as one Spark job: a task for each table."""

from collections.abc import Sequence
from typing import Final

import msgspec

from lockgate.endpoints.delta.land import LandItem
from lockgate.model.apply import ApplyError, Receipt
from lockgate.pipeline.jobs import TaskFailed, run_tasks
from lockgate.pipeline.session import Spark

__all__ = ["land_items"]

_KIND: Final = "land"


def land_items(spark: Spark, items: Sequence[LandItem], tag: str) -> list[Receipt]:
    """Land all items, and give their receipts in the items' order."""
    if not items:
        return []
    tasks = [msgspec.msgpack.encode(item) for item in items]
    receipts: Sequence[bytes | None]
    trouble: ApplyError | None = None
    try:
        receipts = run_tasks(spark, _KIND, tasks, tag)
    except TaskFailed as failed:
        receipts, trouble = failed.receipts, ApplyError.of(failed)
    return [
        Receipt(item.span, error=trouble)
        if receipt is None
        else msgspec.msgpack.decode(receipt, type=Receipt)
        for item, receipt in zip(items, receipts, strict=True)
    ]
