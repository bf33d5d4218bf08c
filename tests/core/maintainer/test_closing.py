"""Stopping and removing a feed: nothing runs, no token is valid, then the records go (F6)."""

from collections.abc import Callable

import pytest

from lockgate.model.batch import Member, NotLanded
from lockgate.model.events import (
    MembersSeen,
    MoveSpan,
    SetGoal,
    SinkClosed,
    SinkCloseFailed,
    SplitSpan,
)
from lockgate.model.feeds import Goal, Outcome
from lockgate.model.ids import NodeRef, Token
from lockgate.model.instructions import Answer, CloseSink
from lockgate.model.messages import Close, CloseReply, Stale
from lockgate.model.records import feed_scope
from lockgate.model.spans import TRIGGER
from lockgate.model.statuses import Phase
from tests.core.maintainer.owner import A, B, C, Owner, node_of, other, running
from tests.core.support import FEED, of, sent

RESEND = Owner("t").config.timing.resend_ms


def closing(goal: Goal = Goal.STOP) -> Owner:
    owner = running("t", "u")
    owner.handle(SetGoal(goal))
    owner.tick()
    return owner


def revoking(goal: Goal = Goal.STOP) -> Owner:
    owner = closing(goal)
    owner.closes(A)
    owner.closes(B)
    owner.tick()
    assert owner.phase is Phase.REVOKING
    return owner


def asked_of_the_sink(owner: Owner) -> CloseSink:
    return of(CloseSink, owner.out)[-1]


def revoked(owner: Owner) -> None:
    owner.handle(SinkClosed(FEED, asked_of_the_sink(owner).token))


def records(owner: Owner) -> list[object]:
    return list(owner.store.records(feed_scope(FEED)).values())


# --- every node -----------------------------------------------------------------------------------


@pytest.mark.parametrize("goal", [Goal.STOP, Goal.REMOVE])
def test_every_member_is_told_to_close(goal: Goal) -> None:
    owner = closing(goal)
    assert [close.to for close in sent(Close, owner.out)] == [1, 1]
    assert owner.phase is Phase.CLOSING


def test_a_close_is_repeated_until_it_is_confirmed() -> None:
    owner = closing()
    owner.closes(A)
    owner.tick(RESEND)
    assert len(sent(Close, owner.out)) == 3


def test_the_sink_is_not_closed_before_every_member_confirmed() -> None:
    owner = closing()
    owner.closes(A)
    for _ in range(40):
        owner.tick()
    assert of(CloseSink, owner.out) == []


def test_a_member_that_died_need_not_confirm() -> None:
    owner = closing()
    owner.closes(A)
    owner.see(A)
    owner.tick()
    assert owner.phase is Phase.REVOKING


def test_a_member_that_comes_while_closing_has_to_confirm_too() -> None:
    owner = closing()
    owner.see(A, B, C)
    owner.closes(A)
    owner.closes(B)
    owner.tick()
    assert owner.phase is Phase.CLOSING
    owner.closes(C)
    owner.tick()
    assert owner.phase is Phase.REVOKING


def test_b7_the_confirmation_of_a_former_life_does_not_count() -> None:
    owner = closing()
    owner.see(NodeRef("a", 2), B)
    owner.closes(A)
    owner.closes(B)
    owner.tick()
    assert owner.phase is Phase.CLOSING


def test_b7_a_confirmation_to_another_epoch_does_not_count() -> None:
    former = running("t", "u")
    owner = Owner(former=former, epoch=2, goal=Goal.STOP)
    owner.load()
    owner.see(A)
    owner.handle(CloseReply(FEED, 1, A))
    owner.tick()
    assert owner.phase is Phase.CLOSING


def test_with_no_member_known_it_waits() -> None:
    owner = Owner("t", goal=Goal.STOP)
    owner.load()
    owner.tick()
    assert owner.phase is Phase.CLOSING


