"""A whole node: the lease before everything, lives that leave nothing behind (F10, F12)."""

from typing import Any

import pytest

from lockgate.core.node import NodeCore
from lockgate.model.batch import (
    Batch,
    Joined,
    Landed,
    Leader,
    LeaseLost,
    Loaded,
    Member,
    Renewed,
)
from lockgate.model.config import CoreConfig
from lockgate.model.events import (
    CreateFeed,
    DispatcherAdvanced,
    MembersSeen,
    MoveSpan,
    SinkClosed,
    Tick,
)
from lockgate.model.feeds import FeedSpec, Goal, Outcome
from lockgate.model.ids import Millis, NodeRef, Term, Token
from lockgate.model.instructions import (
    Answer,
    Commit,
    Instruction,
    Join,
    Load,
    Renew,
    Send,
    StopEverything,
)
from lockgate.model.messages import (
    Bootstrap,
    Heartbeat,
    NodeReport,
    Stale,
    StartMaintainer,
    StopMaintainer,
)
from lockgate.model.records import COORDINATOR, feed_scope, node_scope
from lockgate.model.statuses import MaintainerStatus, Phase

CONFIG = CoreConfig()
LEASE = CONFIG.timing.lease_ms
A1, A2, B1 = NodeRef("a", 1), NodeRef("a", 2), NodeRef("b", 1)


class FakeManager:
    """Writes down what it is told; says what the test has it say."""

    def __init__(self, config: CoreConfig, me: NodeRef) -> None:
        self.me = me
        self.told: list[Any] = []
        self.next_out: list[Instruction] = []
        self.dispatchers = 0
        self.refused = False

    def handle(self, now: Millis, event: Any) -> list[Instruction]:
        self.told.append(event)
        out, self.next_out = self.next_out, []
        return out


class FakeMaintainer:
    """As above, for a feed."""

    def __init__(self, config: CoreConfig, feed: str, epoch: int, *_: Any) -> None:
        self.feed = feed
        self.epoch = epoch
        self.told: list[Any] = []
        self.next_out: list[Instruction] = []
        self.outcome: Outcome | None = None

    def handle(self, now: Millis, event: Any) -> list[Instruction]:
        self.told.append(event)
        if isinstance(event, Stale):
            self.outcome = Outcome.STALE
        out, self.next_out = self.next_out, []
        return out

    def status(self) -> MaintainerStatus:
        return MaintainerStatus(self.feed, self.epoch, Phase.RUNNING, outcome=self.outcome)


def fake_node() -> NodeCore:
    return NodeCore(CONFIG, "a", maintainer=FakeMaintainer, manager=FakeManager)


def renewed(leader: Leader | None, at: Millis = 0, ref: NodeRef = A1) -> Renewed:
    return Renewed(ref, at, (Member(ref), Member(B1)), leader)


def start(epoch: int = 1, *, owner: NodeRef = A1, term: Term = 1) -> StartMaintainer:
    return StartMaintainer(term, owner, "f", epoch, Goal.RUN, FeedSpec())


@pytest.fixture
def node() -> NodeCore:
    """A member whose coordinator is on node b, with a maintainer of feed f."""
    node = fake_node()
    node.handle(0, Tick())
    node.handle(0, Joined(A1, 0))
    node.handle(0, renewed(Leader(B1, 1)))
    node.handle(0, start())
    return node


@pytest.fixture
def elected() -> NodeCore:
    """A member that coordinates in term 3 and has read its records."""
    node = fake_node()
    node.handle(0, Tick())
    node.handle(0, Joined(A1, 0))
    node.handle(0, renewed(Leader(A1, 3)))
    node.handle(0, Loaded(COORDINATOR, 3, 0, ()))
    return node


def manager_of(node: NodeCore) -> FakeManager:
    assert isinstance(node.manager, FakeManager)
    return node.manager


def maintainer_of(node: NodeCore) -> FakeMaintainer:
    found = node.maintainers["f"]
    assert isinstance(found, FakeMaintainer)
    return found


def term_of(node: NodeCore) -> Term | None:
    """The term that the node coordinates, if it does."""
    return None if node.coordinator is None else node.coordinator.term


def kinds(out: list[Instruction]) -> list[type]:
    return [type(instruction) for instruction in out]


def reborn(node: NodeCore, at: Millis) -> None:
    """Its life was lost; it lives again."""
    node.handle(at, LeaseLost(A1))
    node.handle(at, Joined(A2, at))


# --- the lease ----------------------------------------------------------------------------------

ANY_EVENT = [
    Tick(),
    Landed(feed_scope("f"), 1),
    start(2),
    Bootstrap("f", 1, B1),
    DispatcherAdvanced("f", "s", Token(1, 1, 1), 5),
    SinkClosed("f", Token(1, 1, 1)),
    renewed(Leader(A1, 2), 5),
    CreateFeed("r", "f", FeedSpec()),
]


