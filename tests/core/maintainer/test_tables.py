"""The tables of the maintainer and of its barrier, walked cell by cell."""

import enum

import pytest

from lockgate.core.machine import Cell, Verdict
from lockgate.core.maintainer.barrier import Barrier, BarrierState, TriggerSeen
from lockgate.core.maintainer.maintainer import Maintainer
from lockgate.core.operators.base import Recorded
from lockgate.model.batch import Landed, Loaded, LoadFailed, Member, NotLanded, Refused, Unknown
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.errors import IllegalTransition
from lockgate.model.events import (
    MembersSeen,
    MergeSpans,
    MoveSpan,
    SetGoal,
    SinkClosed,
    SinkCloseFailed,
    SplitSpan,
    Tick,
)
from lockgate.model.feeds import Goal, Outcome
from lockgate.model.ids import Token
from lockgate.model.instructions import Answer, CloseSink
from lockgate.model.messages import BootstrapReply, CloseReply, Heartbeat, Stale
from lockgate.model.records import feed_scope
from lockgate.model.spans import TRIGGER
from lockgate.model.statuses import DispatcherStatus, Phase, Stage
from tests.core.maintainer.owner import A, B, Owner, node_of, running, working
from tests.core.support import (
    FEED,
    assert_does_nothing,
    cell_name,
    cells,
    fingerprint,
    missing_cells,
    missing_methods,
    of,
)

SCOPE = feed_scope(FEED)
GHOST = DispatcherStatus("ghost", Token(1, 9, 1), Stage.WORKING)
DDL = Ddl(100, DdlKind.ALTER, ("t",))

EVENTS: dict[type, object] = {
    Tick: Tick(),
    MembersSeen: MembersSeen((Member(A),)),
    SetGoal: SetGoal(Goal.STOP),
    Loaded: Loaded(SCOPE, 1, 0, ()),
    LoadFailed: LoadFailed(SCOPE),
    Refused: Refused(SCOPE, 1, 2),
    Landed: Landed(SCOPE, 10_000),
    NotLanded: NotLanded(SCOPE, 10_000),
    Unknown: Unknown(SCOPE, 10_000),
    BootstrapReply: BootstrapReply(FEED, 1, A, (GHOST,)),
    Heartbeat: Heartbeat(FEED, 1, A, 10_000, True, (GHOST,)),
    CloseReply: CloseReply(FEED, 1, A),
    Stale: Stale(FEED, 1, A, 2),
    SinkClosed: SinkClosed(FEED, Token(1, 1, 0)),
    SinkCloseFailed: SinkCloseFailed(FEED, Token(1, 1, 0)),
    MoveSpan: MoveSpan("r", FEED, TRIGGER, "b"),
    SplitSpan: SplitSpan("r", FEED, TRIGGER, (b"m",)),
    MergeSpans: MergeSpans("r", FEED, (TRIGGER, "x")),
}


def maintainer_in(phase: enum.Enum) -> Maintainer:
    """A maintainer that got into this phase by itself."""
    if phase is Phase.LOADING:
        owner = Owner("t")
    elif phase is Phase.BOOTSTRAPPING:
        owner = Owner("t")
        owner.load()
        owner.see(A, B)
        owner.tick()
    else:
        owner = running("t")
    if phase in (Phase.CLOSING, Phase.REVOKING, Phase.FORGETTING, Phase.ENDED):
        owner.handle(SetGoal(Goal.REMOVE))
        owner.tick()
    if phase in (Phase.REVOKING, Phase.FORGETTING, Phase.ENDED):
        owner.closes(A)
        owner.closes(B)
        owner.tick()
    if phase in (Phase.FORGETTING, Phase.ENDED):
        owner.hold = phase is Phase.FORGETTING
        owner.handle(SinkClosed(FEED, of(CloseSink, owner.out)[-1].token))
    assert owner.phase is phase
    return owner.machine


# --- the maintainer -------------------------------------------------------------------------------


def test_every_pair_of_the_maintainer_has_a_cell() -> None:
    assert missing_cells(Maintainer.TABLE, Phase, Maintainer.EVENTS) == []


