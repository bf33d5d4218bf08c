"""A feed's door: whatever goes wrong when it is opened, it opens once that is over."""

import threading
from typing import Any, cast

import pytest

from lockgate.model.errors import ObjectMissing
from lockgate.model.events import DispatcherEvent, DispatcherFailed
from lockgate.model.ids import Token
from lockgate.model.instructions import StartDispatcher
from lockgate.model.spans import SpanSpec
from lockgate.node import executor
from lockgate.node.executor import FeedExecutor
from lockgate.node.feed.context import FeedContext
from tests.support.waiting import until


class Engine:
    """Takes orders and keeps them."""

    made: list["Engine"]

    def __init__(self, _context: object, _post: object) -> None:
        self.orders: list[object] = []
        self.made.append(self)

    @property
    def empty(self) -> bool:
        return not self.orders

    def order(self, order: object) -> None:
        self.orders.append(order)

    def stop_everything(self) -> None: ...

    def join(self, _timeout_s: float) -> None: ...


class Context:
    closed = 0

    def close(self) -> None:
        type(self).closed += 1


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch) -> list[Engine]:
    made: list[Engine] = []
    monkeypatch.setattr(Engine, "made", made, raising=False)
    monkeypatch.setattr(executor, "FeedEngine", Engine)
    return made


def _start(seq: int) -> StartDispatcher:
    return StartDispatcher("shop", SpanSpec(f"1-{seq}", "public.t"), Token(1, seq, 1))


class Opening:
    """Raises what it is told to, in turn; then opens."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.asked = 0

    def __call__(self, _feed: str) -> FeedContext:
        self.asked += 1
        if self._errors:
            raise self._errors.pop(0)
        return cast("Any", Context())


def test_a_bug_when_it_is_opened_is_shown_and_tried_again(engines: list[Engine]) -> None:
    opening = Opening(ZeroDivisionError("division by zero"))
    seen = threading.Event()
    feeds = FeedExecutor(opening, lambda _: None)
    feeds.carry_out(_start(1))

    def shown() -> bool:
        trouble = feeds.troubles().get("shop")
        if trouble is not None and "ZeroDivisionError" in trouble.what:
            seen.set()
        return bool(engines)

    until(shown)
    until(lambda: engines[0].orders == [_start(1)])
    assert seen.is_set()
    assert feeds.troubles() == {}
    feeds.stop_everything()
    feeds.join()


def test_a_feed_that_was_not_known_is_opened_when_it_is_started_again(
    engines: list[Engine],
) -> None:
    posted: list[DispatcherEvent] = []
    feeds = FeedExecutor(Opening(ObjectMissing("who?", object_="shop", hint="")), posted.append)
    feeds.carry_out(_start(1))
    until(lambda: posted)
    assert isinstance(posted[0], DispatcherFailed)
    until(lambda: feeds.carry_out(_start(2)) or engines)
    until(lambda: _start(2) in engines[0].orders)
    feeds.stop_everything()
    feeds.join()


def test_an_engine_that_cannot_be_made_leaves_no_context_open(
    engines: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Context.closed
    left = [RuntimeError("can't start new thread")]

    def make(context: object, post: object) -> Engine:
        if left:
            raise left.pop()
        return Engine(context, post)

    monkeypatch.setattr(executor, "FeedEngine", make)
    feeds = FeedExecutor(Opening(), lambda _: None)
    feeds.carry_out(_start(1))
    until(lambda: engines)
    assert Context.closed == before + 1
    feeds.stop_everything()
    feeds.join()
