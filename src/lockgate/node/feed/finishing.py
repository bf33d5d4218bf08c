"""What is built at the target after the rows are there: indexes, then constraints between tables.

Indexes come right after a table's copy and before its first changes, several at once, under the
token of a span of the table. Foreign keys come when no snapshot is in question any more, for only
then do tables fit together, under the trigger's token; while changes come table by table, a
validation may meet a child before its parent, and is tried again.

Each build is one transaction behind the fence: a successor waits for it or ends it, so an owner
that is stopped in the middle of one holds no table for ever.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import psycopg

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.schema.compose import TablePlan
from lockgate.endpoints.postgres.schema.deferred import (
    Deferred,
    deferred,
    may_switch_triggers_off,
    outstanding,
    run,
)
from lockgate.endpoints.postgres.sink.gate import Refused, enter_build
from lockgate.endpoints.postgres.sink.session import open_session
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import DataRefused, StaleOwner
from lockgate.model.ids import FeedId, SpanId, Token
from lockgate.model.spans import TRIGGER

__all__ = ["Builder"]

_AT_ONCE = 2


class Builder:
    """Builds at the target of a feed, for the owner of one of its spans.

    Raises StaleOwner when the span has a newer one.
    """

    def __init__(self, target: PostgresUrl, feed: FeedId, span: SpanId, token: Token) -> None:
        self._target, self._feed, self._span, self._token = target, feed, span, token

    @classmethod
    def of_feed(cls, target: PostgresUrl, feed: FeedId, token: Token) -> "Builder":
        """For the owner of the trigger."""
        return cls(target, feed, TRIGGER, token)

    def indexes(self, plan: TablePlan) -> None:
        """Have everything that concerns one table only; what is there already stays."""
        with connect(self._target, purpose=f"indexes {self._feed}", autocommit=True) as connection:
            todo, _ = deferred([plan], foreign_keys=False)
            left = [each for each in outstanding(connection, todo) if each.kind.stage == 0]
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="build") as builders:
            for _ in builders.map(self._build, left):
                pass

    def constraints(self, plans: Sequence[TablePlan]) -> bool:
        """Try to have the constraints too; True when nothing is left to do.

        Where the role may not switch the checks of foreign keys off, they are left out: changes
        that come table by table would be refused.
        """
        purpose = f"constraints {self._feed}"
        with connect(self._target, purpose=purpose, autocommit=True) as connection:
            todo, _ = deferred(plans, foreign_keys=may_switch_triggers_off(connection))
            left = outstanding(connection, todo)
        try:
            for each in sorted(left, key=lambda each: each.kind.stage):
                self._build(each)
        except DataRefused:
            return False
        return True

    def _build(self, each: Deferred) -> None:
        with open_session(self._target, self._feed, self._span, autocommit=True) as connection:
            try:
                run(connection, each, before=self._enter)
            except Refused as refused:
                raise StaleOwner(
                    "a newer owner builds what is missing",
                    object_=f"{self._feed}/{self._span}",
                    hint="nothing: it goes on there",
                    operation="build",
                    cause=refused.refusal.value,
                ) from refused

    def _enter(self, cursor: psycopg.Cursor) -> None:
        enter_build(cursor, self._feed, self._span, self._token)
