"""What is built at the target after the rows are there: indexes, then constraints between tables.

Indexes come right after a table's copy and before its first changes, several at once. Foreign keys
come when no snapshot is in question any more, for only then do tables fit together; while changes
come table by table, a validation may meet a child before its parent, and is tried again.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.schema.compose import TablePlan
from lockgate.endpoints.postgres.schema.deferred import (
    Deferred,
    deferred,
    may_switch_triggers_off,
    outstanding,
    run,
)
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import DataRefused
from lockgate.model.ids import FeedId

__all__ = ["build_constraints", "build_indexes"]

BUILDERS = 2


def build_indexes(target: PostgresUrl, feed: FeedId, plans: Sequence[TablePlan]) -> None:
    """Have everything that concerns one table each; what is there already stays."""
    with connect(target, purpose=f"indexes {feed}", autocommit=True) as connection:
        todo, _ = deferred(plans, foreign_keys=False)
        left = [each for each in outstanding(connection, todo) if each.kind.stage == 0]
    with ThreadPoolExecutor(BUILDERS, thread_name_prefix="build") as builders:
        for _ in builders.map(lambda each: _build(target, feed, each), left):
            pass


def build_constraints(target: PostgresUrl, feed: FeedId, plans: Sequence[TablePlan]) -> bool:
    """Try to have the constraints too; True when nothing is left to do.

    Where the role may not switch the checks of foreign keys off, they are left out: changes that
    come table by table would be refused.
    """
    with connect(target, purpose=f"constraints {feed}", autocommit=True) as connection:
        todo, _ = deferred(plans, foreign_keys=may_switch_triggers_off(connection))
        left = outstanding(connection, todo)
        try:
            for each in sorted(left, key=lambda each: each.kind.stage):
                run(connection, each)
        except DataRefused:
            return False
    return True


def _build(target: PostgresUrl, feed: FeedId, each: Deferred) -> None:
    with connect(target, purpose=f"build {feed}", autocommit=True) as connection:
        run(connection, each)
