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

import queue
import threading
from collections.abc import Callable
from typing import Final

from lockgate.model.errors import LockgateError
from lockgate.model.events import DispatcherEvent
from lockgate.model.ids import FeedId
from lockgate.node.feed.applying import Applying
from lockgate.node.feed.context import FeedContext
from lockgate.node.feed.copying import Copying
from lockgate.node.feed.dispatchers import Dispatchers
from lockgate.node.feed.guard import CaptureGuard
from lockgate.node.feed.orders import Order, Orders
from lockgate.node.feed.running import Running, backoff_s
from lockgate.pipeline.copy import CopyOutcome

IDLE_S: Final = 0.25


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
        self._failures = 0
        """Rounds in a row that broke."""
        self._taken = self._obeyed = 0
        """Orders, counted by whoever gives them and by the engine's own thread."""
        self._capture = CaptureGuard(context, self._wake.set, self._inbox_put)
        self._copying = Copying(context, self._inbox_put, self._wake.set)
        self._orders = Orders(context, self._dispatchers, self._capture, self._copying, self._post)
        self._applying = Applying(
            context, self._dispatchers, self._orders, lambda: self._capture.resolved, self._post
        )
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
        # Waits for the tasks' end, and whoever calls does not. Started before others see it: they
        # may be about to wait for it.
        interrupting = threading.Thread(
            target=self._context.interrupt, name=f"interrupt {self._feed}", daemon=True
        )
        interrupting.start()
        self._interrupting = interrupting

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
    def applying(self) -> Applying:
        return self._applying

    def _inbox_put(self, item: Order | CopyOutcome | LockgateError) -> None:
        self._inbox.put(item)
        self._wake.set()

    # --- the loop -----------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ended.is_set():
            self._wake.clear()
            try:
                busy = self._take_orders()
                busy = self._applying.round() or busy
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
                self._orders.obey(order)
            finally:
                if not isinstance(order, CopyOutcome | LockgateError):
                    self._obeyed += 1
        return done

    # --- ends ---------------------------------------------------------------------------------

    def _one_ended(self, one: Running) -> None:
        if one.is_trigger:
            self._capture.stop()
        else:
            self._copying.drop(one)

    def _post(self, event: DispatcherEvent) -> None:
        if not self._ended.is_set():
            self._post_event(event)
