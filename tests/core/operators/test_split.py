"""split: the children cover exactly the parent, or there is no child at all (O6, F9, O3)."""

import pytest

from lockgate.core.operators.split import Split, SplitState
from lockgate.model.ids import Token
from lockgate.model.records import RecordKey, key_of
from lockgate.model.requests import Create, Remove
from lockgate.model.spans import Lineage
from lockgate.model.statuses import Stage
from tests.core.operators.hands import EPOCH, A, B, FakeHands, drop, lost, puts, seen, tick
from tests.core.support import spec

PARENT = spec("p", b"b", b"y")
LEFT, RIGHT = spec("l", b"b", b"m"), spec("r", b"m", b"y")


def split_in(state: SplitState, *, position: int = 42) -> tuple[FakeHands, Split]:
    """A split of p on A into l and r that got this far by itself."""
    hands = FakeHands()
    hands.live(PARENT, A, position=position)
    split = Split("op", hands, hands.seq + 1, "p", A, (LEFT, RIGHT))
    hands.begin(split)
    if state is not SplitState.RECORDING:
        hands.land()
    if state not in (SplitState.RECORDING, SplitState.STOPPING):
        seen(split, A, "p", split.removal.token, Stage.GONE)
    if state in (SplitState.CREATING, SplitState.DONE):
        hands.land()
    if state is SplitState.DONE:
        for child in list(split.pending.values()):
            seen(split, A, child.span, child.token, Stage.WORKING)
    assert split.state is state
    hands.asks.clear()
    return hands, split


BEFORE = [SplitState.RECORDING, SplitState.STOPPING]
AFTER = [SplitState.COMMITTING, SplitState.CREATING]


# --- the way of a split -------------------------------------------------------------------------


def test_the_parent_is_asked_to_stop_only_when_the_split_is_recorded() -> None:
    hands, split = split_in(SplitState.RECORDING)
    assert hands.asks == []
    assert hands.land().puts == (split.record,)
    assert hands.asked(Remove) == [(A, Remove("p", split.removal.token))]


def test_o6_the_record_says_what_the_children_are() -> None:
    _, split = split_in(SplitState.RECORDING)
    assert (split.record.spans, split.record.results) == (("p",), (LEFT, RIGHT))


def test_o6_no_child_is_there_before_the_parent_is_gone() -> None:
    hands, split = split_in(SplitState.STOPPING)
    seen(split, A, "p", split.removal.token, Stage.STOPPING)
    tick(split)
    assert hands.ids() == {"p"}
    assert hands.asked(Create) == []


def test_o6_the_commit_is_one_batch_parent_out_children_in() -> None:
    hands, split = split_in(SplitState.COMMITTING)
    written = hands.land()
    assert [record.span for record in puts(written)] == [LEFT, RIGHT]
    assert set(written.deletes) == {RecordKey("span", "p"), key_of(split.record)}


def test_o6_the_children_are_recorded_at_the_parents_node_and_descend_from_it() -> None:
    hands, _ = split_in(SplitState.COMMITTING)
    records = puts(hands.land())
    assert {record.node for record in records} == {A}
    assert {record.lineage for record in records} == {Lineage(("p",), (LEFT, RIGHT))}


def test_o6_the_children_start_from_what_is_known_of_the_parent() -> None:
    hands, _ = split_in(SplitState.COMMITTING, position=42)
    assert {record.start for record in puts(hands.land())} == {42}


def test_the_children_are_asked_for_only_when_they_are_durable() -> None:
    hands, _ = split_in(SplitState.COMMITTING)
    assert hands.asks == []
    hands.land()
    assert [(node, request.spec) for node, request in hands.asked(Create)] == [
        (A, LEFT),
        (A, RIGHT),
    ]


def test_f9_the_children_carry_the_epoch_and_the_sequence_of_the_splits_begin() -> None:
    hands, split = split_in(SplitState.STOPPING)
    hands.epoch = EPOCH + 1
    hands.seq = 5_000
    seen(split, A, "p", split.removal.token, Stage.GONE)
    hands.land()
    assert [request.token for _, request in hands.asked(Create)] == [
        Token(EPOCH, 102, 1),
        Token(EPOCH, 103, 1),
    ]


def test_f9_the_base_in_the_record_is_below_the_childrens_tokens() -> None:
    _, split = split_in(SplitState.RECORDING)
    assert all(split.record.base < child.token for child in split.pending.values())
    assert split.first_seq == split.record.base.seq


