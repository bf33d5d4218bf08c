"""A node's process drives the core: a lone node becomes coordinator and runs a feed."""

import queue
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockgate.core.node import NodeCore
from lockgate.model.config import CoreConfig, Timing
from lockgate.model.errors import Transient
from lockgate.model.events import (
    CreateFeed,
    DispatcherAdvanced,
    DispatcherStarted,
    DispatcherStopped,
    Event,
    RemoveFeed,
    SinkClosed,
    SinkEvent,
    Tick,
)
from lockgate.model.feeds import FeedSpec
from lockgate.model.instructions import (
    Answer,
    CloseSink,
    Instruction,
    StartDispatcher,
    StopDispatcher,
)
from lockgate.node.process import Loopback, NodeProcess
from lockgate.store.metastore import SqlMetastore
from tests.support.waiting import until

CONFIG = CoreConfig(Timing(tick_ms=20, renew_ms=100, lease_ms=2_000, resend_ms=50))


class Obedient:
    """An executor and sink that say yes to everything."""

    def __init__(self, process: NodeProcess) -> None:
        self._process = process
        self.started: list[str] = []
        self.stopped_everything = False

    def carry_out(self, order: object) -> None:
        if isinstance(order, StartDispatcher):
            self.started.append(order.spec.id)
            feed, span, token = order.feed, order.spec.id, order.token
            self._process.post(DispatcherStarted(feed, span, token, 10))
            self._process.post(DispatcherAdvanced(feed, span, token, 20))
        elif isinstance(order, StopDispatcher):
            self._process.post(DispatcherStopped(order.feed, order.span, order.token))

    def stop_everything(self) -> None:
        self.stopped_everything = True


class OpenSink:
    def close(self, instruction: CloseSink) -> SinkEvent:
        return SinkClosed(instruction.feed, instruction.token)


class Lone:
    def __init__(self, home: Path) -> None:
        self.answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self.metastore = SqlMetastore.open(f"sqlite:///{home}/metastore.db", lease_ms=2_000)
        self.executors: list[Obedient] = []
        self.process = NodeProcess(
            "local",
            CONFIG,
            self.metastore,
            Loopback,
            self._executor,
            OpenSink(),
            self.answers.put,
        )
        self.process.start()

    def _executor(self, process: NodeProcess) -> Obedient:
        self.executors.append(Obedient(process))
        return self.executors[0]

    def close(self) -> None:
        self.process.stop()
        self.metastore.close()

    def ask(self, verb: CreateFeed | RemoveFeed) -> Answer:
        """Until there is a coordinator to answer."""
        while True:
            self.process.post(verb)
            answer = self.answers.get(timeout=10)
            if answer.code not in {"not-coordinator", "coordinator-starting"}:
                return answer


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[Lone]:
    node = Lone(tmp_path)
    yield node
    node.close()


def test_a_lone_node_runs_a_feed(lone: Lone) -> None:
    assert lone.ask(CreateFeed("r1", "orders", FeedSpec(9, ("t", "u")))).code == ""
    until(lambda: len(lone.executors[0].started) == 3)
    assert lone.executors[0].started[0] == "trigger"


def test_a_removed_feed_is_stopped(lone: Lone) -> None:
    lone.ask(CreateFeed("r1", "orders", FeedSpec(9, ("t",))))
    until(lambda: len(lone.executors[0].started) == 2)
    assert lone.ask(RemoveFeed("r2", "orders")).code == ""


def test_stopping_the_process_stops_every_dispatcher(tmp_path: Path) -> None:
    lone = Lone(tmp_path)
    lone.close()
    assert lone.executors[0].stopped_everything
    assert lone.process.failure is None


def test_ticks_that_take_longer_than_their_pause_leave_time_for_everything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = NodeCore.handle

    def slow(self: NodeCore, now: int, event: Event) -> list[Instruction]:
        if isinstance(event, Tick):
            time.sleep(3 * CONFIG.timing.tick_ms / 1000)
        return handle(self, now, event)

    monkeypatch.setattr(NodeCore, "handle", slow)
    lone = Lone(tmp_path)
    for _ in range(10):
        assert lone.process.look(lambda core: core.node, 5.0) == "local"
    lone.close()


def test_a_core_that_is_too_busy_to_be_seen_is_asked_again_later(lone: Lone) -> None:
    go = threading.Event()
    busy = threading.Thread(target=lone.process.look, args=(lambda _: go.wait(60), 60.0))
    busy.start()
    try:
        with pytest.raises(Transient, match="does not show itself"):
            lone.process.look(lambda core: core.node, 0.1)
    finally:
        go.set()
        busy.join()
    assert lone.process.look(lambda core: core.node) == "local"
