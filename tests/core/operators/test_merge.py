"""merge: before the commit point the sources stand, after it the target does (O7, O8, O3)."""

import pytest

from lockgate.core.operators.base import Dropped
from lockgate.core.operators.merge import Merge, MergeState, Source
from lockgate.model.ids import NodeRef
from lockgate.model.records import RecordKey, key_of
from lockgate.model.requests import Create, Hold, Prepare, Remove
from lockgate.model.spans import Lineage
from lockgate.model.statuses import Stage
from tests.core.operators.hands import A, B, C, FakeHands, drop, lost, puts, seen, tick
from tests.core.support import spec

LEFT, RIGHT, TARGET = spec("l", b"", b"m"), spec("r", b"m"), spec("t")
DEADLINE = 20_000


def merge_in(state: MergeState, positions: tuple[int, int] = (30, 20)) -> tuple[FakeHands, Merge]:
    """A merge of l on A and r on B that got this far by itself. The target goes to A."""
    hands = FakeHands()
    left = hands.live(LEFT, A, 1, position=positions[0])
    right = hands.live(RIGHT, B, 2, position=positions[1])
    sources = [Source("l", A, left.token), Source("r", B, right.token)]
    merge = Merge("op", hands, hands.seq + 1, sources, TARGET, DEADLINE)
    hands.begin(merge)
    if state is not MergeState.RECORDING:
        hands.land()
    if state not in (MergeState.RECORDING, MergeState.HOLDING):
        hold_all(merge)
        prepare(merge)
    if state in (MergeState.FINISHING, MergeState.DONE):
        hands.land()
    if state is MergeState.DONE:
        finish(merge)
    assert merge.state is state
    hands.asks.clear()
    return hands, merge


def hold_all(merge: Merge) -> None:
    for source in merge.sources.values():
        seen(merge, source.node, source.span, source.token, Stage.HELD, merge="op")


def prepare(merge: Merge) -> None:
    assert merge.placement is not None
    seen(merge, A, "t", merge.placement.token, Stage.PREPARING, merge="op")


def finish(merge: Merge) -> None:
    assert merge.placement is not None
    seen(merge, A, "t", merge.placement.token, Stage.WORKING)
    for removal in list(merge.removals.values()):
        seen(merge, removal.node, removal.span, removal.token, Stage.GONE)


BEFORE = [MergeState.RECORDING, MergeState.HOLDING]
AFTER = [MergeState.COMMITTING, MergeState.FINISHING]


def assert_aborted(hands: FakeHands, merge: Merge) -> None:
    while hands.writing:
        hands.land()
    assert hands.through == [merge]
    assert hands.written[-1].deletes == (key_of(merge.record),)
    assert hands.asked(Create) == []
    assert "t" not in hands.ids()


# --- the way of a merge -------------------------------------------------------------------------


def test_o7_nobody_is_held_before_the_merge_is_recorded() -> None:
    hands, merge = merge_in(MergeState.RECORDING)
    assert hands.asks == []
    assert hands.land().puts == (merge.record,)
    requests = [(node, type(request)) for node, request in hands.asks]
    assert requests == [(A, Hold), (B, Hold), (A, Prepare)]


def test_o7_the_record_says_which_spans_become_which() -> None:
    _, merge = merge_in(MergeState.RECORDING)
    assert (merge.record.spans, merge.record.results) == (("l", "r"), (TARGET,))


def test_o7_all_held_is_not_enough_without_the_target_prepared() -> None:
    _, merge = merge_in(MergeState.HOLDING)
    hold_all(merge)
    assert merge.state is MergeState.HOLDING


def test_o7_the_target_prepared_is_not_enough_without_every_source_held() -> None:
    _, merge = merge_in(MergeState.HOLDING)
    prepare(merge)
    seen(merge, A, "l", merge.sources["l"].token, Stage.HELD, merge="op")
    assert merge.state is MergeState.HOLDING


def test_o7_a_source_held_by_another_merge_does_not_count() -> None:
    _, merge = merge_in(MergeState.HOLDING)
    prepare(merge)
    for source in merge.sources.values():
        seen(merge, source.node, source.span, source.token, Stage.HELD, merge="former")
    assert merge.state is MergeState.HOLDING