def test_every_transition_of_the_maintainer_is_a_method() -> None:
    assert missing_methods(Maintainer.TABLE, Maintainer) == []


def test_every_event_of_the_maintainer_is_walked() -> None:
    assert set(EVENTS) == set(Maintainer.EVENTS)


@pytest.mark.parametrize("pair", cells(Maintainer.TABLE), ids=cell_name)
def test_the_maintainer_takes_every_event_in_every_phase(
    pair: tuple[enum.Enum, type, Cell],
) -> None:
    phase, event, cell = pair
    machine = maintainer_in(phase)
    if cell.verdict is Verdict.IGNORE:
        assert_does_nothing(machine, EVENTS[event])
    else:
        machine.handle(machine.now, EVENTS[event])


def test_the_maintainer_has_no_pair_that_only_a_bug_can_make() -> None:
    """Its events come from nodes, the metastore, the sink and people: all may be late."""
    assert Verdict.REJECT not in {cell.verdict for *_, cell in cells(Maintainer.TABLE)}


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.ENDED])
def test_f3_a_refused_write_ends_it_from_everywhere(phase: Phase) -> None:
    machine = maintainer_in(phase)
    machine.handle(machine.now, EVENTS[Refused])
    assert machine.status().outcome is Outcome.STALE


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.ENDED])
def test_f3_a_newer_owner_ends_it_from_everywhere(phase: Phase) -> None:
    machine = maintainer_in(phase)
    machine.handle(machine.now, EVENTS[Stale])
    assert machine.status().outcome is Outcome.STALE


@pytest.mark.parametrize("verb", [MoveSpan, SplitSpan, MergeSpans])
@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.RUNNING])
def test_a_person_is_answered_in_every_phase(phase: Phase, verb: type) -> None:
    machine = maintainer_in(phase)
    (answer,) = of(Answer, machine.handle(machine.now, EVENTS[verb]))
    assert (answer.request, answer.code) == ("r", "not-running")
    assert answer.what
    assert answer.hint


# --- its barrier ----------------------------------------------------------------------------------


def barrier_in(state: enum.Enum) -> Barrier:
    """A barrier that got into this state by itself."""
    owner = running("t")
    span, place = owner.only(), node_of(owner, TRIGGER)
    before = working(owner.trigger, 99, barrier=100, ddl=DDL)
    stands = working(span, 99, barrier=100)
    if state is BarrierState.GATHERING:
        owner.says(place, before)
    elif state is not BarrierState.IDLE:
        owner.hold = state is BarrierState.RECORDING
        owner.says(node_of(owner, span.id), stands)
        owner.says(place, before)
    if state is BarrierState.FINISHING:
        owner.hold = True
        owner.says(place, working(owner.trigger, 100, barrier=100, ddl=DDL))
    assert owner.machine.barrier.state is state
    return owner.machine.barrier


BARRIER_EVENTS: dict[type, object] = {
    TriggerSeen: TriggerSeen(DDL),
    Recorded: Recorded(),
    Tick: Tick(),
}


def test_every_pair_of_the_barrier_has_a_cell() -> None:
    assert missing_cells(Barrier.TABLE, BarrierState, Barrier.EVENTS) == []


def test_every_transition_of_the_barrier_is_a_method() -> None:
    assert missing_methods(Barrier.TABLE, Barrier) == []


@pytest.mark.parametrize("pair", cells(Barrier.TABLE), ids=cell_name)
def test_the_barrier_takes_every_event_in_every_state(pair: tuple[enum.Enum, type, Cell]) -> None:
    state, event, cell = pair
    barrier = barrier_in(state)
    if cell.verdict is Verdict.IGNORE:
        assert_does_nothing(barrier, BARRIER_EVENTS[event])
    elif cell.verdict is Verdict.REJECT:
        before = fingerprint(barrier)
        with pytest.raises(IllegalTransition) as raised:
            barrier.handle(barrier.now, BARRIER_EVENTS[event])
        assert raised.value.story
        assert state.value in raised.value.story[-1]
        assert fingerprint(barrier) == before
    else:
        barrier.handle(barrier.now, BARRIER_EVENTS[event])
