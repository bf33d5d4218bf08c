"""move: never two writers, never none for longer than it takes to place anew (O4, O5, O3)."""

import pytest

from lockgate.core.operators.move import Move, MoveState
from lockgate.model.ids import NodeRef
from lockgate.model.records import key_of
from lockgate.model.requests import Create, Remove
from lockgate.model.statuses import Stage
from tests.core.operators.hands import A, B, C, FakeHands, drop, lost, puts, seen, tick
from tests.core.support import spec


def move_in(state: MoveState) -> tuple[FakeHands, Move]:
    """A move of s from A to B that got this far by itself."""
    hands = FakeHands()
    hands.live("s", A)
    move = Move("op", hands, hands.seq + 1, "s", A, B)
    hands.begin(move)
    if state is not MoveState.RECORDING:
        hands.land()
    if state in (MoveState.PLACING, MoveState.CREATING, MoveState.DONE):
        seen(move, A, "s", move.removal.token, Stage.GONE)
    if state in (MoveState.CREATING, MoveState.DONE):
        hands.land()
    if state is MoveState.DONE:
        assert move.placement is not None
        seen(move, B, "s", move.placement.token, Stage.WORKING)
    assert move.state is state
    hands.asks.clear()
    return hands, move


BEFORE_THE_STOP = [MoveState.RECORDING, MoveState.STOPPING]
AFTER_THE_STOP = [MoveState.PLACING, MoveState.CREATING]


# --- the way of a move --------------------------------------------------------------------------


def test_the_origin_is_asked_to_stop_only_when_the_move_is_recorded() -> None:
    hands, move = move_in(MoveState.RECORDING)
    assert hands.asks == []
    assert hands.land().puts == (move.record,)
    assert hands.asked(Remove) == [(A, Remove("s", move.removal.token))]


def test_o4_the_destination_is_not_asked_while_the_origin_may_run() -> None:
    hands, move = move_in(MoveState.STOPPING)
    tick(move)
    assert hands.asked(Create) == []


@pytest.mark.parametrize("stage", [Stage.WORKING, Stage.STOPPING, Stage.FENCED])
def test_o4_an_origin_that_is_not_gone_is_not_out(stage: Stage) -> None:
    _, move = move_in(MoveState.STOPPING)
    seen(move, A, "s", move.removal.token, stage)
    assert move.state is MoveState.STOPPING


def test_the_new_place_and_the_end_of_the_record_are_one_batch() -> None:
    hands, move = move_in(MoveState.PLACING)
    assert hands.asks == []
    written = hands.land()
    (record,) = puts(written)
    assert record.node == B
    assert written.deletes == (key_of(move.record),)


def test_the_destination_is_asked_when_the_new_place_is_durable() -> None:
    hands, move = move_in(MoveState.PLACING)
    hands.land()
    assert move.placement is not None
    assert hands.asked(Create) == [(B, Create(spec("s"), move.placement.token))]


def test_o5_the_destination_is_told_no_position() -> None:
    """The sink's row is where the origin committed to: the claim reads it there."""
    hands, move = move_in(MoveState.CREATING)
    tick(move)
    ((_, request),) = hands.asked(Create)
    assert (request.lineage, request.birth) == (None, None)
    assert not hasattr(request, "position")


def test_o4_the_destinations_token_is_above_everything_the_origin_had() -> None:
    _, move = move_in(MoveState.PLACING)
    assert move.placement is not None
    assert move.placement.token > move.removal.token


def test_seen_working_it_is_through() -> None:
    hands, move = move_in(MoveState.DONE)
    assert hands.through == [move]
    assert hands.spans["s"].node == B


def test_both_ends_are_asked_again_until_they_show() -> None:
    hands, move = move_in(MoveState.STOPPING)
    tick(move)
    assert len(hands.asked(Remove)) == 1
    hands, move = move_in(MoveState.CREATING)
    tick(move)
    assert len(hands.asked(Create)) == 1


@pytest.mark.parametrize("stage", [Stage.GONE, Stage.FENCED, Stage.FAILED])
def test_a_destination_where_it_came_to_nothing_leaves_the_span_absent(stage: Stage) -> None:
    hands, move = move_in(MoveState.CREATING)
    assert move.placement is not None
    seen(move, B, "s", move.placement.token, stage)
    assert hands.through == [move]
    assert hands.is_absent("s")


