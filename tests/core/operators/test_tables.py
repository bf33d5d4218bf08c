"""The tables of the five operators, walked cell by cell."""

import enum
from collections.abc import Callable

import pytest

from lockgate.core.machine import Cell, Verdict
from lockgate.core.operators.add import Add, AddState
from lockgate.core.operators.base import EVENTS, Dropped, Lost, Operator, Recorded, Seen
from lockgate.core.operators.merge import Merge, MergeState
from lockgate.core.operators.move import Move, MoveState
from lockgate.core.operators.remove import Remove, RemoveState
from lockgate.core.operators.split import Split, SplitState
from lockgate.model.events import Tick
from lockgate.model.ids import Token
from lockgate.model.records import OperatorKind, RecordKey
from lockgate.model.statuses import DispatcherStatus, Stage
from tests.core.operators.hands import A, FakeHands, seen
from tests.core.operators.test_merge import merge_in
from tests.core.operators.test_move import move_in
from tests.core.operators.test_split import split_in
from tests.core.support import cell_name, cells, fingerprint, missing_cells, missing_methods


def add_in(state: AddState) -> tuple[FakeHands, Add]:
    hands = FakeHands()
    hands.live("s", None)
    add = Add("op", hands, hands.seq + 1, "s", A)
    hands.begin(add)
    if state is not AddState.RECORDING:
        hands.land()
    if state is AddState.DONE:
        seen(add, A, "s", add.placement.token, Stage.WORKING)
    return hands, add


def remove_in(state: RemoveState) -> tuple[FakeHands, Remove]:
    hands = FakeHands()
    hands.record(deletes=(RecordKey("span", "s"),))
    remove = Remove("op", hands, hands.seq + 1, "s", A)
    hands.begin(remove)
    if state is not RemoveState.WAITING:
        hands.land()
        hands.land()
    if state is RemoveState.DONE:
        seen(remove, A, "s", remove.removal.token, Stage.GONE)
    return hands, remove


OPERATORS: dict[type[Operator], tuple[type[enum.Enum], Callable[..., tuple[FakeHands, Operator]]]]
OPERATORS = {
    Add: (AddState, add_in),
    Remove: (RemoveState, remove_in),
    Move: (MoveState, move_in),
    Split: (SplitState, split_in),
    Merge: (MergeState, merge_in),
}
EACH = pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.kind.value)
WALK = [(operator, pair) for operator in OPERATORS for pair in cells(operator.TABLE)]


def event_of(kind: type, operator: Operator) -> object:
    """An event that concerns the operator: its own node, one of its spans."""
    span = next(iter(operator.spans), "s")
    return {
        Recorded: Recorded(),
        Seen: Seen(A, DispatcherStatus(span, Token(3, 10**6, 1), Stage.GONE)),
        Lost: Lost(A),
        Dropped: Dropped(span),
        Tick: Tick(),
    }[kind]


def test_every_kind_of_operator_is_walked() -> None:
    assert {operator.kind for operator in OPERATORS} == set(OperatorKind)


@EACH
def test_every_pair_has_a_cell(operator: type[Operator]) -> None:
    assert missing_cells(operator.TABLE, OPERATORS[operator][0], EVENTS) == []


@EACH
def test_every_transition_is_a_method(operator: type[Operator]) -> None:
    assert missing_methods(operator.TABLE, operator) == []


@pytest.mark.parametrize(
    ("kind", "pair"), WALK, ids=[f"{kind.kind.value}-{cell_name(pair)}" for kind, pair in WALK]
)
def test_every_event_is_taken_in_every_state(
    kind: type[Operator], pair: tuple[enum.Enum, type, Cell]
) -> None:
    state, event, cell = pair
    hands, operator = OPERATORS[kind][1](state)
    assert operator.state is state
    hands.asks.clear()
    if event is Dropped:
        for span in hands.ids() & set(operator.spans):
            hands.spans.drop(span)
    before = fingerprint(operator)
    operator.handle(operator.now, event_of(event, operator))
    if cell.verdict is Verdict.IGNORE:
        assert fingerprint(operator) == before
        assert hands.asks == []


@EACH
def test_an_operator_that_is_through_does_nothing_more(operator: type[Operator]) -> None:
    states, make = OPERATORS[operator]
    hands, one = make(states["DONE"])
    hands.asks.clear()
    before = fingerprint(hands)
    for event in EVENTS:
        one.handle(one.now, event_of(event, one))
    assert fingerprint(hands) == before


@EACH
def test_the_first_sequence_is_that_of_its_first_token(operator: type[Operator]) -> None:
    states, make = OPERATORS[operator]
    _, one = make(next(iter(states)))
    assert one.first_seq == 101
