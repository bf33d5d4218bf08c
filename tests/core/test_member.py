"""Membership: the lease by the node's own clock, and what happens when it is gone (F10, F12)."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lockgate.core.member import LifeOver, MemberMachine, MemberState
from lockgate.model.batch import (
    Joined,
    JoinFailed,
    Leader,
    LeaseLost,
    Member,
    Renewed,
    RenewFailed,
)
from lockgate.model.config import CoreConfig
from lockgate.model.events import Tick
from lockgate.model.ids import Millis, NodeRef
from lockgate.model.instructions import Instruction, Join, Renew, StopEverything

CONFIG = CoreConfig()
LEASE = CONFIG.timing.lease_ms
A1, A2 = NodeRef("a", 1), NodeRef("a", 2)


@pytest.fixture
def fresh() -> MemberMachine:
    return MemberMachine(CONFIG, "a")


@pytest.fixture
def member(fresh: MemberMachine) -> MemberMachine:
    fresh.handle(0, Tick())
    fresh.handle(10, Joined(A1, 0))
    return fresh


def test_the_first_tick_asks_to_join(fresh: MemberMachine) -> None:
    assert fresh.handle(5, Tick()) == [Join("a", 5)]
    assert fresh.handle(6, Tick()) == []


def test_a_joined_node_renews_at_once_and_then_regularly(fresh: MemberMachine) -> None:
    fresh.handle(0, Tick())
    assert fresh.handle(10, Joined(A1, 0)) == [Renew(A1, 10)]
    assert fresh.handle(2_009, Tick()) == []
    assert fresh.handle(2_010, Tick()) == [Renew(A1, 2_010)]


def test_the_lease_counts_from_the_question_not_from_the_answer(member: MemberMachine) -> None:
    assert member.deadline == LEASE
    member.handle(9_000, Renewed(A1, 10, (), None))
    assert member.deadline == LEASE + 10


def test_a_life_whose_lease_ran_out_before_its_answer_came_is_not_begun(
    fresh: MemberMachine,
) -> None:
    fresh.handle(0, Tick())
    assert fresh.handle(LEASE, Joined(A1, 0)) == [Join("a", LEASE)]
    assert fresh.ref is None


def test_the_answer_to_an_older_join_is_ignored(fresh: MemberMachine) -> None:
    fresh.handle(0, Tick())
    fresh.handle(LEASE, Tick())
    assert fresh.handle(LEASE + 1, Joined(A1, 0)) == []
    assert fresh.ref is None
    fresh.handle(LEASE + 2, Joined(A2, LEASE))
    assert fresh.ref == A2


def test_a_failed_join_is_asked_again(fresh: MemberMachine) -> None:
    fresh.handle(0, Tick())
    fresh.handle(1, JoinFailed("down"))
    assert fresh.handle(1_000, Tick()) == []
    assert fresh.handle(1_001, Tick()) == [Join("a", 1_001)]


def test_a_slow_join_is_not_asked_again_which_would_void_it(fresh: MemberMachine) -> None:
    fresh.handle(0, Tick())
    assert fresh.handle(LEASE - 1, Tick()) == []
    fresh.handle(LEASE - 1, Joined(A1, 0))
    assert fresh.ref == A1


def test_a_passed_deadline_stops_everything_first_and_then_joins(member: MemberMachine) -> None:
    assert not member.expired(LEASE - 1)
    assert member.expired(LEASE)
    assert member.handle(LEASE, Tick()) == [StopEverything(A1), Join("a", LEASE)]
    assert member.ref is None


@pytest.mark.parametrize("end", [LeaseLost(A1), LifeOver("refused")])
def test_a_lost_life_stops_everything_and_joins_anew(
    member: MemberMachine, end: LeaseLost | LifeOver
) -> None:
    assert member.handle(50, end) == [StopEverything(A1), Join("a", 50)]
    member.handle(60, Joined(A2, 50))
    assert member.ref == A2


def test_the_loss_of_a_former_life_is_no_loss(member: MemberMachine) -> None:
    member.handle(50, LeaseLost(A1))
    member.handle(60, Joined(A2, 50))
    assert member.handle(70, LeaseLost(A1)) == []
    assert member.ref == A2


def test_an_incarnation_is_never_lived_twice(member: MemberMachine) -> None:
    member.handle(50, LeaseLost(A1))
    assert member.handle(60, Joined(A1, 50)) == []
    assert member.ref is None


def test_an_overtaken_answer_changes_neither_lease_nor_view(member: MemberMachine) -> None:
    newer = Renewed(A1, 2_010, (Member(A1),), Leader(A1, 3))
    member.handle(2_010, Tick())
    member.handle(2_020, newer)
    member.handle(2_030, Renewed(A1, 10, (), None))
    assert member.deadline == 2_010 + LEASE
    assert member.view.leader == Leader(A1, 3)


def test_an_answer_to_a_former_life_is_ignored(member: MemberMachine) -> None:
    member.handle(50, LeaseLost(A1))
    member.handle(60, Joined(A2, 50))
    member.handle(70, Renewed(A1, 9_000, (), Leader(A1, 1)))
    assert member.deadline == 50 + LEASE
    assert member.view.leader is None


def test_a_failed_renewal_is_asked_again_sooner(member: MemberMachine) -> None:
    member.handle(20, RenewFailed(A1, "down"))
    assert member.handle(1_020, Tick()) == [Renew(A1, 1_020)]


class AnyOrder(RuleBasedStateMachine):
    """Answers of any age in any order, some lost; a metastore that is always right."""

    def __init__(self) -> None:
        super().__init__()
        self.now: Millis = 0
        self.member = MemberMachine(CONFIG, "a")
        self.incarnation = 0
        self.lease_end: Millis = 0
        self.answers: list[Joined | Renewed | LeaseLost | JoinFailed | RenewFailed] = []
        self.lives: list[NodeRef] = []

    def take(self, out: list[Instruction]) -> None:
        for instruction in out:
            if isinstance(instruction, Join):
                self.incarnation += 1
                self.lease_end = self.now + LEASE
                self.answers.append(Joined(NodeRef("a", self.incarnation), instruction.asked_at))
            elif isinstance(instruction, Renew):
                current = instruction.ref.incarnation == self.incarnation
                if current and self.now < self.lease_end:
                    self.lease_end = self.now + LEASE
                    self.answers.append(
                        Renewed(
                            instruction.ref, instruction.asked_at, (Member(instruction.ref),), None
                        )
                    )
                else:
                    self.answers.append(LeaseLost(instruction.ref))
            elif isinstance(instruction, StopEverything):
                assert out[0] is instruction
        if self.member.ref is not None and self.member.ref not in self.lives:
            self.lives.append(self.member.ref)

    @rule(ms=st.integers(1, 3_000))
    def time_passes(self, ms: int) -> None:
        self.now += ms
        self.take(self.member.handle(self.now, Tick()))

    @rule(ms=st.integers(LEASE, 3 * LEASE))
    def paused(self, ms: int) -> None:
        self.now += ms

    @precondition(lambda self: self.answers)
    @rule(data=st.data(), again=st.booleans())
    def answer(self, data: st.DataObject, again: bool) -> None:
        index = data.draw(st.integers(0, len(self.answers) - 1))
        answer = self.answers[index] if again else self.answers.pop(index)
        if not self.member.expired(self.now):
            self.take(self.member.handle(self.now, answer))

    @rule()
    def failure(self) -> None:
        if self.member.ref is not None:
            self.take(self.member.handle(self.now, RenewFailed(self.member.ref)))
        self.take(self.member.handle(self.now, JoinFailed()))

    @invariant()
    def never_believes_longer_than_the_metastore(self) -> None:
        ref = self.member.ref
        if ref is not None and ref.incarnation == self.incarnation:
            assert self.member.deadline <= self.lease_end

    @invariant()
    def lives_rise(self) -> None:
        assert self.lives == sorted(set(self.lives))

    @invariant()
    def a_member_has_a_life(self) -> None:
        assert (self.member.ref is not None) == (self.member.state is MemberState.MEMBER)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