@pytest.mark.parametrize("goal", [Goal.STOP, Goal.REMOVE])
def test_a_feed_that_is_to_be_closed_is_not_bootstrapped(goal: Goal) -> None:
    owner = Owner("t", goal=goal)
    owner.load()
    owner.see(A)
    owner.tick()
    assert owner.phase is Phase.CLOSING
    assert len(sent(Close, owner.out)) == 1


# --- what was under way ---------------------------------------------------------------------------


def test_nothing_is_asked_for_while_closing() -> None:
    owner = running("t", "u")
    owner.see(node_of(owner, TRIGGER))
    owner.handle(SetGoal(Goal.STOP))
    owner.take_asked()
    for _ in range(3):
        owner.tick()
    assert owner.take_asked() == []
    assert owner.machine.operators == {}


def test_what_lands_while_closing_asks_for_nothing() -> None:
    owner = running("t", "u")
    owner.hold = True
    owner.see(node_of(owner, TRIGGER))
    assert owner.held
    owner.handle(SetGoal(Goal.STOP))
    owner.take_asked()
    owner.land_all()
    assert owner.take_asked() == []


def test_a_wish_that_waits_is_answered_when_the_feed_closes() -> None:
    owner = running("t", nodes=(A, B, C))
    span = owner.only().id
    first, second = (ref for ref in (A, B, C) if ref != node_of(owner, span))
    owner.handle(MoveSpan("r1", FEED, span, first.node))
    owner.handle(MoveSpan("r2", FEED, span, second.node))
    owner.tick()
    owner.handle(SetGoal(Goal.STOP))
    codes = {answer.request: answer.code for answer in of(Answer, owner.out)}
    assert codes == {"r1": "", "r2": "not-running"}


def test_a_node_that_dies_while_closing_writes_nothing() -> None:
    owner = running("t")
    span = owner.only().id
    origin = node_of(owner, span)
    owner.handle(MoveSpan("r", FEED, span, other(origin).node))
    owner.tick()
    owner.handle(SetGoal(Goal.REMOVE))
    serial = owner.store.scope(feed_scope(FEED)).serial
    owner.see(other(origin))
    owner.tick()
    assert owner.store.scope(feed_scope(FEED)).serial == serial


# --- the sink -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("goal", "forget"), [(Goal.STOP, False), (Goal.REMOVE, True)])
def test_the_sink_is_asked_to_forget_only_a_feed_that_is_removed(goal: Goal, forget: bool) -> None:
    assert asked_of_the_sink(revoking(goal)).forget is forget


def test_the_token_that_voids_is_above_all_of_this_epoch_and_below_all_of_the_next() -> None:
    for goal in (Goal.STOP, Goal.REMOVE):
        voiding = asked_of_the_sink(revoking(goal)).token
        assert Token(1, 2**61, 2**31) < voiding < Token(2, 0, 0)


def test_the_sink_is_asked_again_until_it_answers() -> None:
    owner = revoking()
    owner.handle(SinkCloseFailed(FEED, asked_of_the_sink(owner).token))
    owner.tick()
    assert len(of(CloseSink, owner.out)) >= 2
    assert owner.phase is Phase.REVOKING


def test_an_answer_of_the_sink_to_another_close_does_not_count() -> None:
    owner = revoking()
    owner.handle(SinkClosed(FEED, Token(1, 5, 0)))
    assert owner.phase is Phase.REVOKING


def test_stopped_it_ends_and_leaves_the_records() -> None:
    owner = revoking()
    before = records(owner)
    revoked(owner)
    assert owner.machine.status().outcome is Outcome.STOPPED
    assert records(owner) == before


def test_removed_it_ends_when_the_records_are_gone() -> None:
    owner = revoking(Goal.REMOVE)
    owner.hold = True
    revoked(owner)
    assert owner.phase is Phase.FORGETTING
    owner.land_all()
    assert owner.machine.status().outcome is Outcome.REMOVED
    assert records(owner) == []


