"""The host: who is admitted on a node, and when the former one is out of the way (F4, F7)."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lockgate.core.host import MaintainerHost
from lockgate.core.slot import SlotState
from lockgate.model.batch import Batch, Landed, Member, NotLanded, Refused, Unknown
from lockgate.model.config import CoreConfig
from lockgate.model.events import MembersSeen, SetGoal, Tick
from lockgate.model.feeds import FeedSpec, Goal, Outcome
from lockgate.model.ids import Epoch, FeedId, Millis, NodeRef, Term
from lockgate.model.instructions import Commit, Instruction
from lockgate.model.messages import Stale, StartMaintainer, StopMaintainer
from lockgate.model.records import Scope, feed_scope
from lockgate.model.statuses import MaintainerStatus, Phase

ME = NodeRef("a", 7)
CONFIG = CoreConfig()


@dataclass
class Dummy:
    """A maintainer that writes down what it is told and commits when the test says so."""

    config: CoreConfig
    feed: FeedId
    epoch: Epoch
    me: NodeRef
    goal: Goal
    spec: FeedSpec
    told: list[Any] = field(default_factory=list)
    next_out: list[Instruction] = field(default_factory=list)
    outcome: Outcome | None = None

    def handle(self, now: Millis, event: Any) -> list[Instruction]:
        self.told.append(event)
        if isinstance(event, Stale) and event.epoch == self.epoch:
            self.outcome = Outcome.STALE
        out, self.next_out = self.next_out, []
        return out

    def status(self) -> MaintainerStatus:
        phase = Phase.RUNNING if self.outcome is None else Phase.ENDED
        return MaintainerStatus(self.feed, self.epoch, phase, outcome=self.outcome)


class Desk:
    """A host with a count of unanswered commits, as a node keeps it."""

    def __init__(self) -> None:
        self.unanswered: dict[Scope, int] = {}
        self.born: list[Dummy] = []
        self.host = MaintainerHost(CONFIG, ME, self._new, self._awaits)

    def _new(self, *args: Any) -> Dummy:
        self.born.append(Dummy(*args))
        return self.born[-1]

    def _awaits(self, scope: Scope) -> bool:
        return self.unanswered.get(scope, 0) > 0

    def start(
        self,
        epoch: Epoch,
        *,
        goal: Goal = Goal.RUN,
        term: Term = 1,
        owner: NodeRef = ME,
        feed: FeedId = "f",
    ) -> None:
        self.host.start(0, StartMaintainer(term, owner, feed, epoch, goal, FeedSpec()))

    def stop(self, epoch: Epoch, *, term: Term = 1) -> None:
        self.host.stop(0, StopMaintainer(term, "f", epoch))

    def ask_commit(self) -> None:
        """The maintainer here has a commit on its way."""
        scope = feed_scope("f")
        self.unanswered[scope] = self.unanswered.get(scope, 0) + 1

    def answer_commit(self, answer: Any = None) -> None:
        self.unanswered[feed_scope("f")] -= 1
        self.host.forward(0, "f", answer or Landed(feed_scope("f"), 1))

    @property
    def here(self) -> Dummy | None:
        found = self.host.maintainers.get("f")
        assert found is None or isinstance(found, Dummy)
        return found

    @property
    def epoch(self) -> Epoch | None:
        return self.host.epoch_of("f")


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_start_makes_a_maintainer_that_knows_the_members_and_begins(desk: Desk) -> None:
    members = (Member(ME),)
    desk.host.broadcast(0, MembersSeen(members))
    desk.start(3)
    assert desk.here is not None
    assert desk.here.told == [MembersSeen(members), Tick()]
    assert desk.host.report() == (MaintainerStatus("f", 3, Phase.RUNNING),)


def test_a_start_for_another_life_of_the_node_is_not_obeyed(desk: Desk) -> None:
    desk.start(3, owner=NodeRef("a", 6))
    assert desk.here is None


def test_a_start_of_a_replaced_coordinator_is_not_obeyed(desk: Desk) -> None:
    desk.start(3, term=5)
    desk.start(4, term=4)
    assert desk.epoch == 3


def test_a_stop_of_a_replaced_coordinator_is_not_obeyed(desk: Desk) -> None:
    desk.start(3, term=5)
    desk.stop(3, term=4)
    assert desk.epoch == 3


@pytest.mark.parametrize("epoch", [2, 3])
def test_an_epoch_that_was_here_is_never_started_again(desk: Desk, epoch: Epoch) -> None:
    desk.start(3)
    desk.stop(3)
    desk.start(epoch)
    assert desk.here is None


def test_a_repeated_start_starts_nothing(desk: Desk) -> None:
    desk.start(3)
    desk.start(3)
    assert len(desk.born) == 1


def test_a_changed_goal_reaches_the_maintainer(desk: Desk) -> None:
    desk.start(3)
    desk.start(3, goal=Goal.STOP)
    desk.start(3, goal=Goal.REMOVE)
    assert desk.here is not None
    assert desk.here.told[-2:] == [SetGoal(Goal.STOP), SetGoal(Goal.REMOVE)]


def test_a_late_start_does_not_take_the_goal_back(desk: Desk) -> None:
    desk.start(3, goal=Goal.STOP)
    desk.start(3, goal=Goal.RUN)
    assert desk.here is not None
    assert not any(isinstance(event, SetGoal) for event in desk.here.told)


def test_a_stop_ends_exactly_the_epoch_it_names(desk: Desk) -> None:
    desk.start(3)
    desk.stop(2)
    desk.stop(4)
    assert desk.epoch == 3
    desk.stop(3)
    assert desk.here is None


def test_a_newer_epoch_takes_over_from_a_quiet_one(desk: Desk) -> None:
    desk.start(3)
    desk.start(5)
    assert desk.epoch == 5
    assert desk.born[0].told[-1] == Stale("f", 3, ME, 5)


def test_a_newer_epoch_waits_until_the_old_one_has_its_answer(desk: Desk) -> None:
    desk.start(3)
    desk.ask_commit()
    desk.start(5)
    assert desk.epoch == 3
    assert desk.host.slots["f"].state is SlotState.LEAVING
    assert [status.epoch for status in desk.host.report()] == [3]
    desk.answer_commit()
    assert desk.here is None
    desk.start(5)
    assert desk.epoch == 5


@pytest.mark.parametrize(
    "answer",
    [
        Landed("feed:f", 1),
        NotLanded("feed:f", 1),
        Unknown("feed:f", 1),
        Refused("feed:f", 1, 5),
    ],
)
def test_any_answer_lets_the_old_one_go(desk: Desk, answer: Any) -> None:
    desk.start(3)
    desk.ask_commit()
    desk.stop(3)
    assert desk.epoch == 3
    desk.answer_commit(answer)
    assert desk.here is None


def test_one_that_is_leaving_has_no_further_say(desk: Desk) -> None:
    desk.start(3)
    desk.ask_commit()
    desk.stop(3)
    old = desk.born[0]
    old.next_out = [Commit(Batch("feed:f", 3, 2))]
    assert desk.host.broadcast(0, Tick()) == []
    assert desk.host.forward(0, "f", Landed("feed:f", 1)) == []


def test_nobody_is_admitted_while_a_former_life_awaits_an_answer(desk: Desk) -> None:
    desk.ask_commit()
    desk.start(3)
    assert desk.here is None
    desk.answer_commit()
    desk.start(3)
    assert desk.epoch == 3


def test_an_ended_maintainer_is_reported_until_it_is_let_go(desk: Desk) -> None:
    desk.start(3)
    desk.born[0].outcome = Outcome.STOPPED
    assert desk.host.report()[0].outcome is Outcome.STOPPED
    desk.start(3)
    assert desk.host.report()[0].outcome is Outcome.STOPPED
    desk.stop(3)
    assert desk.host.report() == ()


def test_news_for_one_who_left_is_nobodys(desk: Desk) -> None:
    desk.start(3)
    desk.stop(3)
    assert desk.host.forward(0, "f", Landed("feed:f", 1)) == []


class AnyMessages(RuleBasedStateMachine):
    """Any starts and stops in any order, commits under way or not."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk()
        self.highest_term = 0
        self.writers: list[Dummy] = []
        """Whose commit is unanswered."""

    @rule(
        epoch=st.integers(1, 8),
        term=st.integers(1, 4),
        goal=st.sampled_from(list(Goal)),
        incarnation=st.integers(6, 8),
    )
    def start(self, epoch: Epoch, term: Term, goal: Goal, incarnation: int) -> None:
        before = len(self.desk.born)
        owner = NodeRef("a", incarnation)
        self.desk.start(epoch, goal=goal, term=term, owner=owner)
        if len(self.desk.born) > before:
            assert owner == ME
            assert term >= self.highest_term
            assert not self.writers
        if owner == ME:
            self.highest_term = max(self.highest_term, term)

    @rule(epoch=st.integers(1, 8), term=st.integers(1, 4))
    def stop(self, epoch: Epoch, term: Term) -> None:
        before = self.desk.here
        self.desk.stop(epoch, term=term)
        if before is not None and self.desk.here is not before:
            assert before.epoch == epoch
        if before is not None or self.desk.born:
            self.highest_term = max(self.highest_term, term)

    @rule()
    def commit(self) -> None:
        if not self.writers and self.desk.host.is_working("f"):
            assert self.desk.here is not None
            self.writers.append(self.desk.here)
            self.desk.ask_commit()

    @rule()
    def answer(self) -> None:
        if self.writers:
            writer = self.writers.pop()
            before = len(writer.told)
            self.desk.answer_commit()
            assert isinstance(writer.told[before], Landed)

    @rule()
    def ends(self) -> None:
        if self.desk.here is not None and self.desk.here.outcome is None and not self.writers:
            self.desk.here.outcome = Outcome.STOPPED

    @invariant()
    def epochs_rise(self) -> None:
        epochs = [dummy.epoch for dummy in self.desk.born]
        assert all(a < b for a, b in itertools.pairwise(epochs))

    @invariant()
    def whoever_awaits_an_answer_is_still_here(self) -> None:
        if self.writers:
            assert self.desk.here is self.writers[0]

    @invariant()
    def goals_only_advance(self) -> None:
        rank = {Goal.RUN: 0, Goal.STOP: 1, Goal.REMOVE: 2}
        for dummy in self.desk.born:
            goals = [dummy.goal, *(e.goal for e in dummy.told if isinstance(e, SetGoal))]
            ranks = [rank[goal] for goal in goals]
            assert all(a < b for a, b in itertools.pairwise(ranks))


TestAnyMessages = AnyMessages.TestCase
TestAnyMessages.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
