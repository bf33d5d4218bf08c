"""Wishes and operators of a running maintainer: people's verbs, one holder per span (O4 to O9)."""

import pytest

from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.events import MergeSpans, MoveSpan, SplitSpan
from lockgate.model.feeds import FeedSpec
from lockgate.model.ids import NodeRef
from lockgate.model.instructions import Answer
from lockgate.model.records import OperatorKind
from lockgate.model.requests import Create, Hold, Prepare, Release, Remove, Request
from lockgate.model.spans import TRIGGER, WHOLE
from lockgate.model.statuses import DispatcherStatus, Stage
from tests.core.maintainer.owner import (
    A,
    B,
    C,
    Owner,
    gone,
    node_of,
    other,
    prepared,
    running,
    working,
)
from tests.core.support import FEED, of


def answer(owner: Owner, request: str = "r") -> str | None:
    """The code a person was answered with; None: not yet."""
    codes = [one.code for one in of(Answer, owner.out) if one.request == request]
    assert len(codes) <= 1, "answered twice"
    return codes[0] if codes else None


def divided(*, nodes: tuple[NodeRef, ...] = (A, B)) -> Owner:
    """A feed whose one table has two spans, cut at m."""
    owner = running("t", nodes=nodes)
    owner.handle(SplitSpan("", FEED, owner.only().id, (b"m",)))
    owner.tick()
    owner.settle()
    return owner


def in_key_order(owner: Owner) -> tuple[str, ...]:
    records = sorted(owner.spans().values(), key=lambda record: record.span.range.low)
    return tuple(record.id for record in records)


# --- refusals -----------------------------------------------------------------------------------


def test_a_person_is_told_when_the_span_is_unknown() -> None:
    owner = running("t")
    owner.handle(MoveSpan("r", FEED, "nothing", "a"))
    owner.tick()
    assert answer(owner) == "unknown-span"


def test_a_person_is_told_when_the_node_is_unknown() -> None:
    owner = running("t")
    owner.handle(MoveSpan("r", FEED, owner.only().id, "nowhere"))
    owner.tick()
    assert answer(owner) == "unknown-node"


def test_a_move_to_where_it_is_is_done_already() -> None:
    owner = running("t")
    owner.handle(MoveSpan("r", FEED, owner.only().id, node_of(owner, owner.only().id).node))
    owner.tick()
    assert answer(owner) == ""
    assert owner.machine.operators == {}


@pytest.mark.parametrize("points", [(), (b"",), (b"m", b"m"), (b"p", b"m")])
def test_o6_split_points_that_do_not_rise_inside_the_span_are_refused(
    points: tuple[bytes, ...],
) -> None:
    owner = running("t")
    owner.handle(SplitSpan("r", FEED, owner.only().id, points))
    owner.tick()
    assert answer(owner) == "bad-split-points"
    assert owner.machine.operators == {}


@pytest.mark.parametrize("verb", ["split", "merge"])
def test_the_trigger_is_neither_cut_nor_joined(verb: str) -> None:
    owner = running("t")
    if verb == "split":
        owner.handle(SplitSpan("r", FEED, TRIGGER, (b"m",)))
    else:
        owner.handle(MergeSpans("r", FEED, (TRIGGER, owner.only().id)))
    owner.tick()
    assert answer(owner) == "trigger-span"


def test_o7_only_neighbours_are_merged() -> None:
    owner = running("t")
    owner.handle(SplitSpan("", FEED, owner.only().id, (b"g", b"p")))
    owner.tick()
    owner.settle()
    first, second, third = in_key_order(owner)
    for spans in [(first, third), (second, first), (first,), (first, first)]:
        owner.out.clear()
        owner._asked = 0
        owner.handle(MergeSpans("r", FEED, spans))
        owner.tick()
        assert answer(owner) == "not-neighbours", spans
    assert owner.machine.operators == {}


def test_o7_spans_of_two_tables_are_not_merged() -> None:
    owner = running("t", "u")
    owner.handle(MergeSpans("r", FEED, tuple(owner.spans())))
    owner.tick()
    assert answer(owner) == "not-neighbours"


def test_a_person_is_told_done_only_when_the_operator_is_durable() -> None:
    owner = running("t")
    span = owner.only().id
    owner.hold = True
    owner.handle(MoveSpan("r", FEED, span, other(node_of(owner, span)).node))
    owner.tick()
    assert answer(owner) is None
    owner.land_all()
    assert answer(owner) == ""