def test_removed_with_operators_under_way_it_leaves_no_record_of_them() -> None:
    owner = running("t")
    owner.handle(SplitSpan("r", FEED, owner.only().id, (b"m",)))
    owner.tick()
    assert owner.operators()
    owner.handle(SetGoal(Goal.REMOVE))
    owner.tick()
    owner.closes(A)
    owner.closes(B)
    owner.tick()
    revoked(owner)
    assert records(owner) == []


def test_a_forgetting_that_did_not_land_is_repeated() -> None:
    owner = revoking(Goal.REMOVE)
    owner.hold = True
    revoked(owner)
    batch = owner.held.pop()
    owner.handle(NotLanded(batch.scope, batch.serial))
    owner.see(A)
    owner.hold = False
    owner.tick(RESEND)
    assert owner.machine.status().outcome is Outcome.REMOVED
    assert records(owner) == []


# --- changed minds --------------------------------------------------------------------------------


def test_a_stop_that_becomes_a_removal_makes_the_sink_forget() -> None:
    owner = revoking(Goal.STOP)
    mere_stop = asked_of_the_sink(owner)
    owner.handle(SetGoal(Goal.REMOVE))
    owner.handle(SinkClosed(FEED, mere_stop.token))
    assert owner.phase is Phase.REVOKING
    owner.tick()
    assert asked_of_the_sink(owner).forget
    revoked(owner)
    assert owner.machine.status().outcome is Outcome.REMOVED


@pytest.mark.parametrize("back", [Goal.RUN, Goal.STOP])
def test_a_removal_is_not_taken_back(back: Goal) -> None:
    owner = closing(Goal.REMOVE)
    owner.handle(SetGoal(back))
    owner.closes(A)
    owner.closes(B)
    owner.tick()
    assert asked_of_the_sink(owner).forget


def test_a_close_is_carried_through_even_if_the_feed_is_to_run_again() -> None:
    """Nodes have tombstones of this epoch: it takes a new owner to run."""
    owner = closing(Goal.STOP)
    owner.handle(SetGoal(Goal.RUN))
    owner.closes(A)
    owner.closes(B)
    owner.tick()
    revoked(owner)
    assert owner.machine.status().outcome is Outcome.STOPPED


# --- the stale ------------------------------------------------------------------------------------


def test_f6_its_own_tombstones_do_not_end_it() -> None:
    owner = closing()
    owner.handle(Stale(FEED, 1, A, 1))
    assert owner.phase is Phase.CLOSING


@pytest.mark.parametrize("make", [closing, revoking])
def test_f3_a_newer_owner_ends_it_while_closing(make: Callable[[], Owner]) -> None:
    owner = make()
    owner.handle(Stale(FEED, 1, A, 2))
    assert owner.machine.status().outcome is Outcome.STALE


def test_people_are_told_that_it_closes() -> None:
    owner = closing()
    owner.handle(MoveSpan("r", FEED, owner.trigger.id, "a"))
    assert [answer.code for answer in of(Answer, owner.out)] == ["not-running"]


def test_a_close_is_through_only_under_a_view_of_this_owners_own_time() -> None:
    """A node that joined before this owner began may be missing in a view from before."""
    owner = Owner("t", goal=Goal.REMOVE)
    owner.handle(MembersSeen((Member(A),), owner.now - 1))
    owner.load()
    owner.tick()
    owner.handle(CloseReply(FEED, 1, A))
    owner.tick()
    assert of(CloseSink, owner.out) == []
    owner.handle(MembersSeen((Member(A), Member(B)), owner.now))
    owner.tick()
    owner.handle(CloseReply(FEED, 1, B))
    owner.tick()
    assert len(of(CloseSink, owner.out)) == 1


def test_whoever_waits_for_an_answer_gets_one_when_the_owner_ends() -> None:
    owner = running("t")
    owner.handle(MoveSpan("r", FEED, owner.only().id, "nowhere-yet"))
    owner.handle(Stale(FEED, 1, A, 2))
    assert [(one.request, one.code) for one in of(Answer, owner.out)] == [("r", "owner-lost")]
