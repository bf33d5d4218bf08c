"""What the core and people order of a feed's dispatchers, done one order at a time.

All of it happens on the engine's one thread, between rounds.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from lockgate.model.errors import LockgateError, OutcomeUnknown, StaleOwner, Transient
from lockgate.model.events import (
    DispatcherAdvanced,
    DispatcherEvent,
    DispatcherHeld,
    DispatcherStarted,
    DispatcherStopped,
)
from lockgate.model.floors import Refusal, raised
from lockgate.model.ids import FeedId, SpanId
from lockgate.model.instructions import (
    HoldDispatcher,
    PassBarrier,
    ReleaseDispatcher,
    StartDispatcher,
    StopDispatcher,
    WriteBarrier,
)
from lockgate.model.positions import Position
from lockgate.model.spans import WHOLE
from lockgate.node.feed.context import FeedContext
from lockgate.node.feed.copying import Copying
from lockgate.node.feed.dispatchers import Dispatchers
from lockgate.node.feed.guard import CaptureGuard
from lockgate.node.feed.running import Running
from lockgate.pipeline.copy import CopyOutcome

__all__ = ["CopyAnew", "Order", "Orders", "is_due"]


class CopyAnew(NamedTuple):
    """People want a span's rows copied once more."""

    feed: FeedId
    span: SpanId
    done: "Future[None]"
    """Told when the rows are gone and the copy has begun, or why not."""


Order = (
    StartDispatcher
    | StopDispatcher
    | HoldDispatcher
    | ReleaseDispatcher
    | PassBarrier
    | WriteBarrier
    | CopyAnew
)


