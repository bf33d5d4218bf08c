"""What a node may not say or start, seen from outside."""

from dataclasses import dataclass, field

import pytest

from lockgate.core.maintainer.maintainer import Maintainer
from lockgate.model.batch import Batch, Raise
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.feeds import FeedSpec, FeedState, Goal
from lockgate.model.ids import NodeRef, Token
from lockgate.model.instructions import Commit, Send, StartDispatcher, StopDispatcher
from lockgate.model.messages import (
    Bootstrap,
    BootstrapReply,
    Close,
    CloseReply,
    Heartbeat,
    NodeReport,
    Requests,
    Stale,
    StartMaintainer,
)
from lockgate.model.records import (
    COORDINATOR,
    BarrierRecord,
    DrainRecord,
    DrainState,
    FeedRecord,
    FenceRecord,
    JournalRecord,
    OperatorKind,
    OperatorRecord,
    Record,
    SpanRecord,
)
from lockgate.model.requests import Create, Hold, Pass, Remove, Request, Write
from lockgate.model.statuses import DispatcherStatus, Stage
from lockgate.sim.dispatcher import Dispatcher
from lockgate.sim.durable import Durable
from lockgate.sim.executor import Executor
from lockgate.sim.orders import Orders
from lockgate.sim.violation import Law, LawBroken
from tests.sim.place import FEED, A, Place, token

OWNER = NodeRef("n1", 1)
ALTER = Ddl(3, DdlKind.ALTER, ("t00",))


def broken(law: Law, what: str) -> pytest.RaisesExc[LawBroken]:
    return pytest.RaisesExc(LawBroken, match=what, check=lambda error: error.law is law)


@dataclass
class Node:
    """As much of a node as is looked at; its lease runs until 100."""

    id: str
    executor: Executor
    deadlines: dict[int, int] = field(default_factory=lambda: {1: 100})
    acting: int = 0
    serving: int = 1
    maintainers: list[Maintainer] = field(default_factory=list)
    replaced: bool = False
    now: int = 0

    def clock(self) -> int:
        return self.now


class Scene:
    """Epoch 1 of the feed is owned by n1/1, which is fenced so at n1; `a` is placed there."""

    def __init__(self) -> None:
        self.place = Place()
        self.durable = Durable(self.place.sink)
        self.orders = Orders(self.durable, self.place.sink)
        executor = object.__new__(Executor)
        executor.running = {}
        self.node = Node("n1", executor)
        record = FeedRecord(FEED, FeedState.NORMAL, Goal.RUN, 1, OWNER, FeedSpec())
        raised = (Raise(f"feed:{FEED}", 0, 1),)
        self.durable.landed(0, Batch(COORDINATOR, 1, 1, (record,), raises=raised))
        self.feed(SpanRecord(A, OWNER, token(1, 2)))
        self.local(FenceRecord(FEED, OWNER, 1))

    def feed(self, *records: Record) -> None:
        self.durable.landed(0, Batch(f"feed:{FEED}", 1, 1, records))

    def local(self, *records: Record) -> None:
        self.durable.landed(0, Batch("node:n1", 1, 1, records))

    def ask(self, *items: Request, epoch: int = 1, owner: NodeRef = OWNER) -> None:
        self.orders.sent(self.node, Requests(FEED, epoch, owner, 1, items))

    def start(self, by: Token) -> None:
        self.orders.started(self.node, StartDispatcher(FEED, A, by))

    def asked_and_noted(self, by: Token) -> None:
        self.feed(SpanRecord(A, OWNER, by))
        self.ask(Create(A, by))
        self.local(JournalRecord(FEED, A, by))

    def runs(self, by: Token) -> None:
        dispatcher = Dispatcher(StartDispatcher(FEED, A, by), self.place.source)
        self.node.executor.running[FEED, "a"] = dispatcher

    def say(self, status: DispatcherStatus) -> None:
        beat = Heartbeat(FEED, 1, OWNER, beat=1, full=True, statuses=(status,))
        self.orders.sent(self.node, beat)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_an_honest_start(scene: Scene) -> None:
    scene.asked_and_noted(token(1, 2))
    scene.start(token(1, 2))