def test_o7_a_source_that_is_only_being_held_does_not_count() -> None:
    _, merge = merge_in(MergeState.HOLDING)
    prepare(merge)
    for source in merge.sources.values():
        seen(merge, source.node, source.span, source.token, Stage.WORKING, merge="op")
    assert merge.state is MergeState.HOLDING


def test_o7_only_what_does_not_show_is_asked_for_again() -> None:
    hands, merge = merge_in(MergeState.HOLDING)
    prepare(merge)
    seen(merge, A, "l", merge.sources["l"].token, Stage.HELD, merge="op")
    tick(merge)
    assert [(node, request.span) for node, request in hands.asks] == [(B, "r")]


def test_o7_the_commit_is_one_batch_sources_out_target_in() -> None:
    hands, merge = merge_in(MergeState.COMMITTING)
    assert hands.asks == []
    written = hands.land()
    (record,) = puts(written)
    assert (record.span, record.node) == (TARGET, A)
    assert record.lineage == Lineage(("l", "r"), (TARGET,))
    assert set(written.deletes) == {
        RecordKey("span", "l"),
        RecordKey("span", "r"),
        key_of(merge.record),
    }


@pytest.mark.parametrize("positions", [(30, 20), (20, 30), (20, 20)])
def test_o8_the_merged_position_is_the_least_of_the_sources(positions: tuple[int, int]) -> None:
    hands, _ = merge_in(MergeState.COMMITTING, positions)
    assert hands.spans["t"].position == 20
    (record,) = puts(hands.land())
    assert record.start == 20


def test_o7_after_the_commit_point_the_target_runs_and_the_sources_go() -> None:
    hands, _ = merge_in(MergeState.COMMITTING)
    hands.land()
    assert [(n, type(r), r.span) for n, r in hands.asks] == [
        (A, Create, "t"),
        (A, Remove, "l"),
        (B, Remove, "r"),
    ]


def test_o7_the_target_begins_under_the_token_it_was_prepared_with() -> None:
    hands, merge = merge_in(MergeState.HOLDING)
    tick(merge)
    ((_, asked),) = hands.asked(Prepare)
    hold_all(merge)
    prepare(merge)
    hands.land()
    ((_, request),) = hands.asked(Create)
    assert request.token == asked.token


def test_o7_the_removals_carry_tokens_of_their_own_above_the_sources() -> None:
    _, merge = merge_in(MergeState.COMMITTING)
    for source in merge.sources.values():
        assert merge.removals[source.span].token > source.token


def test_it_is_through_when_the_target_runs_and_every_source_is_gone() -> None:
    hands, merge = merge_in(MergeState.FINISHING)
    assert merge.placement is not None
    seen(merge, A, "t", merge.placement.token, Stage.WORKING)
    assert hands.through == []
    for removal in list(merge.removals.values()):
        seen(merge, removal.node, removal.span, removal.token, Stage.GONE)
    assert hands.through == [merge]


def test_the_target_is_free_once_it_runs_though_sources_are_still_going() -> None:
    hands, merge = merge_in(MergeState.FINISHING)
    assert merge.placement is not None
    seen(merge, A, "t", merge.placement.token, Stage.WORKING)
    assert set(hands.held) == {"l", "r"}


def test_what_does_not_show_after_the_commit_is_asked_for_again() -> None:
    hands, merge = merge_in(MergeState.FINISHING)
    seen(merge, A, "l", merge.removals["l"].token, Stage.GONE)
    tick(merge)
    assert [(type(request), request.span) for _, request in hands.asks] == [
        (Create, "t"),
        (Remove, "r"),
    ]


@pytest.mark.parametrize("stage", [Stage.FENCED, Stage.FAILED, Stage.GONE])
def test_a_target_that_came_to_nothing_is_absent_and_the_sources_still_go(stage: Stage) -> None:
    hands, merge = merge_in(MergeState.FINISHING)
    assert merge.placement is not None
    seen(merge, A, "t", merge.placement.token, stage)
    assert hands.is_absent("t")
    assert hands.through == []
    assert set(merge.removals) == {"l", "r"}


def test_it_holds_sources_and_target_until_the_commit() -> None:
    hands, _ = merge_in(MergeState.HOLDING)
    assert set(hands.held) == {"l", "r", "t"}


# --- O7: aborts before the commit point ---------------------------------------------------------