@pytest.mark.parametrize("event", ANY_EVENT, ids=lambda e: type(e).__name__)
def test_whatever_wakes_a_node_past_its_lease_it_stops_everything_first(
    node: NodeCore, event: Any
) -> None:
    manager, maintainer = manager_of(node), maintainer_of(node)
    told = len(manager.told), [*maintainer.told, Stale("f", 1, A1, 2)]
    out = node.handle(LEASE, event)
    assert out[:2] == [StopEverything(A1), Join("a", LEASE)]
    assert node.ref is None
    assert node.manager is None
    assert node.maintainers == {}
    assert (len(manager.told), maintainer.told) == told
    assert not any(isinstance(i, Send | Commit) for i in out)


def test_a_node_within_its_lease_goes_on(node: NodeCore) -> None:
    assert StopEverything not in kinds(node.handle(LEASE - 1, Tick()))
    assert node.ref == A1


def test_a_lost_lease_stops_everything_at_once(node: NodeCore) -> None:
    assert node.handle(5, LeaseLost(A1)) == [StopEverything(A1), Join("a", 5)]


def test_a_refused_journal_ends_the_life_and_lets_nothing_out(node: NodeCore) -> None:
    manager = manager_of(node)
    manager.next_out = [Send("b", Heartbeat("f", 1, A1, 1, True, ()))]
    manager.refused = True
    out = node.handle(5, Landed(node_scope("a"), 1))
    assert out == [StopEverything(A1), Join("a", 5)]


def test_a_new_life_is_a_new_incarnation_with_nothing_of_the_old(node: NodeCore) -> None:
    former = manager_of(node)
    reborn(node, 5)
    assert node.ref == A2
    assert node.maintainers == {}
    assert manager_of(node) is not former
    assert manager_of(node).me == A2


def test_what_dispatchers_of_a_former_life_say_is_not_heard(node: NodeCore) -> None:
    reborn(node, 5)
    node.handle(6, DispatcherAdvanced("f", "s", Token(1, 1, 1), 5))
    assert manager_of(node).told == []
    mine = DispatcherAdvanced("f", "s", Token(1, 1, 2), 5)
    node.handle(6, mine)
    assert manager_of(node).told == [mine]


def test_a_start_meant_for_the_former_life_is_not_obeyed(node: NodeCore) -> None:
    reborn(node, 5)
    node.handle(6, start(2, owner=A1))
    assert node.maintainers == {}


# --- answers that outlive those who asked -------------------------------------------------------


def test_the_next_life_opens_its_journal_only_when_the_formers_answers_are_in(
    node: NodeCore,
) -> None:
    manager_of(node).next_out = [Commit(Batch(node_scope("a"), 1, 1))]
    node.handle(5, Tick())
    reborn(node, 6)
    assert node.manager is None
    node.handle(7, Landed(node_scope("a"), 1))
    node.handle(8, Tick())
    assert manager_of(node).told == [Tick()]


def test_a_maintainer_in_the_next_life_waits_for_the_formers_answer(node: NodeCore) -> None:
    maintainer_of(node).next_out = [Commit(Batch(feed_scope("f"), 1, 1))]
    node.handle(5, Tick())
    reborn(node, 6)
    node.handle(7, start(2, owner=A2))
    assert node.maintainers == {}
    node.handle(8, Landed(feed_scope("f"), 1))
    node.handle(9, start(2, owner=A2))
    assert maintainer_of(node).epoch == 2
    assert not any(isinstance(event, Landed) for event in maintainer_of(node).told)


def test_the_next_term_begins_only_when_the_formers_answers_are_in(elected: NodeCore) -> None:
    elected.handle(5, CreateFeed("r", "f", FeedSpec()))
    elected.handle(6, renewed(Leader(B1, 4), 5))
    assert term_of(elected) is None
    elected.handle(7, renewed(Leader(A1, 5), 6))
    assert term_of(elected) is None
    elected.handle(8, Landed(COORDINATOR, 1))
    elected.handle(9, Tick())
    assert term_of(elected) == 5


def test_a_reading_that_a_former_owner_asked_for_is_not_taken_for_the_present_ones(
    node: NodeCore,
) -> None:
    node.handle(5, start(4))
    node.handle(6, Loaded(feed_scope("f"), 3, 0, ()))
    assert not any(isinstance(event, Loaded) for event in maintainer_of(node).told)
    mine = Loaded(feed_scope("f"), 4, 0, ())
    node.handle(7, mine)
    assert maintainer_of(node).told[-1] == mine


# --- the coordinator ----------------------------------------------------------------------------


def test_an_elected_node_coordinates_and_others_do_not(node: NodeCore) -> None:
    assert term_of(node) is None
    out = node.handle(5, renewed(Leader(A1, 2), 5))
    assert term_of(node) == 2
    assert Load(COORDINATOR) in out


def test_a_term_is_coordinated_once(elected: NodeCore) -> None:
    elected.handle(5, renewed(None, 5))
    assert term_of(elected) is None
    elected.handle(6, renewed(Leader(A1, 3), 6))
    assert term_of(elected) is None
    elected.handle(7, renewed(Leader(A1, 4), 7))
    assert term_of(elected) == 4