def _asked_of_a_span_that_does_not_work() -> Owner:
    owner = running("t")
    span = owner.only()
    node = node_of(owner, span.id)
    owner.says(node, DispatcherStatus(span.id, span.token, Stage.STARTING))
    owner.handle(MoveSpan("r", FEED, span.id, other(node).node))
    owner.tick()
    return owner


def test_a_person_whose_wish_cannot_begin_is_told_so_while_listening() -> None:
    owner = _asked_of_a_span_that_does_not_work()
    owner.tick(owner.config.timing.request_wait_ms - 1)
    assert answer(owner) is None
    owner.tick(1)
    assert answer(owner) == "span-busy"


def test_what_a_person_was_told_was_not_begun_does_not_begin_later() -> None:
    owner = _asked_of_a_span_that_does_not_work()
    owner.tick(owner.config.timing.request_wait_ms)
    span = owner.only()
    owner.says(node_of(owner, span.id), working(span))
    owner.tick()
    assert owner.machine.operators == {}
    assert owner.machine.operating.wishes == []


def test_the_trigger_can_be_moved() -> None:
    owner = running("t")
    to = other(node_of(owner, TRIGGER))
    owner.handle(MoveSpan("r", FEED, TRIGGER, to.node))
    owner.tick()
    owner.settle()
    assert owner.trigger.node == to


# --- O9: one holder per span --------------------------------------------------------------------


def test_o9_a_second_wish_for_a_span_waits_for_the_first() -> None:
    owner = running("t", nodes=(A, B, C))
    span = owner.only().id
    first, second = (ref for ref in (A, B, C) if ref != node_of(owner, span))
    owner.handle(MoveSpan("r1", FEED, span, first.node))
    owner.handle(MoveSpan("r2", FEED, span, second.node))
    owner.tick()
    assert len(owner.machine.operators) == 1
    assert answer(owner, "r2") is None
    owner.settle()
    assert owner.only().node == second


def test_o9_a_merge_waits_while_one_of_its_spans_is_held() -> None:
    owner = divided()
    left, right = in_key_order(owner)
    owner.handle(MoveSpan("r1", FEED, left, other(node_of(owner, left)).node))
    owner.tick()
    owner.handle(MergeSpans("r2", FEED, (left, right)))
    owner.tick()
    kinds = [operator.kind for operator in owner.machine.operators.values()]
    assert kinds == [OperatorKind.MOVE]


def test_o9_a_wish_waits_until_its_span_works() -> None:
    owner = running("t")
    span = owner.only()
    node = node_of(owner, span.id)
    owner.says(node, DispatcherStatus(span.id, span.token, Stage.STARTING))
    owner.handle(MoveSpan("r", FEED, span.id, other(node).node))
    owner.tick()
    assert owner.machine.operators == {}
    owner.says(node, working(span))
    owner.tick()
    assert len(owner.machine.operators) == 1


def test_o9_a_split_whose_span_was_split_meanwhile_lapses() -> None:
    owner = running("t")
    span = owner.only().id
    owner.handle(SplitSpan("r1", FEED, span, (b"m",)))
    owner.handle(SplitSpan("r2", FEED, span, (b"g",)))
    owner.tick()
    owner.settle()
    assert (answer(owner, "r1"), answer(owner, "r2")) == ("", "unknown-span")


# --- O4, O5: moves ------------------------------------------------------------------------------


def test_o4_the_destination_is_asked_only_after_the_origin_is_gone() -> None:
    owner = running("t")
    span = owner.only()
    origin = node_of(owner, span.id)
    owner.handle(MoveSpan("r", FEED, span.id, other(origin).node))
    owner.tick()
    ((node, removal),) = owner.asked(Remove)
    assert node == origin
    owner.tick()
    assert owner.asked(Create) == []
    owner.says(origin, gone(span.id, removal.token))
    assert [node for node, _ in owner.asked(Create)] == [other(origin)]


def test_o4_the_origin_dies_it_goes_on_at_the_destination() -> None:
    owner = running("t", nodes=(A, B, C))
    span = owner.only()
    origin = node_of(owner, span.id)
    destination = other(origin, (A, B, C))
    owner.handle(MoveSpan("r", FEED, span.id, destination.node))
    owner.tick()
    owner.see(*(ref for ref in (A, B, C) if ref != origin))
    owner.settle()
    assert owner.only().node == destination


