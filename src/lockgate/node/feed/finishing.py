"""What is built at the target after the rows are there, in two steps.

    rows ──► Builder.indexes ──► changes ──► … level with the look ──► Builder.constraints ──► book

Right after a table's copy and before its first changes come its key and its indexes, under the
token of a span of the table. They are those that the source has now, and the rows may be older: a
row that the source deleted before it made an index unique is still there. So only what changes
cannot be applied without has to succeed here.

All the rest, and constraints between tables, comes under the trigger's token when no snapshot is in
question any more and the target has every change that the source had when it was looked at
(`Finishing`): earlier, a constraint of now would meet, and refuse for ever, rows of before. While
changes come table by table, a validation may still meet a child before its parent, and is tried
again. That all is built is written in the book; what the source gets later is not carried over.

Each build is one transaction behind the fence: a successor waits for it or ends it, so an owner
that is stopped in the middle of one holds no table for ever.
"""

import contextlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.schema.compose import TablePlan
from lockgate.endpoints.postgres.schema.deferred import (
    Deferred,
    DeferredKind,
    deferred,
    may_switch_triggers_off,
    outstanding,
    run,
)
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.sink.gate import Refused, enter_build
from lockgate.endpoints.postgres.sink.session import open_session
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import DataRefused, StaleOwner
from lockgate.model.ids import FeedId, SpanId, Token
from lockgate.model.positions import Position
from lockgate.model.spans import TRIGGER
from lockgate.node.feed.targets.port import Look
from lockgate.store.feeds import FeedBook

if TYPE_CHECKING:
    from lockgate.node.feed.context import FeedContext

__all__ = ["Builder", "Finishing"]

COPYING_S = 0.2
LEVEL_S = 0.1
"""The feed is about to be there: people wait for this moment to switch."""
UNFIT_S = 5.0
"""To build what rows do not fit yet costs both servers something."""

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
        """Have the table's key, and its indexes as far as its rows fit them.

        Raises DataRefused when they do not fit what changes find their rows by. What is there
        already stays.
        """
        with connect(self._target, purpose=f"indexes {self._feed}", autocommit=True) as connection:
            todo, _ = deferred([plan], foreign_keys=False)
            left = [each for each in outstanding(connection, todo) if each.kind.stage == 0]
        # An ALTER TABLE has the table for itself, and waits until every index under way is built.
        for each in left:
            if each.kind is not DeferredKind.INDEX:
                self._build_if_it_fits(each)
        plain = [each for each in left if each.kind is DeferredKind.INDEX]
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="build") as builders:
            for _ in builders.map(self._build_if_it_fits, plain):
                pass

    def _build_if_it_fits(self, each: Deferred) -> None:
        may_wait = contextlib.nullcontext() if each.identifies else contextlib.suppress(DataRefused)
        with may_wait:
            self._build(each)

    def constraints(self, plans: Sequence[TablePlan]) -> bool:
        """Try to have all that is left; True when nothing is.

        False when rows do not fit together yet. Raises DataRefused when those of one table do not
        fit what concerns that table alone: nothing that is on its way will mend that.

        Where the role may not switch the checks of foreign keys off, they are left out: changes
        that come table by table would be refused.
        """
        purpose = f"constraints {self._feed}"
        with connect(self._target, purpose=purpose, autocommit=True) as connection:
            todo, _ = deferred(plans, foreign_keys=may_switch_triggers_off(connection))
            left = outstanding(connection, todo)
        alone = self._refused(each for each in left if each.kind.stage == 0)
        between = self._refused(
            each for stage in (1, 2) for each in left if each.kind.stage == stage
        )
        if alone:
            raise alone[0]
        return not between

    def _refused(self, these: Iterable[Deferred]) -> list[DataRefused]:
        """Build one after the other; what the rows did not fit."""
        found: list[DataRefused] = []
        for each in these:
            try:
                self._build(each)
            except DataRefused as refused:
                found.append(refused)
        return found

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


class _Goal(NamedTuple):
    """What is to be built, and where the source's log ended when it had been looked at."""

    look: Look
    upto: Position


class Finishing:
    """The end of a feed's copy: once, whoever owns the feed by then."""

    def __init__(
        self, context: "FeedContext", url: PostgresUrl, sink: PostgresSink, book: FeedBook
    ) -> None:
        self._context = context
        self._url = url
        self._sink = sink
        self._book = book
        self._done = context.entry.finished or not context.config.copy
        self._goal: _Goal | None = None

    def attempt(self, token: Token) -> float | None:
        """Build what can be built by now: after how many seconds to try again; None when nothing is
        left, for ever."""
        if self._done:
            return None
        context = self._context
        if not self._sink.copies_over(context.feed):
            return COPYING_S
        # A goal is kept: a source that is always written to is always ahead of the target.
        goal = self._goal = self._goal or self._looked()
        stands = self._sink.least_position(context.feed)
        if stands is None or stands < goal.upto - 1:
            return LEVEL_S
        now = self._looked()
        if now.look != goal.look:  # the source has changed since
            self._goal = now
            return LEVEL_S
        plans = [each.plan for each in goal.look.values()]
        if not Builder.of_feed(self._url, context.feed, token).constraints(plans):
            return UNFIT_S
        self._book.finish(context.entry)
        self._done = True
        return None

    def _looked(self) -> _Goal:
        copies = self._context.copies
        look = copies.look(set(self._context.entry.tables))
        return _Goal(look, copies.end_of_log())