# --- O4: deaths ---------------------------------------------------------------------------------


def test_o4_destination_dies_before_anything_was_asked_the_origin_keeps_the_span() -> None:
    hands, move = move_in(MoveState.RECORDING)
    lost(move, B)
    hands.land()
    assert hands.asked(Remove) == []
    assert hands.through == [move]
    assert hands.spans["s"].node == A
    assert hands.land().deletes == (key_of(move.record),)


def test_o4_destination_dies_before_the_origin_stopped_the_span_is_absent_once_it_has() -> None:
    hands, move = move_in(MoveState.STOPPING)
    lost(move, B)
    assert hands.through == []
    assert not hands.is_absent("s")
    seen(move, A, "s", move.removal.token, Stage.GONE)
    assert hands.through == [move]
    assert hands.is_absent("s")
    assert hands.land().deletes == (key_of(move.record),)


@pytest.mark.parametrize("state", AFTER_THE_STOP)
def test_o4_destination_dies_after_the_stop_the_span_is_absent(state: MoveState) -> None:
    hands, move = move_in(state)
    lost(move, B)
    assert hands.through == [move]
    assert hands.is_absent("s")


@pytest.mark.parametrize("state", BEFORE_THE_STOP)
def test_o4_origin_dies_it_goes_on_at_the_destination(state: MoveState) -> None:
    hands, move = move_in(state)
    lost(move, A)
    while hands.writing:
        hands.land()
    assert [node for node, _ in hands.asked(Create)] == [B]
    assert hands.spans["s"].node == B


@pytest.mark.parametrize("state", AFTER_THE_STOP)
def test_o4_origin_dies_after_it_stopped_is_no_concern(state: MoveState) -> None:
    _, move = move_in(state)
    lost(move, A)
    assert move.state is state


@pytest.mark.parametrize("order", [(A, B), (B, A)])
@pytest.mark.parametrize("state", BEFORE_THE_STOP)
def test_o4_both_die_the_span_is_absent(state: MoveState, order: tuple[NodeRef, NodeRef]) -> None:
    hands, move = move_in(state)
    for node in order:
        lost(move, node)
    while hands.writing:
        hands.land()
    assert hands.asked(Create) == []
    assert hands.through == [move]
    assert hands.is_absent("s")
    assert key_of(move.record) in [key for written in hands.written for key in written.deletes]


@pytest.mark.parametrize("state", [s for s in MoveState if s is not MoveState.DONE])
def test_another_node_that_dies_is_no_concern(state: MoveState) -> None:
    hands, move = move_in(state)
    lost(move, C)
    assert (move.state, hands.through) == (state, [])


# --- O3: drops ----------------------------------------------------------------------------------


@pytest.mark.parametrize("state", BEFORE_THE_STOP)
def test_o3_dropped_before_the_stop_the_origin_is_cleared(state: MoveState) -> None:
    hands, move = move_in(state)
    drop(hands, move, "s")
    assert hands.removes == [("s", A)]
    assert hands.through == [move]
    while hands.writing:
        hands.land()
    assert hands.written[-1].deletes == (key_of(move.record),)
    assert hands.asked(Create) == []


def test_o3_dropped_before_the_destination_was_asked_nobody_is() -> None:
    hands, move = move_in(MoveState.PLACING)
    drop(hands, move, "s")
    hands.land()
    assert hands.asks == []
    assert hands.removes == []


def test_o3_dropped_at_the_destination_it_is_cleared_there() -> None:
    hands, move = move_in(MoveState.CREATING)
    drop(hands, move, "s")
    assert hands.removes == [("s", B)]


@pytest.mark.parametrize("state", [s for s in MoveState if s is not MoveState.DONE])
def test_o3_a_dropped_span_is_not_put_back_by_a_death(state: MoveState) -> None:
    hands, move = move_in(state)
    drop(hands, move, "s")
    for node in (A, B):
        lost(move, node)
    assert hands.ids() == set()
    assert hands.spans.absent == {}


def test_o3_dropped_with_its_origin_lost_nobody_is_asked() -> None:
    hands, move = move_in(MoveState.RECORDING)
    lost(move, A)
    drop(hands, move, "s")
    assert hands.removes == []
    assert hands.through == [move]
