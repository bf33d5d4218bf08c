"""The rounds of one feed: read what is new in the change log, plan, apply, tell."""

import contextlib
import time
from collections.abc import Callable
from typing import Final

from lockgate.endpoints.postgres.sink.advance import Advance
from lockgate.endpoints.postgres.sink.net import NeedsOnePart
from lockgate.model.errors import LockgateError, OutcomeUnknown, Transient
from lockgate.model.events import DispatcherAdvanced, DispatcherBlocked, DispatcherEvent
from lockgate.model.floors import Floors, Refusal
from lockgate.model.ids import FeedId
from lockgate.model.positions import Position
from lockgate.node.feed import rounds
from lockgate.node.feed.context import FeedContext
from lockgate.node.feed.dispatchers import Dispatchers
from lockgate.node.feed.orders import Orders, is_due
from lockgate.node.feed.running import Running
from lockgate.node.feed.tail import LogTail

__all__ = ["Applying"]

_ROWS_MAX: Final = 400_000
"""Rows of one span in one round; a larger transaction is not cut."""
_LOOK_S: Final = 0.2
"""While the feed is held, so often is looked whether it still is, and where."""


class Applying:
    """Runs them, on the engine's one thread."""

    def __init__(
        self,
        context: FeedContext,
        dispatchers: Dispatchers,
        orders: Orders,
        captured: Callable[[], Position | None],
        post: Callable[[DispatcherEvent], None],
    ) -> None:
        """`captured` tells how far the change log is known to go; `orders` lets one claim again."""
        self._context = context
        self._feed: FeedId = context.feed
        self._dispatchers = dispatchers
        self._claim = orders.claim
        self._captured = captured
        self._post = post
        self._tail: LogTail | None = None
        self._rests_until_s = 0.0
        self._look_at_s: float | None = None
        """When the hold is looked at next; None while nothing is known of one."""
        self.held_upto: Position | None = None
        """The target takes nothing beyond this; None while it was not seen to refuse anything."""
        self.rows_applied = 0

    @property
    def resolved(self) -> Position | None:
        return None if self._tail is None else self._tail.resolved

    def lag_s(self) -> float | None:
        """Age of the oldest captured change that is not applied; None before anything runs."""
        lows = [one.low for one in self._dispatchers if one.floors is not None]
        if self._tail is None or not lows:
            return None
        oldest_ms = self._tail.oldest_ms(min(lows))
        return 0.0 if oldest_ms is None else max(0.0, time.time() - oldest_ms / 1000)

    def round(self) -> bool:
        """Apply what is new. False when there was nothing to do."""
        for one in self._dispatchers:
            if (one.floors is None or one.in_doubt) and is_due(one):
                self._claim(one)
        tail = self._read_log()
        if tail is None or time.monotonic() < self._rests_until_s:
            return False
        self._look_at_hold()
        now_s = time.monotonic()
        plan = rounds.plan(self._dispatchers, tail, now_s, _ROWS_MAX, self.held_upto)
        if plan.empty:
            return False
        self._rests_until_s = time.monotonic() + self._context.target.round_s
        for one, ddl in plan.blocked:
            one.blocked = ddl
            self._post(DispatcherBlocked(self._feed, one.span, one.token, ddl.position, ddl))
        if plan.advance:
            self._advance(plan.advance)
        if plan.apply:
            self._apply(plan.apply)
        return True

    def _look_at_hold(self) -> None:
        """Learn where the feed is held, once it was refused; then until it is not any more.

        A feed that nobody holds is not asked about: the refusal comes with the work.
        """
        now_s = time.monotonic()
        if self._look_at_s is None or now_s < self._look_at_s:
            return
        self.held_upto = self._context.target.held_upto()
        self._look_at_s = None if self.held_upto is None else now_s + _LOOK_S

    def _read_log(self) -> LogTail | None:
        """What is new in the change log since the last look."""
        lows = [one.low for one in self._dispatchers if one.floors is not None]
        if not lows:
            return None
        least = min(lows)
        if self._tail is None or least < self._tail.after:
            # Somebody came late who stands further back: what the tail let go is needed again.
            self._tail = LogTail(least)
        tail = self._tail
        tail.let_go(least)
        known = self._captured()
        if known is None or known > tail.resolved:
            view = self._context.read_log(tail.resolved)
            tail.extend(view.resolved, view.segments, view.ddls)
        return tail

    def _advance(self, moves: list[tuple[Running, Position]]) -> None:
        asked = [Advance(one.span, one.token, one.floors or (), to) for one, to in moves]
        try:
            outcomes = self._context.target.advance(asked)
        except LockgateError as error:
            self._dispatchers.doubt([one for one, _ in moves], error)
            return
        for one, _ in moves:
            self._moved(one, outcomes[one.span])

    def _apply(self, works: list[rounds.Work]) -> None:
        began_s = time.monotonic()
        try:
            outcomes = self._context.apply(works)
        except LockgateError as error:
            self._dispatchers.doubt([work.running for work in works], error)
            return
        done_rows = sum(done.rows for done in outcomes if done.error is None)
        read_bytes = sum(segment.bytes for work in works for segment in work.segments)
        self._context.watch.round_done(done_rows, read_bytes, time.monotonic() - began_s)
        for done in outcomes:
            if done.error is not None and done.error.code == NeedsOnePart.code:
                done.work.running.one_part = True
                self._claim(done.work.running)
            elif done.error is not None:
                self._dispatchers.doubt([done.work.running], done.error)
            else:
                self.rows_applied += done.rows
                self._moved(done.work.running, done.refusal or done.floors)

    def _moved(self, one: Running, outcome: Floors | Refusal) -> None:
        if isinstance(outcome, Refusal):
            self._not_moved(one, outcome)
            return
        one.floors = outcome
        one.parked = None
        one.one_part = False
        if one.snapshots and one.low >= one.settled:
            self._forget_snapshots(one)
        self._post(DispatcherAdvanced(self._feed, one.span, one.token, one.low))

    def _forget_snapshots(self, one: Running) -> None:
        """Tried again with the next move if it does not succeed: until then they do no harm."""
        with contextlib.suppress(Transient, OutcomeUnknown):
            if self._context.target.forget_snapshots(one) is None:
                one.snapshots = ()

    def _not_moved(self, one: Running, refusal: Refusal) -> None:
        if refusal is Refusal.MOVED:
            self._claim(one)
        elif refusal is Refusal.HELD:
            self._look_at_s = 0.0  # before the next round
        else:
            self._dispatchers.refuse(one, refusal)