def test_speaking_for_an_epoch_of_somebody_else(scene: Scene) -> None:
    with broken(Law.FENCE, "is n1/1's"):
        scene.orders.sent(scene.node, Bootstrap(FEED, 1, NodeRef("n1", 2)))


def test_speaking_after_the_lease(scene: Scene) -> None:
    scene.node.now = 100
    with broken(Law.FENCE, "its lease ended at 100"):
        scene.orders.sent(scene.node, Bootstrap(FEED, 1, OWNER))


def test_a_create_before_its_record(scene: Scene) -> None:
    with broken(Law.RECORD, "1.9.1 was sent before"):
        scene.ask(Create(A, token(1, 9)))


def test_an_operation_under_a_token_of_another_epoch(scene: Scene) -> None:
    with broken(Law.FENCE, "somebody else's token"):
        scene.ask(Remove("a", token(2, 1)))


def test_a_hold_before_its_operators_record(scene: Scene) -> None:
    hold = Hold("a", token(1, 2), "o")
    with broken(Law.RECORD, "operator o acts"):
        scene.ask(hold)
    scene.feed(OperatorRecord("o", OperatorKind.MERGE, ("a",), token(1, 3)))
    scene.ask(hold)


def test_a_write_before_its_barriers_record(scene: Scene) -> None:
    with broken(Law.RECORD, "to be written before"):
        scene.ask(Write("trigger", token(1, 1), ALTER))


def test_a_write_while_somebody_is_behind(scene: Scene) -> None:
    scene.feed(BarrierRecord(ALTER))
    with broken(Law.DRAIN, "while a is at 0"):
        scene.ask(Write("trigger", token(1, 1), ALTER))


def test_a_pass_before_the_barrier_is_over(scene: Scene) -> None:
    scene.feed(BarrierRecord(ALTER))
    with broken(Law.RECORD, "let past 3"):
        scene.ask(Pass("a", token(1, 2), 3))


def test_an_owner_told_before_its_epoch_is_durable(scene: Scene) -> None:
    start = StartMaintainer(1, NodeRef("n2", 1), FEED, 2, Goal.RUN, FeedSpec())
    with broken(Law.RECORD, "told of epoch 2"):
        scene.orders.sent(scene.node, start)


def test_a_bootstrap_answered_before_the_fence_is_durable(scene: Scene) -> None:
    with broken(Law.RECORD, "answers the bootstrap of 2"):
        scene.orders.sent(scene.node, BootstrapReply(FEED, 2, OWNER, ()))


def test_a_close_answered_before_the_tombstone_is_durable(scene: Scene) -> None:
    with broken(Law.RECORD, "answers the close of 1"):
        scene.orders.sent(scene.node, CloseReply(FEED, 1, OWNER))


def test_a_close_answered_while_something_runs(scene: Scene) -> None:
    scene.local(FenceRecord(FEED, OWNER, 1, closed=True))
    scene.runs(token(1, 2))
    with broken(Law.DRAIN, "and a runs"):
        scene.orders.sent(scene.node, CloseReply(FEED, 1, OWNER))


def test_gone_while_it_runs(scene: Scene) -> None:
    scene.runs(token(1, 2))
    with broken(Law.DRAIN, "it runs under 1.2.1"):
        scene.say(DispatcherStatus("a", token(1, 3), Stage.GONE))


def test_a_start_before_the_journal(scene: Scene) -> None:
    scene.ask(Create(A, token(1, 2)))
    with broken(Law.RECORD, "before the journal has it"):
        scene.start(token(1, 2))


def test_a_start_after_it_was_declared_gone(scene: Scene) -> None:
    scene.asked_and_noted(token(1, 2))
    scene.say(DispatcherStatus("a", token(1, 3), Stage.GONE))
    with broken(Law.FENCE, "after 1.3.1 was obeyed"):
        scene.start(token(1, 2))


def test_a_start_of_another_life(scene: Scene) -> None:
    by = Token(1, 2, 7)
    scene.asked_and_noted(by)
    with broken(Law.FENCE, "n1/7 acts"):
        scene.start(by)