class Orders:
    """Carries them out."""

    def __init__(
        self,
        context: FeedContext,
        dispatchers: Dispatchers,
        capture: CaptureGuard,
        copying: Copying,
        post: Callable[[DispatcherEvent], None],
    ) -> None:
        self._context = context
        self._feed: FeedId = context.feed
        self._dispatchers = dispatchers
        self._capture = capture
        self._copying = copying
        self._post = post

    def obey(self, order: Order | CopyOutcome | LockgateError) -> None:
        """Do it, or take note of what capture and copy tell."""
        if isinstance(order, LockgateError):
            self._capture_failed(order)
            return
        if isinstance(order, StartDispatcher):
            one = Running(order)
            self._dispatchers.add(one)
            self.claim(one)
            return
        if isinstance(order, StopDispatcher):
            self._stop(order)
            return
        if isinstance(order, CopyAnew):
            self._copy_anew(order)
            return
        found = self._dispatchers.get(order.span)
        if found is None or found.token != order.token:
            return
        if isinstance(order, HoldDispatcher):
            found.held = order.operator
            if found.floors is not None:
                self._post(DispatcherHeld(self._feed, order.span, order.token, order.operator))
        elif isinstance(order, ReleaseDispatcher):
            found.held = ""
        elif isinstance(order, PassBarrier):
            self._go_past(found, order.position)
        elif isinstance(order, WriteBarrier):
            self._write(found, order)
        else:
            self._copied(found, order)

    def claim(self, one: Running) -> None:
        """Take the row at the sink, for the first time or to learn where it stands."""
        start = one.start
        first = one.floors is None
        try:
            outcome = self._context.target.claim(start)
            asks = (first and not one.is_trigger) or one.copy_in_doubt
            if asks and not isinstance(outcome, Refusal):
                # Asked before it has floors: with them, it may apply what it has no rows for.
                one.copying = self._context.copies.wanted(one)
                one.copy_in_doubt = False
        except LockgateError as error:
            self._dispatchers.park([one], error)
            return
        if isinstance(outcome, Refusal):
            self._dispatchers.refuse(one, outcome)
            return
        one.floors = outcome
        if not one.in_doubt:  # else what was wrong is wrong until a batch has landed
            one.parked = None
        one.in_doubt = False
        event = DispatcherStarted if first else DispatcherAdvanced
        self._post(event(self._feed, one.span, one.token, one.low))
        if first and one.held:
            self._post(DispatcherHeld(self._feed, one.span, one.token, one.held))
        if first and one.is_trigger:
            self._capture.start(one.token)
        elif asks and one.copying:
            self._copying.begin(one)

    def _stop(self, stop: StopDispatcher) -> None:
        found = self._dispatchers.get(stop.span)
        if found is not None and found.token == stop.token:
            self._dispatchers.end(found)
        self._post(DispatcherStopped(self._feed, stop.span, stop.token))

    def _go_past(self, one: Running, position: Position) -> None:
        """The DDL is written, and the row at the sink stands behind it already."""
        if one.blocked is None or one.floors is None or one.blocked.position > position:
            return
        one.floors = raised(one.floors, one.blocked.position)
        one.blocked = None
        if self._context.target.renews and not one.is_trigger:
            # The table may go on as another one, to be copied anew: a claim tells.
            one.in_doubt = one.copy_in_doubt = True

    def _write(self, one: Running, write: WriteBarrier) -> None:
        """The trigger writes the DDL before which it stands. It is asked until it has."""
        if one.floors is None or not is_due(one):
            return
        try:
            if not self._context.schema.knows(write.ddl):
                self._context.read_log(write.ddl.position - 1)
            step = self._context.schema.step(write.ddl)
            outcome = self._context.target.write_ddl(write.token, write.ddl, write.births, step)
        except (Transient, OutcomeUnknown) as error:
            # Asked again, the sink writes what it has not written, and once.
            self._dispatchers.park([one], error)
            return
        except LockgateError as error:
            self._dispatchers.fail(one, error)
            return
        if outcome in (Refusal.BEHIND, Refusal.HELD):
            return
        if isinstance(outcome, Refusal):
            self._dispatchers.refuse(one, outcome)
            return
        one.floors = ((WHOLE, outcome),)
        one.blocked = None
        one.parked = None
        self._post(DispatcherAdvanced(self._feed, one.span, one.token, outcome))

    def _copied(self, one: Running, copied: CopyOutcome) -> None:
        one.copying = False
        if copied.refusal is not None:
            self._dispatchers.refuse(one, copied.refusal)
        elif copied.error is not None:
            self._dispatchers.park([one], copied.error)
            one.copying = True
            self._copying.begin(one)
        else:
            one.snapshots, one.settled = copied.snapshots, copied.settled
            one.parked = None

    def _copy_anew(self, order: CopyAnew) -> None:
        if not order.done.set_running_or_notify_cancel():
            return  # who asked has lost patience, and was told that nothing has begun
        one = self._dispatchers.get(order.span)
        if one is None or not self._may_empty(one):
            order.done.set_exception(
                Transient(
                    "the span is not running just now",
                    object_=order.span,
                    hint="ask again when `lockgate feed tables` shows it as running",
                    operation="resync",
                )
            )
            return
        try:
            self._empty(one)
        except LockgateError as error:
            if one.copying and not one.ended:
                self._copying.begin(one)
            order.done.set_exception(error)
            return
        one.snapshots, one.settled = (), 0
        one.parked = None
        if one.floors is None or one.in_doubt:
            one.copy_in_doubt = True
            self.claim(one)
        else:
            one.copying = True
            self._copying.begin(one)
        order.done.set_result(None)

    def _may_empty(self, one: Running) -> bool:
        """True when nothing of the span's is under way that its emptying could meet.

        Where a table goes on as another one, that is so of a batch in doubt too: it lands in the
        old one if at all. And there alone emptying asks nothing of the table itself: it may be lost
        or damaged, so that it can neither be claimed, nor copied into, nor altered.
        """
        if not self._context.target.renews:
            stands = one.floors is not None and not one.in_doubt
            return stands and not one.copying and one.blocked is None
        return not one.copying or (one.parked is not None and self._copying.take_back(one))

    def _empty(self, one: Running) -> None:
        """Remove its rows. What is not known to have failed may have happened: until the sink has
        told which, no change may be applied to rows that are perhaps not there."""
        try:
            self._context.copies.empty(one, whole=True)
        except (Transient, OutcomeUnknown, StaleOwner) as error:
            one.copy_in_doubt = True
            self._dispatchers.doubt([one], error)
            raise

    def _capture_failed(self, error: LockgateError) -> None:
        """The source cannot be captured any more and waiting does not help."""
        for one in self._dispatchers:
            if one.is_trigger:
                self._dispatchers.fail(one, error)


def is_due(one: Running) -> bool:
    """True when it does not wait for another try."""
    return one.parked is None or time.monotonic() >= one.parked.until_s