def test_o7_too_late_it_is_given_up_and_the_sources_stand() -> None:
    hands, merge = merge_in(MergeState.HOLDING)
    tick(merge, DEADLINE)
    assert_aborted(hands, merge)
    assert hands.ids() == {"l", "r"}
    assert hands.spans.absent == {}


def test_o7_in_time_it_goes_on() -> None:
    hands, merge = merge_in(MergeState.HOLDING)
    tick(merge, DEADLINE - merge.now - 1)
    assert hands.through == []


@pytest.mark.parametrize(("node", "span"), [(A, "l"), (B, "r")])
@pytest.mark.parametrize("state", BEFORE)
def test_o7_a_sources_node_dies_before_the_point_the_other_source_stands(
    state: MergeState, node: NodeRef, span: str
) -> None:
    hands, merge = merge_in(state)
    lost(merge, node)
    assert_aborted(hands, merge)
    assert hands.ids() == {"l", "r"}
    assert list(hands.spans.absent) == [span]


@pytest.mark.parametrize("stage", [Stage.FENCED, Stage.FAILED, Stage.GONE])
def test_o7_a_source_that_ended_aborts_it(stage: Stage) -> None:
    hands, merge = merge_in(MergeState.HOLDING)
    seen(merge, A, "l", merge.sources["l"].token, stage)
    assert_aborted(hands, merge)


@pytest.mark.parametrize("state", BEFORE)
def test_o3_o7_dropped_before_the_point_no_target_comes(state: MergeState) -> None:
    hands, merge = merge_in(state)
    drop(hands, merge, "l")
    assert_aborted(hands, merge)
    assert hands.removes == [("l", A)]
    assert hands.ids() == {"r"}


# --- O7: after the commit point -----------------------------------------------------------------


@pytest.mark.parametrize("state", AFTER)
def test_o7_the_targets_node_dies_after_the_point_the_target_is_absent_the_sources_stay_gone(
    state: MergeState,
) -> None:
    hands, merge = merge_in(state)
    lost(merge, A)
    assert hands.ids() == {"t"}
    assert hands.is_absent("t")
    assert "t" not in hands.held


@pytest.mark.parametrize("state", AFTER)
def test_o7_another_sources_node_dies_after_the_point_the_target_goes_on(state: MergeState) -> None:
    hands, merge = merge_in(state)
    lost(merge, B)
    assert not hands.is_absent("t")
    assert list(merge.removals) == ["l"]
    assert hands.through == []


@pytest.mark.parametrize("state", AFTER)
def test_o7_all_nodes_die_after_the_point_it_is_through(state: MergeState) -> None:
    hands, merge = merge_in(state)
    lost(merge, A)
    lost(merge, B)
    while hands.writing:
        hands.land()
    assert hands.through == [merge]
    assert hands.is_absent("t")
    assert hands.asked(Create) == []


def test_o7_after_the_point_time_does_not_matter() -> None:
    hands, merge = merge_in(MergeState.FINISHING)
    tick(merge, DEADLINE * 2)
    assert hands.through == []


def test_o3_dropped_before_the_target_was_asked_for_it_is_not_and_the_sources_go() -> None:
    hands, merge = merge_in(MergeState.COMMITTING)
    drop(hands, merge, "t")
    hands.land()
    assert [type(request) for _, request in hands.asks] == [Remove, Remove]


def test_o3_dropped_after_the_target_was_asked_for_it_is_cleared() -> None:
    hands, merge = merge_in(MergeState.FINISHING)
    drop(hands, merge, "t")
    assert hands.removes == [("t", A)]
    assert set(hands.held) == {"l", "r"}


@pytest.mark.parametrize("state", [s for s in MergeState if s is not MergeState.DONE])
def test_o3_a_dropped_span_is_not_put_back_by_a_death(state: MergeState) -> None:
    hands, merge = merge_in(state)
    for span in sorted(hands.ids()):
        hands.spans.drop(span)
    merge.handle(merge.now, Dropped("l" if state in BEFORE else "t"))
    lost(merge, A)
    lost(merge, B)
    assert hands.ids() == set()
    assert hands.spans.absent == {}


@pytest.mark.parametrize("state", [s for s in MergeState if s is not MergeState.DONE])
def test_another_node_that_dies_is_no_concern(state: MergeState) -> None:
    hands, merge = merge_in(state)
    lost(merge, C)
    assert (merge.state, hands.through) == (state, [])
