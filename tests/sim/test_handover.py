"""Who may be given a span while its former dispatcher still runs."""

from types import SimpleNamespace
from typing import Any

import pytest

from lockgate.core.maintainer.nodes import NodeState, NodeTable
from lockgate.model.batch import Batch, Member
from lockgate.model.ids import NodeRef, Token
from lockgate.model.instructions import StartDispatcher
from lockgate.model.messages import Requests
from lockgate.model.records import RecordKey, SpanRecord
from lockgate.model.requests import Create
from lockgate.model.statuses import Phase
from lockgate.sim.dispatcher import Dispatcher
from lockgate.sim.handover import Handover
from lockgate.sim.violation import Law, LawBroken
from tests.sim.place import FEED, A, Place, token

N1, N2 = NodeRef("n1", 1), NodeRef("n2", 1)


class Stage:
    """`a` runs on n1 under 1.1.1, and its owner has settled with both nodes ready."""

    def __init__(self, epoch: int = 1) -> None:
        self.running: dict[Any, Dispatcher] = {}
        self.handover = Handover(lambda: [("n1", self.running)])
        start = StartDispatcher(FEED, A, token(1, 1))
        self.running[FEED, "a"] = Dispatcher(start, Place().source)
        self.epoch = epoch
        self.nodes = NodeTable()
        self.place(N1, token(1, 1), at=10)

    def see(self, now: int, *ready: NodeRef) -> None:
        self.nodes.update((Member(N1), Member(N2)), now)
        for view in self.nodes.all():
            view.state = NodeState.READY if view.ref in ready else NodeState.ASKED
        owner: Any = SimpleNamespace(
            feed=FEED, epoch=self.epoch, state=Phase.RUNNING, nodes=self.nodes
        )
        self.handover.looked(now, [owner])

    def place(self, node: NodeRef, by: Token, at: int) -> None:
        record = SpanRecord(A, node, by)
        self.handover.landed(at, Batch(f"feed:{FEED}", 1, 1, (record,)))

    def ask(self, by: Token) -> None:
        self.handover.sent(Requests(FEED, self.epoch, N2, 1, (Create(A, by),)))


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_span_that_still_runs_elsewhere(epoch: int) -> None:
    stage = Stage(epoch)
    stage.see(20, N1, N2)
    stage.place(N2, token(epoch, 2), at=30)
    with pytest.raises(LawBroken, match="n1/1 still runs it") as error:
        stage.ask(token(epoch, 2))
    assert error.value.law is Law.DRAIN


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_span_that_has_stopped(epoch: int) -> None:
    stage = Stage(epoch)
    stage.see(20, N1, N2)
    stage.place(N2, token(epoch, 2), at=30)
    stage.running.clear()
    stage.ask(token(epoch, 2))


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_span_on_a_node_that_is_lost_to_the_owner(epoch: int) -> None:
    stage = Stage(epoch)
    stage.see(20, N1, N2)
    stage.see(25, N2)
    stage.place(N2, token(epoch, 2), at=30)
    stage.see(35, N1, N2)  # It is back: what it runs is an orphan by now.
    stage.ask(token(epoch, 2))


def test_a_span_on_a_node_that_answered_its_new_owner_too_late() -> None:
    stage = Stage(epoch=2)
    stage.see(20, N2)
    stage.see(25, N1, N2)
    stage.place(N2, token(2, 2), at=30)
    stage.ask(token(2, 2))


def test_a_span_that_is_asked_for_again() -> None:
    stage = Stage()
    stage.see(20, N1, N2)
    stage.place(N1, token(1, 1), at=30)
    stage.ask(token(1, 1))


def test_a_span_of_a_name_that_was_dropped_has_no_past() -> None:
    stage = Stage()
    stage.see(20, N1, N2)
    stage.handover.landed(30, Batch(f"feed:{FEED}", 1, 1, (), (RecordKey("span", "a"),)))
    stage.place(N2, token(1, 2), at=40)
    stage.ask(token(1, 2))
