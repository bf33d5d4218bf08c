"""A new owner joins intent and reports, waits for no one, and believes no ghost (B3 to B7)."""

import pytest

from lockgate.model.batch import Loaded, LoadFailed
from lockgate.model.events import MoveSpan, SplitSpan, Tick
from lockgate.model.feeds import Outcome
from lockgate.model.ids import UNFENCED, NodeRef, Token
from lockgate.model.instructions import Answer, Commit, Load
from lockgate.model.messages import Bootstrap, BootstrapReply, Heartbeat, Stale
from lockgate.model.records import OperatorKind, OperatorRecord, SpanRecord, feed_scope
from lockgate.model.requests import Create, Release, Remove
from lockgate.model.spans import TRIGGER
from lockgate.model.statuses import DispatcherStatus, Phase, Stage
from tests.core.maintainer.owner import (
    A,
    B,
    C,
    Owner,
    node_of,
    other,
    running,
    working,
)
from tests.core.support import FEED, fingerprint, of, sent

TIMING = Owner("t").config.timing


def successor(former: Owner) -> Owner:
    return Owner(former=former, epoch=former.machine.epoch + 1)


def reports(owner: Owner) -> dict[NodeRef, tuple[DispatcherStatus, ...]]:
    """What nodes say that run everything as it is recorded."""
    told: dict[NodeRef, list[DispatcherStatus]] = {A: [], B: []}
    for record in [owner.trigger, *owner.spans().values()]:
        assert record.node is not None
        told[record.node].append(working(record))
    return {node: tuple(statuses) for node, statuses in told.items()}


def instead(
    told: dict[NodeRef, tuple[DispatcherStatus, ...]], node: NodeRef, status: DispatcherStatus
) -> None:
    """The node says this of the span, not what would be right."""
    others = (one for one in told[node] if one.span != status.span)
    told[node] = (*others, status)


# --- loading ------------------------------------------------------------------------------------


def test_nobody_is_asked_anything_before_the_intent_is_read() -> None:
    owner = Owner("t")
    owner.see(A, B)
    assert owner.out == []


def test_the_intent_is_asked_for_again_when_it_could_not_be_read() -> None:
    machine = Owner("t").machine
    assert of(Load, machine.handle(0, Tick())) != []
    machine.handle(0, LoadFailed(feed_scope(FEED)))
    assert of(Load, machine.handle(TIMING.resend_ms - 1, Tick())) == []
    assert of(Load, machine.handle(TIMING.resend_ms, Tick())) != []


def test_a_reading_of_a_former_epoch_is_waited_past() -> None:
    machine = Owner("t", epoch=2).machine
    machine.handle(0, Loaded(feed_scope(FEED), 1, 0, ()))
    assert machine.status().phase is Phase.LOADING


def test_f3_a_reading_of_a_newer_epoch_ends_it() -> None:
    machine = Owner("t").machine
    machine.handle(0, Loaded(feed_scope(FEED), 2, 0, ()))
    assert machine.status().outcome is Outcome.STALE


def test_a_feed_that_never_ran_gets_all_its_first_spans_in_one_batch() -> None:
    owner = Owner("t", "u")
    owner.hold = True
    owner.load()
    (batch,) = owner.held
    spans = {record.id: record for record in of(SpanRecord, batch.puts)}
    trigger = spans.pop(TRIGGER)
    assert {record.span.table for record in spans.values()} == {"t", "u"}
    assert trigger.birth is not None
    assert set(trigger.birth.spans) == {record.span for record in spans.values()}


def test_a_feed_that_ran_before_gets_no_new_spans() -> None:
    former = running("t")
    owner = successor(former)
    before = set(owner.spans())
    owner.load()
    assert set(owner.spans()) == before


# --- asking -------------------------------------------------------------------------------------


def test_every_member_is_asked() -> None:
    owner = Owner("t")
    owner.load()
    owner.see(A, B)
    owner.tick()
    assert len(sent(Bootstrap, owner.out)) == 2


def test_a_member_that_does_not_answer_is_asked_again() -> None:
    owner = Owner("t")
    owner.load()
    owner.see(A)
    owner.tick(0)
    owner.tick(TIMING.resend_ms - 1)
    assert len(sent(Bootstrap, owner.out)) == 1
    owner.tick(1)
    assert len(sent(Bootstrap, owner.out)) == 2


def test_nothing_is_placed_before_the_bootstrap_is_over() -> None:
    owner = Owner("t")
    owner.load()
    owner.see(A, B)
    owner.reply(A)
    owner.tick()
    assert owner.phase is Phase.BOOTSTRAPPING
    assert owner.take_asked() == []


