"""The executor of a node: an engine for each feed that has dispatchers here."""

import threading
from collections.abc import Callable

from lockgate.model.errors import LockgateError
from lockgate.model.events import DispatcherEvent, SinkClosed, SinkCloseFailed, SinkEvent
from lockgate.model.ids import FeedId
from lockgate.model.instructions import CloseSink
from lockgate.node.feed.context import FeedContext
from lockgate.node.feed.engine import FeedEngine, Order

ContextOf = Callable[[FeedId], FeedContext]

JOIN_S = 20.0


class FeedExecutor:
    """`core.ports.Executor`, for real. Orders are handed on and never waited for."""

    def __init__(self, context_of: ContextOf, post: Callable[[DispatcherEvent], None]) -> None:
        self._context_of = context_of
        self._post = post
        self._engines: dict[FeedId, FeedEngine] = {}
        self._ended: list[FeedEngine] = []
        self._lock = threading.Lock()

    def carry_out(self, instruction: Order) -> None:
        """Begin what the instruction asks; events follow."""
        self._engine(instruction.feed).order(instruction)

    def stop_everything(self) -> None:
        """Stop all dispatchers of this node at once; no event follows."""
        with self._lock:
            engines = list(self._engines.values())
            self._engines.clear()
            self._ended += engines
        for engine in engines:
            engine.stop_everything()

    def join(self) -> None:
        """Wait until nothing runs any more. Not for the core's thread: it never waits."""
        while self._ended:
            self._ended.pop().join(JOIN_S)

    def engine(self, feed: FeedId) -> FeedEngine | None:
        """The engine of a feed, for a look."""
        return self._engines.get(feed)

    def _engine(self, feed: FeedId) -> FeedEngine:
        with self._lock:
            found = self._engines.get(feed)
            if found is None:
                found = FeedEngine(self._context_of(feed), self._post)
                self._engines[feed] = found
            return found


class SinkCloser:
    """`core.ports.SinkFence`, for real: closes a feed at its target."""

    def __init__(self, context_of: ContextOf) -> None:
        self._context_of = context_of

    def close(self, instruction: CloseSink) -> SinkEvent:
        """Void the feed's tokens, or forget the feed, under the given token."""
        feed, token = instruction.feed, instruction.token
        try:
            closed = self._context_of(feed).sink.close(feed, token, instruction.forget)
        except LockgateError as error:
            return SinkCloseFailed(feed, token, str(error))
        if closed:
            return SinkClosed(feed, token)
        return SinkCloseFailed(feed, token, "a newer owner is there")