def test_o4_both_die_it_is_placed_where_somebody_is() -> None:
    owner = running("t", nodes=(A, B, C))
    span = owner.only()
    origin = node_of(owner, span.id)
    destination = other(origin, (A, B, C))
    (rest,) = {A, B, C} - {origin, destination}
    owner.handle(MoveSpan("r", FEED, span.id, destination.node))
    owner.tick()
    owner.see(rest)
    owner.settle()
    assert owner.only().node == rest
    assert owner.operators() == {}


def test_o5_a_moved_spans_position_is_never_below_what_the_origin_reported() -> None:
    owner = running("t")
    span = owner.only()
    origin = node_of(owner, span.id)
    owner.says(origin, working(span, 77))
    owner.handle(MoveSpan("r", FEED, span.id, other(origin).node))
    owner.tick()
    owner.settle()
    assert owner.machine.spans[span.id].position == 77


# --- O6: splits ---------------------------------------------------------------------------------


def test_o6_the_recorded_children_cover_exactly_the_parent() -> None:
    owner = running("t")
    owner.handle(SplitSpan("r", FEED, owner.only().id, (b"c", b"m", b"x")))
    owner.tick()
    owner.settle()
    ranges = {record.span.range for record in owner.spans().values()}
    assert ranges == set(WHOLE.divided((b"c", b"m", b"x")))


@pytest.mark.parametrize("points", [(b"m",), (b"a", b"b", b"c")])
def test_f9_children_carry_the_epoch_and_the_sequence_base_of_the_split(
    points: tuple[bytes, ...],
) -> None:
    """Whatever else is given out between the split's begin and its commit."""
    owner = running("t", "u")
    span = next(iter(owner.spans()))
    origin = node_of(owner, span)
    owner.handle(SplitSpan("r", FEED, span, points))
    owner.tick()
    (record,) = owner.operators().values()
    for _ in range(20):
        owner.machine.reach.next_token(A)
    owner.says(origin, gone(span, record.base))
    tokens = [owner.span(child.id).token for child in record.results]
    base = record.base
    assert [(t.epoch, t.seq) for t in tokens] == [
        (base.epoch, base.seq + n + 1) for n in range(len(points) + 1)
    ]


def test_o6_a_split_whose_origin_dies_leaves_no_child() -> None:
    owner = running("t")
    span = owner.only()
    origin = node_of(owner, span.id)
    owner.handle(SplitSpan("r", FEED, span.id, (b"m",)))
    owner.tick()
    owner.see(other(origin))
    owner.settle()
    assert owner.only().id == span.id
    assert owner.operators() == {}


# --- O7, O8: merges -----------------------------------------------------------------------------


def merging(owner: Owner) -> tuple[tuple[str, ...], list[tuple[NodeRef, Request]]]:
    """A merge of all spans under way: its sources, and what was asked."""
    sources = in_key_order(owner)
    owner.take_asked()
    owner.handle(MergeSpans("r", FEED, sources))
    owner.tick()
    asked = owner.take_asked()
    assert {type(request) for _, request in asked} == {Hold, Prepare}
    return sources, asked


def obey(owner: Owner, asked: list[tuple[NodeRef, Request]], kind: type[Request]) -> None:
    for node, request in asked:
        if isinstance(request, kind):
            owner._obey(node, request)


def test_o7_nothing_is_committed_before_everybody_waits() -> None:
    owner = divided()
    sources, asked = merging(owner)
    obey(owner, asked, Hold)
    assert set(owner.spans()) == set(sources)
    obey(owner, asked, Prepare)
    assert set(owner.spans()).isdisjoint(sources)


def test_o7_the_target_is_created_and_the_sources_removed_after_the_commit_point() -> None:
    owner = divided()
    sources, asked = merging(owner)
    obey(owner, asked, Hold)
    owner.hold = True
    obey(owner, asked, Prepare)
    assert owner.take_asked() == []
    owner.land_all()
    then = owner.take_asked()
    assert {r.span for _, r in then if isinstance(r, Create)} == set(owner.spans())
    assert {r.span for _, r in then if isinstance(r, Remove)} == set(sources)