def test_a_start_beside_a_running_one(scene: Scene) -> None:
    scene.asked_and_noted(token(1, 3))
    scene.runs(token(1, 2))
    with broken(Law.DRAIN, "beside 1.2.1"):
        scene.start(token(1, 3))


def test_a_start_behind_the_fence(scene: Scene) -> None:
    scene.asked_and_noted(token(1, 2))
    scene.local(FenceRecord(FEED, NodeRef("n2", 1), 2))
    with broken(Law.FENCE, "the fence is at 2"):
        scene.start(token(1, 2))


def test_a_start_of_a_closed_feed(scene: Scene) -> None:
    scene.asked_and_noted(token(1, 2))
    scene.local(FenceRecord(FEED, OWNER, 1, closed=True))
    with broken(Law.DRAIN, "after its feed was closed"):
        scene.start(token(1, 2))


def test_a_start_that_nobody_asked_for(scene: Scene) -> None:
    scene.local(JournalRecord(FEED, A, token(1, 2)))
    with broken(Law.FENCE, "issued by None"):
        scene.start(token(1, 2))


def test_a_start_for_an_unfenced_owner_after_a_fenced_one(scene: Scene) -> None:
    scene.local(JournalRecord(FEED, A, token(0, 2)))
    with broken(Law.FENCE, "unfenced owner"):
        scene.start(token(0, 2))


def test_an_order_of_a_stale_owner_that_has_an_effect(scene: Scene) -> None:
    scene.local(FenceRecord(FEED, NodeRef("n2", 1), 2))
    order = Requests(FEED, 1, OWNER, 1, (Remove("a", token(1, 9)),))
    scene.orders.obeyed(scene.node, order, [])
    with broken(Law.FENCE, "obeys"):
        scene.orders.obeyed(scene.node, order, [StopDispatcher(FEED, "a", token(1, 2))])


def test_a_report_counts_as_empty_only_while_nothing_runs(scene: Scene) -> None:
    scene.durable.landed(0, Batch(COORDINATOR, 1, 1, (DrainRecord(OWNER),)))
    done = Batch(COORDINATOR, 1, 2, (DrainRecord(OWNER, DrainState.DRAINED),))
    scene.runs(token(1, 2))
    scene.orders.sent(scene.node, NodeReport(OWNER, 1, 1, (), 0))
    with broken(Law.DRAIN, "never seen empty"):
        scene.durable.landed(0, done)
    scene.node.executor.running.clear()
    scene.orders.sent(scene.node, NodeReport(OWNER, 1, 2, (), 0))
    scene.durable.landed(0, done)


def test_a_stale_order_that_is_not_answered(scene: Scene) -> None:
    scene.durable.joined(OWNER)
    scene.local(FenceRecord(FEED, NodeRef("n2", 1), 2))
    order = Requests(FEED, 1, OWNER, 1, ())
    scene.orders.obeyed(scene.node, order, [Send("n1", Stale(FEED, 1, OWNER, 2))])
    with broken(Law.FENCE, "does not tell"):
        scene.orders.obeyed(scene.node, order, [])
    scene.node.serving = 0
    scene.orders.obeyed(scene.node, order, [])


def test_a_bootstrap_that_re_opens_a_tombstone(scene: Scene) -> None:
    scene.local(FenceRecord(FEED, OWNER, 1, closed=True))
    admits = Commit(Batch("node:n1", 2, 1, (FenceRecord(FEED, OWNER, 1),)))
    with broken(Law.FENCE, "obeys"):
        scene.orders.obeyed(scene.node, Bootstrap(FEED, 1, OWNER), [admits])


def test_a_tombstone_answers_everything_but_its_own_close_with_stale(scene: Scene) -> None:
    scene.durable.joined(OWNER)
    scene.local(FenceRecord(FEED, OWNER, 1, closed=True))
    scene.orders.obeyed(scene.node, Close(FEED, 1, OWNER, 1), [])
    with broken(Law.FENCE, "does not tell"):
        scene.orders.obeyed(scene.node, Bootstrap(FEED, 1, OWNER), [])
