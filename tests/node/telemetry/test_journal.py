"""Of all that passes through a node's process the journal tells what matters: a real metastore."""

import contextlib
import itertools
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lockgate.model.batch import Batch, LeaseLost, Renewed, RenewFailed
from lockgate.model.config import CoreConfig, Timing
from lockgate.model.events import (
    CreateFeed,
    DispatcherFailed,
    DispatcherRefused,
    DispatcherStarted,
    DispatcherStopped,
    SinkClosed,
    SinkEvent,
)
from lockgate.model.feeds import FeedSpec, Trouble
from lockgate.model.ids import Millis, NodeId, NodeRef, Token
from lockgate.model.instructions import Answer, CloseSink, StartDispatcher, StopDispatcher
from lockgate.model.messages import Stale
from lockgate.model.records import Scope
from lockgate.node.process import Loopback, NodeProcess
from lockgate.node.telemetry.feed import FeedWatches
from lockgate.node.telemetry.lines import Line
from lockgate.node.telemetry.watch import ProcessWatch
from lockgate.store.metastore import SqlMetastore
from tests.support.waiting import until

CONFIG = CoreConfig(Timing(tick_ms=20, renew_ms=100, lease_ms=1_500, resend_ms=50))
WAIT_S = 60.0


class Heard(logging.Handler):
    """The lines of the node."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, Line]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.msg, Line):
            self.lines.append((record.levelname, record.msg))

    def about(self, event: str) -> list[dict[str, Any]]:
        return [line.fields for _, line in list(self.lines) if line.event == event]

    def wait(self, event: str) -> dict[str, Any]:
        """The first line about this, as soon as there is one."""
        return until(lambda: self.about(event), WAIT_S)[0]


class Moody:
    """A real metastore that may be told to fail."""

    def __init__(self, real: SqlMetastore) -> None:
        self._real = real
        self.away = threading.Event()

    def join(self, node: NodeId, asked_at: Millis) -> Any:
        return self._real.join(node, asked_at)

    def renew(self, ref: NodeRef, asked_at: Millis) -> Renewed | RenewFailed | LeaseLost:
        if self.away.is_set():
            return RenewFailed(ref, "nobody is at home")
        return self._real.renew(ref, asked_at)

    def commit(self, batch: Batch) -> Any:
        return self._real.commit(batch)

    def load(self, scope: Scope) -> Any:
        return self._real.load(scope)


class Obedient:
    """An executor that says yes."""

    def __init__(self, process: NodeProcess) -> None:
        self._process = process

    def carry_out(self, order: object) -> None:
        if isinstance(order, StartDispatcher):
            started = DispatcherStarted(order.feed, order.spec.id, order.token, 10)
            self._process.post(started)
        elif isinstance(order, StopDispatcher):
            self._process.post(DispatcherStopped(order.feed, order.span, order.token))

    def stop_everything(self) -> None:
        """Nothing runs."""


class Watched:
    """A lone node with a journal."""

    def __init__(self, home: Path) -> None:
        self._real = SqlMetastore.open(f"sqlite:///{home}/metastore.db", lease_ms=1_500)
        self.metastore = Moody(self._real)
        self.feeds = FeedWatches("one")
        self.watch = ProcessWatch("one", self.feeds)
        self.answers: list[Answer] = []
        self.process = NodeProcess(
            "one",
            CONFIG,
            self.metastore,
            Loopback,
            Obedient,
            _Sink(),
            self.answers.append,
            self.watch,
        )

    def own(self, feed: str) -> None:
        """Have it own a feed of one table."""
        spec = FeedSpec(5, ("public.a",))
        numbers = itertools.count()

        def created() -> bool:
            self.process.post(CreateFeed(f"r{next(numbers)}", feed, spec))
            return any(not answer.code for answer in self.answers)

        until(created, WAIT_S, every_s=0.1)

    def close(self) -> None:
        self.process.stop()
        self._real.close()


class _Sink:
    def close(self, instruction: CloseSink) -> SinkEvent:
        return SinkClosed(instruction.feed, instruction.token)


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler, logger = Heard(), logging.getLogger("lockgate")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture
def node(tmp_path: Path, heard: Heard) -> Iterator[Watched]:
    with contextlib.closing(Watched(tmp_path)) as node:
        node.process.start()
        yield node


def test_a_node_joins_is_elected_and_owns_a_feed(node: Watched, heard: Heard) -> None:
    node.own("shop")
    heard.wait("the feed runs")
    started = heard.wait("dispatchers started")
    assert heard.wait("joined the cluster") == {
        "node": "one",
        "incarnation": 1,
        "next": "it takes work from the coordinator, or is elected",
    }
    assert heard.wait("elected coordinator")["term"] == 1
    assert heard.wait("owns the feed")["epoch"] == 1
    assert started["feed"] == "shop"


def test_a_lost_lease_is_told_with_its_reason_and_so_is_the_next_life(
    node: Watched, heard: Heard
) -> None:
    heard.wait("elected coordinator")
    node.metastore.away.set()
    lost = heard.wait("the lease is lost, and all work here was stopped")
    node.metastore.away.clear()
    assert lost["incarnation"] == 1
    assert lost["why"] == "it was not renewed in time: nobody is at home"
    assert heard.wait("the metastore does not do what it is asked")["verb"] == "renew"
    assert heard.wait("deposed as coordinator")["why"] == "the lease is lost"
    until(lambda: len(heard.about("joined the cluster")) == 2, WAIT_S)
    heard.wait("the metastore answers again")
    assert [line["incarnation"] for line in heard.about("joined the cluster")] == [1, 2]
    # Told once, however often it was asked; one that was asked before it came back may be late.
    events = [line.event for _, line in heard.lines]
    before = events[: events.index("the metastore answers again")]
    assert before.count("the metastore does not do what it is asked") == 1


def test_many_dispatchers_are_one_line_that_names_a_few(node: Watched, heard: Heard) -> None:
    heard.wait("joined the cluster")
    for number in range(40):
        span, token = f"1-{number}", Token(1, number, 1)
        node.process.post(DispatcherRefused("shop", span, token, "newer"))
    line = heard.wait("dispatchers refused")
    assert sum(each["count"] for each in heard.about("dispatchers refused")) == 40
    assert line["spans"][:2] == ["1-0", "1-1"]
    assert line["spans"][-1] == "…"
    assert len(line["spans"]) == 6


def test_a_dispatcher_that_failed_is_told_with_what_to_do(node: Watched, heard: Heard) -> None:
    heard.wait("joined the cluster")
    trouble = Trouble("the slot is lost (shop)\nhint: create the feed anew", retryable=False)
    node.process.post(DispatcherFailed("shop", "trigger", Token(3, 1, 1), trouble))
    line = heard.wait("a dispatcher failed")
    assert (line["why"], line["next"]) == ("the slot is lost (shop)", "create the feed anew")
    assert (line["epoch"], line["span"]) == (3, "trigger")


def test_fenced_ones_are_counted_by_kind(node: Watched, heard: Heard) -> None:
    ref = NodeRef("two", 1)
    heard.wait("joined the cluster")
    node.process.post(DispatcherRefused("shop", "1-1", Token(1, 1, 1), "newer"))
    node.process.post(Stale("shop", 1, ref, 2))
    until(lambda: len(node.feeds.of("shop").fenced.snapshot()) == 2, WAIT_S)
    assert node.feeds.of("shop").fenced.snapshot() == {"dispatcher": 1, "owner": 1}


def test_a_journal_that_breaks_is_told_of_once_and_hinders_nobody(
    node: Watched, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(node.watch._journal, "handled", broken)
    heard.wait("the watch on the node broke")
    node.own("shop")
    assert len(heard.about("the watch on the node broke")) == 1