def test_it_runs_as_soon_as_everybody_answered() -> None:
    owner = Owner("t")
    owner.load()
    owner.see(A, B)
    owner.reply(A)
    owner.reply(B)
    owner.tick(0)
    assert owner.phase is Phase.RUNNING


# --- B6: hung nodes -----------------------------------------------------------------------------


def test_b6_a_hung_node_is_not_waited_for_longer_than_agreed() -> None:
    owner = Owner("t")
    owner.load()
    owner.see(A, B)
    owner.reply(A)
    owner.tick(TIMING.bootstrap_wait_ms - 1)
    assert owner.phase is Phase.BOOTSTRAPPING
    owner.tick(1)
    assert owner.phase is Phase.RUNNING


def test_b6_what_was_recorded_on_a_hung_node_is_placed_anew_under_a_higher_token() -> None:
    former = running("t")
    span = former.only()
    hung, well = node_of(former, span.id), other(node_of(former, span.id))
    owner = successor(former)
    owner.load()
    owner.see(A, B)
    owner.reply(well, *reports(former)[well])
    owner.tick(TIMING.bootstrap_wait_ms)
    owner.settle()
    assert owner.only().node == well
    assert owner.only().token > span.token
    assert hung != well


def test_b6_with_every_node_hung_it_waits_for_the_first_to_answer() -> None:
    owner = Owner("t")
    owner.load()
    owner.see(A, B)
    owner.tick(TIMING.bootstrap_wait_ms * 2)
    assert owner.phase is Phase.BOOTSTRAPPING
    owner.reply(B)
    owner.tick(0)
    assert owner.phase is Phase.RUNNING


def test_b6_a_hung_node_that_wakes_up_is_told_to_let_go() -> None:
    former = running("t")
    span = former.only()
    hung, well = node_of(former, span.id), other(node_of(former, span.id))
    told = reports(former)
    owner = successor(former)
    owner.load()
    owner.see(A, B)
    owner.reply(well, *told[well])
    owner.tick(TIMING.bootstrap_wait_ms)
    owner.settle()
    owner.take_asked()
    owner.reply(hung, *told[hung])
    removed = [(node, request.span) for node, request in owner.asked(Remove)]
    assert (hung, span.id) in removed


# --- reconciling --------------------------------------------------------------------------------


def test_what_runs_as_it_is_recorded_is_left_alone() -> None:
    former = running("t", "u")
    owner = successor(former)
    owner.boot(reports(former))
    owner.tick()
    assert owner.take_asked() == []
    assert owner.machine.operators == {}


def test_a_recorded_span_that_nobody_reports_is_placed_anew() -> None:
    former = running("t")
    owner = successor(former)
    told = {
        node: tuple(status for status in statuses if status.span == TRIGGER)
        for node, statuses in reports(former).items()
    }
    owner.boot(told)
    assert [request.span for _, request in owner.asked(Create)] == [former.only().id]


def test_a_dispatcher_without_a_record_is_removed() -> None:
    former = running("t")
    owner = successor(former)
    told = reports(former)
    told[A] += (DispatcherStatus("ghost", Token(1, 9, 1), Stage.WORKING),)
    owner.boot(told)
    assert [(node, request.span) for node, request in owner.asked(Remove)] == [(A, "ghost")]


def test_a_dispatcher_on_another_node_than_the_recorded_one_is_removed() -> None:
    former = running("t")
    span = former.only()
    wrong = other(node_of(former, span.id))
    owner = successor(former)
    told = reports(former)
    told[wrong] += (working(span),)
    owner.boot(told)
    assert [(node, request.span) for node, request in owner.asked(Remove)] == [(wrong, span.id)]
    assert owner.only().node == span.node


def test_a_dispatcher_under_an_older_token_than_the_recorded_one_is_replaced() -> None:
    former = running("t")
    span = former.only()
    owner = successor(former)
    told = reports(former)
    node = node_of(former, span.id)
    older = DispatcherStatus(span.id, Token(1, 0, 1), Stage.WORKING)
    instead(told, node, older)
    owner.boot(told)
    owner.settle()
    assert owner.only().token > span.token


@pytest.mark.parametrize("stage", [Stage.FENCED, Stage.GONE, Stage.PREPARING])
def test_a_span_that_does_not_run_and_never_will_is_placed_anew(stage: Stage) -> None:
    former = running("t")
    span = former.only()
    node = node_of(former, span.id)
    owner = successor(former)
    told = reports(former)
    instead(told, node, DispatcherStatus(span.id, span.token, stage))
    owner.boot(told)
    assert [request.span for _, request in owner.asked(Create)] == [span.id]


