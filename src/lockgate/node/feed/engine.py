"""The engine of one feed on one node: takes the core's orders, runs rounds, tells what came of it.

    orders ─┐                       ┌─► capture (with the trigger dispatcher)
            ├─► one thread, rounds ─┼─► copy    (spans whose rows are not there yet)
    news  ──┘                       └─► apply   (one Spark job for all spans that have changes)

A round is: do what was ordered, read what is new in the change log, plan (`rounds`), apply,
report. Orders wait for the round that runs. Nothing here decides who may write: every
transaction at the sink compares its token, so an engine that should have stopped writes nothing.

What fails for a reason that may pass (a server that restarts), or that only people can mend (a
row that the target refuses), parks the dispatchers concerned and tries again; see `Parked`.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from lockgate.endpoints.postgres.sink.advance import Advance
from lockgate.endpoints.postgres.sink.net import NeedsOnePart
from lockgate.model.errors import LockgateError, OutcomeUnknown, Transient
from lockgate.model.events import (
    DispatcherAdvanced,
    DispatcherBlocked,
    DispatcherEvent,
    DispatcherHeld,
    DispatcherStarted,
    DispatcherStopped,
)
from lockgate.model.floors import Floors, Refusal, raised
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
from lockgate.node.feed import rounds
from lockgate.node.feed.context import FeedContext
from lockgate.node.feed.copying import Copying
from lockgate.node.feed.dispatchers import Dispatchers
from lockgate.node.feed.guard import CaptureGuard
from lockgate.node.feed.running import Running, backoff_s
from lockgate.node.feed.tail import LogTail
from lockgate.pipeline.copy import CopyOutcome


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

IDLE_S = 0.25
ROWS_MAX = 400_000
"""Rows of one span in one round; a larger transaction is not cut."""


class FeedEngine:
    """All dispatchers of one feed on this node, and what they share."""

    def __init__(self, context: FeedContext, post: Callable[[DispatcherEvent], None]) -> None:
        self._context = context
        self._feed: FeedId = context.feed
        self._post_event = post
        self._inbox: queue.SimpleQueue[Order | CopyOutcome | LockgateError] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._dispatchers = Dispatchers(
            self._feed, self._post, self._one_ended, context.watch.put_off
        )
        self._tail: LogTail | None = None
        self._failures = 0
        """Rounds in a row that broke."""
        self.rows_applied = 0
        self._taken = self._obeyed = 0
        """Orders, counted by whoever gives them and by the engine's own thread."""
        self._capture = CaptureGuard(context, self._wake.set, self._inbox_put)
        self._copying = Copying(context, self._inbox_put, self._wake.set)
        self._interrupting: threading.Thread | None = None
        self._thread = threading.Thread(target=self._run, name=f"feed {self._feed}", daemon=True)
        self._thread.start()

    # --- from other threads -------------------------------------------------------------------

    def order(self, order: Order) -> None:
        """Take an order of the core's."""
        self._taken += 1
        self._inbox_put(order)

    @property
    def empty(self) -> bool:
        """True when no dispatcher is here and none is on its way. For whoever gives the orders."""
        return self._taken == self._obeyed and not len(self._dispatchers)

    def stop_everything(self) -> None:
        """Stop at once. What is under way at the sink is the fence's business."""
        self._ended.set()
        self._wake.set()
        self._capture.close()
        self._copying.stop()
        # Waits for the tasks' end, and whoever calls does not.
        self._interrupting = threading.Thread(
            target=self._context.interrupt, name=f"interrupt {self._feed}", daemon=True
        )
        self._interrupting.start()

    def join(self, timeout_s: float) -> None:
        """Wait for the threads."""
        if self._interrupting is not None:
            self._interrupting.join(timeout_s)
        self._thread.join(timeout_s)
        self._capture.join(timeout_s)
        self._copying.join(timeout_s)

    def view(self) -> list[Running]:
        """The dispatchers as they are, for a status."""
        return list(self._dispatchers)

    @property
    def capture(self) -> CaptureGuard:
        return self._capture

    @property
    def copying(self) -> Copying:
        return self._copying

    @property
    def resolved(self) -> Position | None:
        return None if self._tail is None else self._tail.resolved

    def lag_s(self) -> float | None:
        """Age of the oldest captured change that is not applied; None before anything runs."""
        lows = [one.low for one in self.view() if one.floors is not None]
        if self._tail is None or not lows:
            return None
        oldest_ms = self._tail.oldest_ms(min(lows))
        return 0.0 if oldest_ms is None else max(0.0, time.time() - oldest_ms / 1000)

    def _inbox_put(self, item: Order | CopyOutcome | LockgateError) -> None:
        self._inbox.put(item)
        self._wake.set()

    # --- the loop -----------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ended.is_set():
            self._wake.clear()
            try:
                busy = self._take_orders()
                busy = self._round() or busy
                self._failures = 0
                self._tell_of_recovery()
            except Exception as error:
                if self._ended.is_set():
                    return
                if not isinstance(error, LockgateError):
                    self._context.watch.round_broke()
                self._dispatchers.doubt(self._dispatchers, error)
                self._failures += 1
                self._ended.wait(backoff_s(self._failures))
                continue
            if not busy:
                self._wake.wait(IDLE_S)

    def _tell_of_recovery(self) -> None:
        watch = self._context.watch
        if watch.parked and not any(one.parked for one in self._dispatchers):
            watch.goes_on()

    def _take_orders(self) -> bool:
        done = False
        while not self._ended.is_set():
            try:
                order = self._inbox.get_nowait()
            except queue.Empty:
                return done
            done = True
            try:
                self._obey(order)
            finally:
                if not isinstance(order, CopyOutcome | LockgateError):
                    self._obeyed += 1
        return done

    def _obey(self, order: Order | CopyOutcome | LockgateError) -> None:
        if isinstance(order, LockgateError):
            self._capture_failed(order)
            return
        if isinstance(order, StartDispatcher):
            one = Running(order)
            self._dispatchers.add(one)
            self._claim(one)
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

    # --- orders -------------------------------------------------------------------------------

    def _claim(self, one: Running) -> None:
        """Take the row at the sink, for the first time or to learn where it stands."""
        start = one.start
        first = one.floors is None
        try:
            outcome = self._context.sink.claim(
                self._feed, start.spec, start.token, start.lineage, start.birth
            )
            if first and not one.is_trigger and not isinstance(outcome, Refusal):
                # Asked before it has floors: with them, it may apply what it has no rows for.
                one.copying = self._context.copies.wanted(one)
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
        elif first and one.copying:
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

    def _write(self, one: Running, write: WriteBarrier) -> None:
        """The trigger writes the DDL before which it stands. It is asked until it has."""
        if one.floors is None or not _is_due(one):
            return
        try:
            if not self._context.schema.knows(write.ddl):
                self._context.read_log(write.ddl.position - 1)
            statements = self._context.schema.statements(write.ddl)
            outcome = self._context.sink.write_ddl(
                self._feed, write.token, write.ddl, write.births, statements
            )
        except (Transient, OutcomeUnknown) as error:
            # Asked again, the sink writes what it has not written, and once.
            self._dispatchers.park([one], error)
            return
        except LockgateError as error:
            self._dispatchers.fail(one, error)
            return
        if outcome is Refusal.BEHIND:
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
        one = self._dispatchers.get(order.span)
        try:
            if one is None or one.floors is None or one.copying or one.in_doubt or one.blocked:
                raise Transient(
                    "the span is not running just now",
                    object_=order.span,
                    hint="ask again when `lockgate feed tables` shows it as running",
                    operation="resync",
                )
            self._context.copies.empty(one, whole=True)
        except LockgateError as error:
            order.done.set_exception(error)
            return
        one.snapshots, one.settled = (), 0
        one.parked = None
        one.copying = True
        self._copying.begin(one)
        order.done.set_result(None)

    # --- rounds -------------------------------------------------------------------------------

    def _round(self) -> bool:
        """Apply what is new. False when there was nothing to do."""
        for one in self._dispatchers:
            if (one.floors is None or one.in_doubt) and _is_due(one):
                self._claim(one)
        tail = self._read_log()
        if tail is None:
            return False
        plan = rounds.plan(self._dispatchers, tail, time.monotonic(), ROWS_MAX)
        if plan.empty:
            return False
        for one, ddl in plan.blocked:
            one.blocked = ddl
            self._post(DispatcherBlocked(self._feed, one.span, one.token, ddl.position, ddl))
        if plan.advance:
            self._advance(plan.advance)
        if plan.apply:
            self._apply(plan.apply)
        return True

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
        known = self._capture.resolved
        if known is None or known > tail.resolved:
            view = self._context.read_log(tail.resolved)
            tail.extend(view.resolved, view.segments, view.ddls)
        return tail

    def _advance(self, moves: list[tuple[Running, Position]]) -> None:
        asked = [Advance(one.span, one.token, one.floors or (), to) for one, to in moves]
        try:
            outcomes = self._context.sink.advance(self._feed, asked)
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
            if self._context.sink.forget_chunks(self._feed, one.span, one.token) is None:
                one.snapshots = ()

    def _not_moved(self, one: Running, refusal: Refusal) -> None:
        if refusal is Refusal.MOVED:
            self._claim(one)
        else:
            self._dispatchers.refuse(one, refusal)

    # --- ends ---------------------------------------------------------------------------------

    def _one_ended(self, one: Running) -> None:
        if one.is_trigger:
            self._capture.stop()
        else:
            self._copying.drop(one)

    def _capture_failed(self, error: LockgateError) -> None:
        """The source cannot be captured any more and waiting does not help."""
        for one in self._dispatchers:
            if one.is_trigger:
                self._dispatchers.fail(one, error)

    def _post(self, event: DispatcherEvent) -> None:
        if not self._ended.is_set():
            self._post_event(event)


def _is_due(one: Running) -> bool:
    return one.parked is None or time.monotonic() >= one.parked.until_s