def test_a_replaced_coordinator_answers_those_who_wait(elected: NodeCore) -> None:
    elected.handle(5, CreateFeed("r", "f", FeedSpec()))
    out = elected.handle(6, renewed(Leader(B1, 4), 5))
    assert [a.code for a in out if isinstance(a, Answer)] == ["coordinator-lost"]


def test_a_former_lifes_election_means_nothing(node: NodeCore) -> None:
    reborn(node, 5)
    node.handle(6, renewed(Leader(A1, 2), 5, ref=A2))
    assert term_of(node) is None


def test_the_coordinators_own_node_is_told_by_message_as_any_other(elected: NodeCore) -> None:
    out = elected.handle(5, CreateFeed("r", "f", FeedSpec()))
    (commit,) = [i for i in out if isinstance(i, Commit)]
    out = elected.handle(6, Landed(COORDINATOR, commit.batch.serial))
    (send,) = [i for i in out if isinstance(i, Send)]
    assert isinstance(send.message, StartMaintainer)
    assert elected.maintainers == {}


# --- reports and routing ------------------------------------------------------------------------


def test_the_leader_hears_who_lives_here_with_rising_beats(node: NodeCore) -> None:
    manager_of(node).dispatchers = 4
    reports = [
        send.message
        for at in (5, 6)
        for send in node.handle(at, Tick())
        if isinstance(send, Send) and isinstance(send.message, NodeReport)
    ]
    first, second = reports
    assert (first.node, first.term, first.dispatchers) == (A1, 1, 4)
    assert [status.feed for status in first.maintainers] == ["f"]
    assert second.beat > first.beat


def test_a_node_without_a_leader_reports_to_nobody() -> None:
    node = fake_node()
    node.handle(0, Tick())
    node.handle(0, Joined(A1, 0))
    assert not any(isinstance(i, Send) for i in node.handle(5, Tick()))


def test_members_are_told_to_maintainers(node: NodeCore) -> None:
    seen = renewed(Leader(B1, 1), 5)
    node.handle(6, seen)
    assert maintainer_of(node).told[-1] == MembersSeen(seen.members, seen.asked_at)


def test_a_sink_event_is_for_the_epoch_that_asked(node: NodeCore) -> None:
    node.handle(5, start(2))
    node.handle(6, SinkClosed("f", Token(1, 9, 1)))
    mine = SinkClosed("f", Token(2, 1, 1))
    node.handle(7, mine)
    closed = [event for event in maintainer_of(node).told if isinstance(event, SinkClosed)]
    assert closed == [mine]


def test_verbs_that_are_for_another_node_are_answered_with_a_hint(node: NodeCore) -> None:
    (answer,) = node.handle(5, CreateFeed("r", "f", FeedSpec()))
    assert isinstance(answer, Answer)
    assert (answer.code, "node b" in answer.hint) == ("not-coordinator", True)
    (answer,) = node.handle(6, MoveSpan("s", "other", "span", "b"))
    assert isinstance(answer, Answer)
    assert (answer.code, bool(answer.hint)) == ("not-owner", True)


def test_an_ended_maintainer_is_not_the_owner(node: NodeCore) -> None:
    maintainer_of(node).outcome = Outcome.STOPPED
    (answer,) = node.handle(6, MoveSpan("s", "f", "span", "b"))
    assert isinstance(answer, Answer)
    assert answer.code == "not-owner"


def test_a_stopped_maintainer_leaves(node: NodeCore) -> None:
    node.handle(5, StopMaintainer(1, "f", 1))
    assert node.maintainers == {}


def test_a_maintainer_that_raises_is_not_covered_up(node: NodeCore) -> None:
    def broken(now: Millis, event: Any) -> list[Instruction]:
        raise RuntimeError("a bug")

    maintainer_of(node).handle = broken  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="a bug"):
        node.handle(5, Tick())


def test_the_first_thing_a_node_does_is_to_join() -> None:
    assert fake_node().handle(3, Tick()) == [Join("a", 3)]


def test_a_node_renews_from_its_ticks(node: NodeCore) -> None:
    assert Renew(A1, 2_000) in node.handle(2_000, Tick())


def test_the_real_machines_fit() -> None:
    node = NodeCore(CONFIG, "a")
    node.handle(0, Tick())
    node.handle(0, Joined(A1, 0))
    node.handle(0, renewed(Leader(B1, 1)))
    out = node.handle(0, start())
    assert Load(feed_scope("f")) in out
    assert Load(node_scope("a")) in node.handle(1, Tick())
    node.handle(2, StopMaintainer(1, "f", 1))
    assert node.maintainers == {}


def test_a_clock_that_is_put_back_stops_nothing(node: NodeCore) -> None:
    """An hour back: the lease is renewed, and answers to new questions count."""
    back = -3_600_000
    for second in range(1, 30):
        for instruction in node.handle(back + second * 1_000, Tick()):
            if isinstance(instruction, Renew):
                answer = Renewed(A1, instruction.asked_at, (Member(A1),), Leader(B1, second))
                node.handle(back + second * 1_000, answer)
    assert node.ref == A1
    assert node.member.view.leader is not None
    assert node.member.view.leader.term > 20
