"""The executor of a node: an engine for each feed that has dispatchers here.

    order ──► Door of the feed ──► context is being opened: the order waits
                                └► open: the engine has it at once

To open a feed's context the metastore is read, which may take long or fail, and the core's thread
never waits. So each feed has a door: orders go through it in the order they came, and wait behind
it as long as it is closed. When the last dispatcher has gone, so has the door's use: the next one
may belong to a feed of the same name that was created anew, and finds a new door.
"""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial

from lockgate.model.errors import LockgateError, ObjectMissing, Transient
from lockgate.model.events import (
    DispatcherEvent,
    DispatcherFailed,
    DispatcherStopped,
    SinkClosed,
    SinkCloseFailed,
    SinkEvent,
)
from lockgate.model.feeds import Trouble
from lockgate.model.ids import FeedId, SpanId, Token
from lockgate.model.instructions import CloseSink, StartDispatcher, StopDispatcher
from lockgate.node.feed.context import FeedContext
from lockgate.node.feed.engine import FeedEngine
from lockgate.node.feed.gates import Gate
from lockgate.node.feed.orders import CopyAnew, Order
from lockgate.node.feed.running import Parked, backoff_s, told
from lockgate.node.telemetry.lines import Lines

__all__ = ["FeedExecutor", "SinkCloser"]

ContextOf = Callable[[FeedId], FeedContext]
Post = Callable[[DispatcherEvent], None]

JOIN_S = 20.0


class FeedExecutor:
    """`core.ports.Executor`, for real. Orders are handed on and never waited for."""

    def __init__(
        self, context_of: ContextOf, post: Post, stopping: Callable[[], None] = lambda: None
    ) -> None:
        """`context_of` opens a feed's context anew at each call; it may block, and raise.
        `stopping` is told when everything is to stop, for work here that is of no feed."""
        self._context_of = context_of
        self._post = post
        self._stopping = stopping
        self._doors: dict[FeedId, _Door] = {}
        self._ended: list[_Door] = []
        self._lock = threading.Lock()

    def carry_out(self, instruction: Order) -> None:
        """Begin what the instruction asks; events follow."""
        feed = instruction.feed
        with self._lock:
            door = self._doors.get(feed)
            if door is not None and door.empty and isinstance(instruction, StartDispatcher):
                self._leave(door)
                door = None
            if door is None:
                door = self._doors[feed] = _Door(feed, self._context_of, self._post)
            door.order(instruction)

    def stop_everything(self) -> None:
        """Stop all dispatchers of this node at once; no event follows."""
        self._stopping()
        with self._lock:
            doors = list(self._doors.values())
            self._doors.clear()
            self._ended += doors
        for door in doors:
            door.stop()

    def rest(self) -> None:
        """End the engines that have no dispatcher any more. Not for the core's thread."""
        with self._lock:
            for feed in [feed for feed, door in self._doors.items() if door.empty]:
                self._leave(self._doors.pop(feed))
            ended = list(self._ended)
        self._join(ended)

    def _leave(self, door: "_Door") -> None:
        self._ended.append(door)
        door.stop()

    def join(self) -> None:
        """Wait until nothing runs any more. Not for the core's thread: it never waits."""
        self._join(list(self._ended))

    def _join(self, doors: Iterable["_Door"]) -> None:
        for door in doors:
            door.join()
            with self._lock:
                if door in self._ended:
                    self._ended.remove(door)

    def copy_anew(self, feed: FeedId, span: SpanId) -> "Future[None]":
        """Have a span's rows copied once more, as people ask for it."""
        done: Future[None] = Future()
        with self._lock:
            door = self._doors.get(feed)
            if door is None:
                done.set_exception(
                    Transient(
                        "the feed does not run on this node",
                        object_=feed,
                        hint="ask again in a moment",
                    )
                )
            else:
                door.order(CopyAnew(feed, span, done))
        return done

    def engine(self, feed: FeedId) -> FeedEngine | None:
        """The engine of a feed, for a look."""
        door = self._doors.get(feed)
        return None if door is None else door.engine

    def engines(self) -> dict[FeedId, FeedEngine]:
        """All engines, for a look."""
        doors = dict(self._doors)
        return {feed: door.engine for feed, door in doors.items() if door.engine is not None}

    def troubles(self) -> dict[FeedId, Parked]:
        """What keeps feeds from being opened here."""
        doors = dict(self._doors)
        return {feed: door.trouble for feed, door in doors.items() if door.trouble is not None}


