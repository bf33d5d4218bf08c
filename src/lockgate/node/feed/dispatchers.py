"""The dispatchers of one feed on this node, and the ways in which one stops going on.

park      not now: it tries again later, and the status says why
doubt     the same, and what it was about may have landed: it claims before it tries again
refuse    the sink has a newer owner for it: it ends
fail      nothing that we could do helps: it ends, and the feed fails
"""

import time
from collections.abc import Callable, Iterable, Iterator

from lockgate.model.apply import ApplyError
from lockgate.model.errors import LockgateError, StaleOwner, Transient
from lockgate.model.events import DispatcherEvent, DispatcherFailed, DispatcherRefused
from lockgate.model.feeds import Trouble
from lockgate.model.floors import Refusal
from lockgate.model.ids import FeedId, SpanId
from lockgate.node.feed.running import Parked, Running, backoff_s, told

__all__ = ["Dispatchers"]


class Dispatchers:
    """By span. One thread changes them; others may look."""

    def __init__(
        self,
        feed: FeedId,
        post: Callable[[DispatcherEvent], None],
        ended: Callable[[Running], None],
        put_off: Callable[[int, BaseException | ApplyError], None] = lambda _count, _error: None,
    ) -> None:
        """`ended` is told of each that does not go on, before it is posted; `put_off` of how many
        are parked for the same reason."""
        self._feed = feed
        self._post = post
        self._ended = ended
        self._put_off = put_off
        self._running: dict[SpanId, Running] = {}

    def __iter__(self) -> Iterator[Running]:
        return iter(list(self._running.values()))

    def __len__(self) -> int:
        return len(self._running)

    def get(self, span: SpanId) -> Running | None:
        return self._running.get(span)

    def add(self, one: Running) -> None:
        """It takes the place of a former one of its span."""
        self._running[one.span] = one

    def end(self, one: Running) -> None:
        """It does nothing any more."""
        one.ended = True
        if self._running.get(one.span) is one:
            del self._running[one.span]
        self._ended(one)

    def refuse(self, one: Running, refusal: Refusal) -> None:
        self.end(one)
        self._post(DispatcherRefused(self._feed, one.span, one.token, refusal.value))

    def fail(self, one: Running, error: LockgateError) -> None:
        self.end(one)
        trouble = Trouble(told(error), retryable=isinstance(error, Transient), span=one.span)
        self._post(DispatcherFailed(self._feed, one.span, one.token, trouble))

    def doubt(self, these: Iterable[Running], error: BaseException | ApplyError) -> None:
        """Something of theirs broke off, and may have landed all the same.

        Tried again from where they stood, a batch would be refused by the fence; but its files may
        be gone by then, for it is the sink that says what is still needed.
        """
        these = list(these)
        for one in these:
            one.in_doubt = one.floors is not None
        self.park(these, error)

    def park(self, these: Iterable[Running], error: BaseException | ApplyError) -> None:
        if isinstance(error, StaleOwner) or getattr(error, "code", "") == StaleOwner.code:
            for one in list(these):
                self.refuse(one, Refusal.NEWER)
            return
        these = list(these)
        self._put_off(len(these), error)
        now_s = time.monotonic()
        for one in these:
            attempts = 1 if one.parked is None else one.parked.attempts + 1
            wait_s = backoff_s(attempts)
            since_s = now_s if one.parked is None else one.parked.since_s
            hint = getattr(error, "hint", "")
            one.parked = Parked(str(error), hint, attempts, now_s + wait_s, since_s)