def test_o8_the_merged_checkpoint_is_the_least_of_the_sources() -> None:
    owner = divided()
    left, right = in_key_order(owner)
    owner.says(node_of(owner, left), working(owner.span(left), 70))
    owner.says(node_of(owner, right), working(owner.span(right), 50))
    _, asked = merging(owner)
    obey(owner, asked, Hold)
    obey(owner, asked, Prepare)
    assert owner.only().start == 50
    assert owner.machine.spans[owner.only().id].position == 50


def wait_too_long(owner: Owner) -> None:
    """Everybody is alive, and nothing gets further: the merge is given up."""
    for _ in range(owner.config.timing.merge_wait_ms // 1_000 + 1):
        for node in (A, B):
            owner.says(node)
        owner.tick()
    assert owner.machine.operators == {}
    owner.take_asked()


def test_o7_given_up_for_time_the_sources_are_released() -> None:
    owner = divided()
    sources, asked = merging(owner)
    obey(owner, asked, Hold)
    wait_too_long(owner)
    assert owner.operators() == {}
    (operator,) = {r.operator for _, r in asked if isinstance(r, Hold)}
    for span in sources:
        record = owner.span(span)
        held = DispatcherStatus(span, record.token, Stage.HELD, operator=operator)
        owner.says(node_of(owner, span), held)
    assert {r.span for _, r in owner.asked(Release)} == set(sources)


def test_o7_given_up_the_prepared_target_is_removed() -> None:
    owner = divided()
    _, asked = merging(owner)
    wait_too_long(owner)
    ((node, prepare),) = [(n, r) for n, r in asked if isinstance(r, Prepare)]
    owner.says(node, prepared(prepare))
    assert [(n, r.span) for n, r in owner.asked(Remove)] == [(node, prepare.span)]


def spread() -> Owner:
    """Two spans of one table on two nodes, a third node beside them."""
    owner = divided(nodes=(A, B, C))
    left, right = in_key_order(owner)
    if node_of(owner, left) == node_of(owner, right):
        to = next(ref for ref in (A, B, C) if ref != node_of(owner, left))
        owner.handle(MoveSpan("", FEED, right, to.node))
        owner.tick()
        owner.settle()
    return owner


@pytest.mark.parametrize("which", [0, 1], ids=["the target's node too", "another source's node"])
def test_o7_a_sources_node_dies_before_the_commit_point_the_sources_stand(which: int) -> None:
    owner = spread()
    sources, asked = merging(owner)
    obey(owner, asked, Hold)
    dead = node_of(owner, sources[which])
    owner.see(*(ref for ref in (A, B, C) if ref != dead))
    owner.settle()
    assert set(owner.spans()) == set(sources)
    assert owner.operators() == {}
    assert node_of(owner, sources[which]) != dead


@pytest.mark.parametrize("which", [0, 1], ids=["the target's node too", "another source's node"])
def test_o7_a_sources_node_dies_after_the_commit_point_the_target_stands(which: int) -> None:
    owner = spread()
    sources, asked = merging(owner)
    dead = node_of(owner, sources[which])
    obey(owner, asked, Hold)
    obey(owner, asked, Prepare)
    owner.see(*(ref for ref in (A, B, C) if ref != dead))
    owner.settle()
    assert owner.only().span.range == WHOLE
    assert owner.only().node != dead


def reports_of(
    owner: Owner, *more: tuple[NodeRef, DispatcherStatus]
) -> dict[NodeRef, tuple[DispatcherStatus, ...]]:
    """Everything runs as it is recorded, but for what is said otherwise."""
    told: dict[NodeRef, list[DispatcherStatus]] = {A: [], B: [], C: []}
    for node, status in more:
        told[node].append(status)
    spoken = {status.span for _, status in more}
    for record in [owner.trigger, *owner.spans().values()]:
        if record.id not in spoken:
            assert record.node is not None
            told[record.node].append(working(record))
    return {node: tuple(statuses) for node, statuses in told.items()}


def test_b2_a_merge_whose_owner_died_before_the_commit_point_is_cleaned_up_and_done_anew() -> None:
    former = spread()
    sources, asked = merging(former)
    ((node, prepare),) = [(n, r) for n, r in asked if isinstance(r, Prepare)]
    told = [(node, prepared(prepare))]
    for span in sources:
        record = former.span(span)
        held = DispatcherStatus(span, record.token, Stage.HELD, operator=prepare.operator)
        told.append((node_of(former, span), held))
    reports = reports_of(former, *told)
    owner = Owner(former=former, epoch=2)
    owner.boot(reports)
    asked = owner.take_asked()
    assert {r.span for _, r in asked if isinstance(r, Release)} == set(sources)
    assert [r.span for _, r in asked if isinstance(r, Remove)] == [prepare.span]
    for span in sources:
        owner.says(node_of(owner, span), working(owner.span(span)))
    owner.tick()
    owner.settle()
    assert owner.only().span.range == WHOLE
    assert owner.only().id != prepare.span


def test_b2_a_merge_whose_owner_died_after_the_commit_point_is_finished() -> None:
    former = spread()
    sources, asked = merging(former)
    places = {span: (node_of(former, span), former.span(span).token) for span in sources}
    ((node, prepare),) = [(n, r) for n, r in asked if isinstance(r, Prepare)]
    obey(former, asked, Hold)
    former.hold = True
    obey(former, asked, Prepare)
    former.store.commit(former.held.pop())
    told = [(node, prepared(prepare))]
    for span, (place, token) in places.items():
        held = DispatcherStatus(span, token, Stage.HELD, operator=prepare.operator)
        told.append((place, held))
    owner = Owner(former=former, epoch=2)
    owner.boot(reports_of(owner, *told))
    asked = owner.take_asked()
    assert {r.span for _, r in asked if isinstance(r, Remove)} == set(sources)
    assert [r.span for _, r in asked if isinstance(r, Create)] == [prepare.span]
    assert owner.only().id == prepare.span


def test_o7_an_owner_that_dies_with_the_commit_in_flight_leaves_one_side_or_the_other() -> None:
    for landed in (True, False):
        former = spread()
        sources, asked = merging(former)
        obey(former, asked, Hold)
        former.hold = True
        obey(former, asked, Prepare)
        if landed:
            former.store.commit(former.held.pop())
        owner = Owner(former=former, epoch=2)
        owner.boot(dict.fromkeys((A, B, C), ()))
        spans = set(owner.spans())
        assert spans == set(sources) or (landed and len(spans) == 1)


# --- O3: drops ----------------------------------------------------------------------------------

DROP = Ddl(100, DdlKind.DROP, ("t",))


@pytest.mark.parametrize("verb", ["none", "move", "split", "merge"])
def test_o3_a_dropped_tables_spans_never_reappear_whatever_was_in_flight(verb: str) -> None:
    owner = running("t", "u") if verb != "merge" else _two_tables_divided()
    dropped = [span for span, record in owner.spans().items() if record.span.table == "t"]
    if verb == "move":
        to = other(node_of(owner, dropped[0]))
        owner.handle(MoveSpan("r", FEED, dropped[0], to.node))
    elif verb == "split":
        owner.handle(SplitSpan("r", FEED, dropped[0], (b"m",)))
    elif verb == "merge":
        owner.handle(MergeSpans("r", FEED, tuple(dropped)))
    owner.tick()
    owner.take_asked()
    _write_ddl(owner, DROP, dropped)
    owner.settle()
    assert [record.span.table for record in owner.spans().values()] == ["u"]
    assert owner.operators() == {}
    assert owner.barrier() is None
    for node in (A, B):
        owner.says(node, full=True)
    owner.tick()
    assert [r.spec.table for _, r in owner.asked(Create) if r.spec.table == "t"] == []


def _two_tables_divided() -> Owner:
    owner = running(spec=FeedSpec(tables=("t", "u")))
    span = next(s for s, record in owner.spans().items() if record.span.table == "t")
    owner.handle(SplitSpan("", FEED, span, (b"m",)))
    owner.tick()
    owner.settle()
    return owner


def _write_ddl(owner: Owner, ddl: Ddl, spans: list[str]) -> None:
    """Everybody stands before the DDL, and the trigger writes it."""
    for span in spans:
        record = owner.span(span)
        blocked = working(record, ddl.position - 1, barrier=ddl.position)
        owner.says(node_of(owner, span), blocked)
    trigger = owner.trigger
    place = node_of(owner, TRIGGER)
    owner.says(place, working(trigger, ddl.position - 1, barrier=ddl.position, ddl=ddl))
    owner.says(place, working(trigger, ddl.position, barrier=ddl.position, ddl=ddl))