# --- B3: operators of the former owner ----------------------------------------------------------


def moving() -> tuple[Owner, SpanRecord]:
    """A former owner that died with a move under way, nothing of it done."""
    former = running("t")
    span = former.only()
    former.handle(MoveSpan("r", FEED, span.id, other(node_of(former, span.id)).node))
    former.tick()
    assert len(former.operators()) == 1
    return former, span


def test_b3_a_former_owners_operator_is_struck_out() -> None:
    former, _ = moving()
    owner = successor(former)
    owner.load()
    assert owner.operators() == {}


def test_b3_what_it_was_for_is_done_anew_under_the_new_epoch() -> None:
    former, span = moving()
    owner = successor(former)
    owner.boot(reports(former))
    owner.tick()
    (record,) = owner.operators().values()
    assert (record.kind, record.base.epoch) == (OperatorKind.MOVE, 2)
    owner.settle()
    assert owner.only().node == other(node_of_record(span))


def node_of_record(record: SpanRecord) -> NodeRef:
    assert record.node is not None
    return record.node


def test_b3_a_move_whose_destination_is_gone_lapses() -> None:
    former, span = moving()
    owner = successor(former)
    stays = node_of_record(span)
    owner.load()
    owner.see(stays)
    owner.reply(stays, *reports(former)[stays], working(former.trigger))
    owner.tick()
    owner.settle()
    assert owner.only().node == stays
    assert owner.operators() == {}


def test_b3_an_add_or_remove_of_a_former_owner_leaves_nothing_to_restore() -> None:
    """Their record is the span's own, or its absence."""
    former = running("t")
    owner = successor(former)
    record = OperatorRecord("1-9", OperatorKind.ADD, (former.only().id,), Token(1, 9, 1))
    owner.put(record)
    owner.boot(reports(former))
    assert owner.machine.operating.wishes == []
    assert owner.operators() == {}


def test_o6_split_points_survive_a_failover() -> None:
    former = running("t")
    former.handle(SplitSpan("r", FEED, former.only().id, (b"g", b"p")))
    former.tick()
    owner = successor(former)
    owner.boot(reports(former))
    owner.settle()
    ranges = sorted(
        (record.span.range.low, record.span.range.high) for record in owner.spans().values()
    )
    assert ranges == [(b"", b"g"), (b"g", b"p"), (b"p", None)]


def test_b2_a_source_held_for_a_former_owners_merge_is_released() -> None:
    former = running("t")
    span = former.only()
    owner = successor(former)
    told = reports(former)
    node = node_of(former, span.id)
    held = DispatcherStatus(span.id, span.token, Stage.HELD, operator="1-99")
    instead(told, node, held)
    owner.boot(told)
    assert owner.asked(Release) == [(node, Release(span.id, span.token, "1-99"))]


def test_b2_a_release_that_was_lost_is_repeated_while_the_span_is_held() -> None:
    former = running("t")
    span, node = former.only(), node_of(former, former.only().id)
    former.take_asked()
    held = DispatcherStatus(span.id, span.token, Stage.HELD, operator="1-99")
    for _ in range(2):
        former.says(node, held)
        assert len(former.asked(Release)) == 1


def test_b2_a_target_prepared_for_a_former_owners_merge_is_removed() -> None:
    former = running("t")
    owner = successor(former)
    told = reports(former)
    told[A] += (DispatcherStatus("1-50", Token(1, 50, 1), Stage.PREPARING, operator="1-49"),)
    owner.boot(told)
    assert [(node, request.span) for node, request in owner.asked(Remove)] == [(A, "1-50")]


# --- B7: answers that do not count --------------------------------------------------------------


def test_b7_a_repeated_answer_changes_nothing() -> None:
    owner = running("t")
    before = fingerprint(owner.machine)
    ghost = DispatcherStatus("ghost", Token(1, 9, 1), Stage.WORKING)
    owner.reply(A, ghost)
    assert fingerprint(owner.machine) == before
    assert owner.out == []


def test_b7_an_answer_of_an_old_incarnation_changes_nothing() -> None:
    owner = Owner("t")
    owner.load()
    owner.see(NodeRef("a", 2))
    before = fingerprint(owner.machine)
    owner.reply(NodeRef("a", 1), DispatcherStatus("ghost", Token(1, 9, 1), Stage.WORKING))
    assert fingerprint(owner.machine) == before