class _Door:
    """One feed here: its orders wait until its engine is there."""

    def __init__(self, feed: FeedId, context_of: ContextOf, post: Post) -> None:
        self._feed = feed
        self._context_of = context_of
        self._post = post
        self._lock = threading.Lock()
        self._waiting: list[Order] = []
        self._stopped = threading.Event()
        self._failed = False
        self._context: FeedContext | None = None
        self.engine: FeedEngine | None = None
        self.trouble: Parked | None = None
        self._thread = threading.Thread(target=self._open, name=f"open {feed}", daemon=True)
        self._thread.start()

    def order(self, order: Order) -> None:
        """For the engine, now or as soon as it is there."""
        with self._lock:
            if self.engine is not None:
                self.engine.order(order)
            else:
                self._waiting.append(order)

    @property
    def empty(self) -> bool:
        """True when no dispatcher is here or on its way."""
        with self._lock:
            if self._waiting:
                return False
            return self._failed if self.engine is None else self.engine.empty

    def stop(self) -> None:
        """Stop all of it at once."""
        with self._lock:
            self._stopped.set()
            engine = self.engine
        if engine is not None:
            engine.stop_everything()

    def join(self) -> None:
        """Wait for the threads, then give connections back."""
        self._thread.join(JOIN_S)
        if self.engine is not None:
            self.engine.join(JOIN_S)
        if self._context is not None:
            self._context.close()

    def _open(self) -> None:
        attempts = 0
        while not self._stopped.is_set():
            try:
                self._begin(self._context_of(self._feed))
            except ObjectMissing as error:
                self._fail(error)
                return
            except Exception as error:  # whatever it is, orders wait here for somebody to come back
                attempts += 1
                self.trouble = self._told(error, attempts)
                self._stopped.wait(backoff_s(attempts))
                continue
            self.trouble = None
            return

    def _told(self, error: Exception, attempts: int) -> Parked:
        if isinstance(error, LockgateError):
            return Parked(str(error), error.hint, attempts)
        Lines("lockgate.feed", feed=self._feed).bug("the feed could not be opened")
        return Parked(f"{type(error).__name__} when it was opened", "see the node's log", attempts)

    def _begin(self, context: FeedContext) -> None:
        with self._lock:
            self._context = context
            if self._stopped.is_set():
                return
            try:
                self.engine = FeedEngine(context, self._post)
            except BaseException:
                context.close()
                self._context = None
                raise
            for order in self._waiting:
                self.engine.order(order)
            self._waiting.clear()

    def _fail(self, error: LockgateError) -> None:
        """Nobody knows the feed: whatever was asked for it cannot be. One who starts it later, when
        it may be known, finds a new door."""
        self._failed = True
        trouble = Trouble(told(error), retryable=False)
        while not self._stopped.is_set():
            with self._lock:
                orders, self._waiting = self._waiting, []
            for order in orders:
                if isinstance(order, StartDispatcher):
                    span, token = order.spec.id, order.token
                    self._post(DispatcherFailed(self._feed, span, token, trouble))
                elif isinstance(order, StopDispatcher):
                    self._post(DispatcherStopped(self._feed, order.span, order.token))
            self._stopped.wait(backoff_s(1))


class SinkCloser:
    """`core.ports.SinkFence`, for real: closes a feed at its target."""

    def __init__(
        self,
        gate_of: Callable[[FeedId], AbstractContextManager[Gate]],
        give_up: Callable[[FeedId, LockgateError], bool] = lambda *_: False,
    ) -> None:
        """`give_up` says whether a target that cannot be reached, or a table of it that is damaged,
        needs no closing any more."""
        self._gate_of = gate_of
        self._give_up = give_up

    def close(self, instruction: CloseSink) -> SinkEvent:
        """Void the feed's tokens, or forget the feed, under the given token."""
        feed, token = instruction.feed, instruction.token
        give_up = partial(self._give_up, feed)
        try:
            with self._gate_of(feed) as gate:
                closed = gate.close(token, forget=instruction.forget, give_up=give_up)
        except LockgateError as error:
            return self._failed(feed, token, error)
        if closed:
            return SinkClosed(feed, token)
        return SinkCloseFailed(feed, token, "a newer owner is there")

    def _failed(self, feed: FeedId, token: Token, error: LockgateError) -> SinkEvent:
        try:
            if self._give_up(feed, error):
                return SinkClosed(feed, token)
        except LockgateError as another:
            return SinkCloseFailed(feed, token, str(another))
        return SinkCloseFailed(feed, token, str(error))