def test_it_is_through_when_every_child_runs() -> None:
    hands, split = split_in(SplitState.CREATING)
    left, right = split.pending["l"], split.pending["r"]
    seen(split, A, "l", left.token, Stage.WORKING)
    assert hands.through == []
    assert hands.held == ("r",)
    seen(split, A, "r", right.token, Stage.WORKING)
    assert hands.through == [split]


def test_only_children_that_do_not_run_yet_are_asked_for_again() -> None:
    hands, split = split_in(SplitState.CREATING)
    seen(split, A, "l", split.pending["l"].token, Stage.WORKING)
    tick(split)
    assert [request.spec for _, request in hands.asked(Create)] == [RIGHT]


def test_a_child_that_came_to_nothing_is_absent_and_the_other_goes_on() -> None:
    hands, split = split_in(SplitState.CREATING)
    seen(split, A, "l", split.pending["l"].token, Stage.FENCED)
    assert hands.is_absent("l")
    assert not hands.is_absent("r")
    assert hands.through == []


def test_it_holds_the_parent_and_then_the_children() -> None:
    hands, _ = split_in(SplitState.STOPPING)
    assert hands.held == ("p",)
    hands, _ = split_in(SplitState.COMMITTING)
    assert hands.held == ("l", "r")


# --- O6: deaths ---------------------------------------------------------------------------------


@pytest.mark.parametrize("state", BEFORE)
def test_o6_the_origin_dies_before_the_commit_the_parent_is_absent_and_no_child_is(
    state: SplitState,
) -> None:
    hands, split = split_in(state)
    lost(split, A)
    assert hands.through == [split]
    assert hands.ids() == {"p"}
    assert hands.is_absent("p")
    while hands.writing:
        hands.land()
    assert hands.written[-1].deletes == (key_of(split.record),)
    assert hands.asked(Create) == []


@pytest.mark.parametrize("state", AFTER)
def test_o6_the_origin_dies_after_the_commit_the_children_are_absent(state: SplitState) -> None:
    hands, split = split_in(state)
    lost(split, A)
    assert hands.through == [split]
    assert hands.is_absent("l")
    assert hands.is_absent("r")
    while hands.writing:
        hands.land()
    assert hands.asked(Create) == []


def test_o6_a_child_that_runs_already_is_not_lost_by_the_operator() -> None:
    """Whoever runs there is the maintainer's to lose: the split has let it go."""
    hands, split = split_in(SplitState.CREATING)
    seen(split, A, "l", split.pending["l"].token, Stage.WORKING)
    lost(split, A)
    assert not hands.is_absent("l")
    assert hands.is_absent("r")


@pytest.mark.parametrize("state", [s for s in SplitState if s is not SplitState.DONE])
def test_another_node_that_dies_is_no_concern(state: SplitState) -> None:
    hands, split = split_in(state)
    lost(split, B)
    assert (split.state, hands.through) == (state, [])


# --- O3, O6: drops ------------------------------------------------------------------------------


@pytest.mark.parametrize("state", BEFORE)
def test_o6_dropped_before_the_commit_no_child_comes_and_the_parent_is_cleared(
    state: SplitState,
) -> None:
    hands, split = split_in(state)
    drop(hands, split, "p")
    while hands.writing:
        hands.land()
    assert hands.through == [split]
    assert hands.removes == [("p", A)]
    assert hands.ids() == set()
    assert hands.written[-1].deletes == (key_of(split.record),)


def test_o3_dropped_before_the_children_were_asked_for_nobody_is() -> None:
    hands, split = split_in(SplitState.COMMITTING)
    drop(hands, split, "l")
    drop(hands, split, "r")
    hands.land()
    assert hands.asks == []
    assert hands.removes == []
    assert hands.through == [split]


def test_o3_dropped_after_the_children_were_asked_for_they_are_cleared() -> None:
    hands, split = split_in(SplitState.CREATING)
    drop(hands, split, "l")
    drop(hands, split, "r")
    assert hands.removes == [("l", A), ("r", A)]
    assert hands.through == [split]


@pytest.mark.parametrize("state", [s for s in SplitState if s is not SplitState.DONE])
def test_o3_a_dropped_span_is_not_put_back_by_a_death(state: SplitState) -> None:
    hands, split = split_in(state)
    for span in sorted(hands.ids()):
        drop(hands, split, span)
    lost(split, A)
    assert hands.ids() == set()
    assert hands.spans.absent == {}