def test_b7_an_answer_of_somebody_who_is_no_member_changes_nothing() -> None:
    owner = running("t")
    before = fingerprint(owner.machine)
    owner.reply(C, DispatcherStatus("ghost", Token(1, 9, 1), Stage.WORKING))
    assert fingerprint(owner.machine) == before


def test_b7_an_answer_to_another_epoch_changes_nothing() -> None:
    owner = Owner("t", epoch=2)
    owner.load()
    owner.see(A)
    before = fingerprint(owner.machine)
    owner.handle(BootstrapReply(FEED, 1, A, ()))
    assert fingerprint(owner.machine) == before


def test_f5_a_strict_maintainer_rejects_answers_with_epoch_0() -> None:
    owner = Owner("t")
    owner.load()
    owner.see(A)
    before = fingerprint(owner.machine)
    owner.handle(BootstrapReply(FEED, UNFENCED, A, ()))
    owner.handle(Heartbeat(FEED, UNFENCED, A, 1, True, ()))
    assert fingerprint(owner.machine) == before


def test_b7_a_heartbeat_of_a_node_that_did_not_answer_the_bootstrap_changes_nothing() -> None:
    owner = Owner("t")
    owner.load()
    owner.see(A, B)
    before = fingerprint(owner.machine)
    owner.says(A, DispatcherStatus("ghost", Token(1, 9, 1), Stage.WORKING), full=True)
    assert fingerprint(owner.machine) == before


def test_b7_an_older_heartbeat_changes_nothing() -> None:
    owner = running("t")
    span, node = owner.only(), node_of(owner, owner.only().id)
    owner.handle(Heartbeat(FEED, 1, node, 1_000, False, (working(span, 50),)))
    before = fingerprint(owner.machine)
    owner.handle(Heartbeat(FEED, 1, node, 999, True, ()))
    assert fingerprint(owner.machine) == before


# --- the stale end ------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [Phase.LOADING, Phase.BOOTSTRAPPING, Phase.RUNNING])
def test_f3_a_node_that_has_seen_a_newer_owner_ends_it(phase: Phase) -> None:
    owner = Owner("t")
    if phase is not Phase.LOADING:
        owner.load()
        owner.see(A, B)
    if phase is Phase.RUNNING:
        owner.reply(A)
        owner.reply(B)
        owner.tick()
    assert owner.phase is phase
    owner.handle(Stale(FEED, 1, A, 2))
    assert owner.machine.status().outcome is Outcome.STALE


def test_an_answer_to_somebody_elses_request_is_not_for_it() -> None:
    owner = Owner("t", epoch=2)
    owner.handle(Stale(FEED, 1, A, 2))
    assert owner.machine.status().outcome is None


def test_f3_a_refused_write_ends_it() -> None:
    owner = Owner("t")
    owner.store.scope(feed_scope(FEED)).fence = 1
    owner.hold = True
    owner.load()
    owner.store.scope(feed_scope(FEED)).fence = 2
    owner.land_all()
    assert owner.machine.status().outcome is Outcome.STALE


def test_f3_an_ended_maintainer_asks_for_nothing() -> None:
    owner = running("t")
    owner.handle(Stale(FEED, 1, A, 2))
    owner.out.clear()
    owner.see(A)
    owner.tick()
    owner.says(A, DispatcherStatus("ghost", Token(1, 9, 1), Stage.WORKING))
    assert owner.out == []


def test_f3_a_write_that_lands_after_the_end_has_no_effect() -> None:
    owner = running("t")
    owner.hold = True
    owner.see(node_of(owner, TRIGGER))
    assert owner.held
    owner.handle(Stale(FEED, 1, A, 2))
    owner.land_all()
    assert owner.asked(Create) == []


def test_people_are_told_when_it_does_not_run() -> None:
    owner = Owner("t")
    owner.handle(MoveSpan("r1", FEED, "s", "a"))
    (answer,) = of(Answer, owner.out)
    assert (answer.request, answer.code) == ("r1", "not-running")


def test_no_batch_is_empty_when_nothing_changed() -> None:
    owner = running("t")
    owner.hold = True
    owner.tick(0)
    assert owner.held == []
    assert of(Commit, owner.out) == []


def test_names_are_never_given_out_twice() -> None:
    former = running("t")
    owner = successor(former)
    names = {owner.machine.operating.new_name() for _ in range(50)}
    assert names.isdisjoint({former.machine.operating.new_name() for _ in range(50)})


def test_a_table_named_twice_is_one_table() -> None:
    owner = Owner("t", "t")
    owner.boot({A: ()})
    assert [span.record.span.table for span in owner.machine.spans.all()].count("t") == 1
