"""Draining a layered table as one Spark job: a task for each file that is rewritten.

The driver works out the last state of every key that changed and which files may hold it; tasks
read, merge and write; the driver commits what came of it. Killed anywhere before that, nothing has
happened but files that nobody names.
"""

from typing import Final

import msgspec

from lockgate.endpoints.delta.layered import Drained, LayeredTable
from lockgate.endpoints.delta.rewrite import RewriteTask, Rewritten
from lockgate.model.errors import Transient
from lockgate.model.ids import Token
from lockgate.pipeline.jobs import run_tasks
from lockgate.pipeline.session import Spark

__all__ = ["DrainFailed", "drain"]

_KIND: Final = "rewrite"


class DrainFailed(Transient):
    """A file could not be rewritten. Nothing has happened to the table; it is tried again."""

    code = "drain-failed"


def drain(spark: Spark, table: LayeredTable, token: Token, tag: str) -> Drained | None:
    """Bring what ingest has into stable, about as much as one drain takes. None: nothing."""
    plan = table.plan_drain()
    if plan is None:
        return None
    try:
        wire = table.place.to_wire()
        items = [msgspec.msgpack.encode(RewriteTask(wire, order)) for order in plan.orders]
        receipts = run_tasks(spark, _KIND, items, tag)
        done = [msgspec.msgpack.decode(receipt, type=Rewritten) for receipt in receipts]
        for one in done:
            if one.error:
                raise DrainFailed(one.error, object_=table.label, hint=one.hint, operation="drain")
        return table.land_drain(token, plan, [one.file for one in done if one.file is not None])
    finally:
        table.forget_plan(plan)
