"""Where spans go and how ghosts are healed: deaths, silence, drains, balance (O1, O3, O9)."""

from lockgate.model.config import CoreConfig, Policy
from lockgate.model.events import MoveSpan
from lockgate.model.feeds import Trouble
from lockgate.model.ids import NodeRef, Token
from lockgate.model.instructions import Send
from lockgate.model.messages import Bootstrap, HeartbeatReply, Requests
from lockgate.model.requests import Create, Remove
from lockgate.model.spans import TRIGGER
from lockgate.model.statuses import DispatcherStatus, Heat, Stage
from tests.core.maintainer.owner import A, B, C, Owner, gone, node_of, other, running, working
from tests.core.support import FEED, of, sent

TIMING = CoreConfig().timing


# --- first placements ---------------------------------------------------------------------------


def test_before_the_birth_only_the_trigger_is_placed() -> None:
    owner = Owner("t", "u")
    owner.boot({A: (), B: ()})
    assert [request.span for _, request in owner.asked(Create)] == [TRIGGER]


def test_the_triggers_create_carries_the_birth() -> None:
    owner = Owner("t")
    owner.boot({A: ()})
    ((_, request),) = owner.asked(Create)
    assert request.birth is not None
    assert [one.table for one in request.birth.spans] == ["t"]


def test_once_the_trigger_works_the_others_are_placed() -> None:
    owner = Owner("t", "u")
    owner.boot({A: (), B: ()})
    ((node, request),) = owner.asked(Create)
    owner.says(node, DispatcherStatus(TRIGGER, request.token, Stage.WORKING))
    owner.tick()
    assert {request.spec.table for _, request in owner.asked(Create)} == {"t", "u"}


def test_spans_are_spread_over_the_nodes() -> None:
    owner = running("t", "u", "v", "w", "x", nodes=(A, B, C))
    counts = [owner.machine.spans.count_on(node) for node in (A, B, C)]
    assert counts == [2, 2, 2]


def test_no_more_operators_are_begun_than_allowed() -> None:
    config = CoreConfig(policy=Policy(operators_max=2))
    owner = Owner(*(f"t{n}" for n in range(5)), config=config)
    owner.boot({A: ()})
    ((_, trigger),) = owner.asked(Create)
    owner.says(A, DispatcherStatus(TRIGGER, trigger.token, Stage.WORKING))
    owner.tick()
    assert len(owner.machine.operators) == 2
    owner.settle()
    assert len(owner.spans()) == 5


def test_many_requests_are_sent_in_several_messages() -> None:
    config = CoreConfig(policy=Policy(requests_max=2))
    owner = Owner(*(f"t{n}" for n in range(5)), config=config)
    owner.boot({A: ()})
    ((_, trigger),) = owner.asked(Create)
    owner.says(A, DispatcherStatus(TRIGGER, trigger.token, Stage.WORKING))
    owner.out.clear()
    owner.tick()
    assert [len(message.items) for message in sent(Requests, owner.out)] == [2, 2, 1]


# --- O1: deaths ---------------------------------------------------------------------------------


def test_o1_the_destination_of_an_add_dies_the_span_is_placed_again() -> None:
    owner = Owner("t")
    owner.boot({A: (), B: ()})
    ((first, request),) = owner.asked(Create)
    owner.see(other(first))
    ((second, again),) = owner.asked(Create)
    assert (second, again.span) == (other(first), request.span)
    assert again.token > request.token
    assert owner.trigger.node == second


def test_a_dead_nodes_spans_are_placed_elsewhere() -> None:
    owner = running("t", "u", "v")
    owner.see(B)
    owner.settle()
    assert {record.node for record in [owner.trigger, *owner.spans().values()]} == {B}


def test_a_node_that_started_anew_is_another_node() -> None:
    owner = running("t", "u")
    reborn = NodeRef("a", 2)
    owner.see(reborn, B)
    assert owner.machine.spans.on_node(A) == []
    assert owner.machine.nodes.get(A) is None


def test_with_no_node_at_all_spans_wait() -> None:
    owner = running("t")
    owner.see()
    owner.take_asked()
    owner.tick()
    assert owner.take_asked() == []
    assert set(owner.machine.spans.absent) == {TRIGGER, owner.only().id}


def test_a_node_that_is_silent_for_too_long_is_treated_as_lost() -> None:
    owner = running("t", "u", "v")
    silent, heard = B, A
    for _ in range(TIMING.silence_ms // 1_000):
        owner.says(heard)
        owner.tick()
    assert owner.machine.spans.on_node(silent) == []
    owner.tick()
    assert sent(Bootstrap, owner.out) != []


def test_a_node_that_was_silent_is_asked_again_and_given_work_only_after_its_answer() -> None:
    owner = running("t")
    silent = node_of(owner, owner.only().id)
    heard = other(silent)
    for _ in range(TIMING.silence_ms // 1_000 + 1):
        owner.says(heard)
        owner.tick()
    owner.settle()
    assert owner.machine.nodes.hosts() == [heard]
    owner.reply(silent)
    assert owner.machine.nodes.hosts() == sorted([heard, silent])


# --- healing ------------------------------------------------------------------------------------


def test_a_dispatcher_of_a_span_that_is_no_more_is_removed_each_time_it_is_seen() -> None:
    owner = running("t")
    ghost = DispatcherStatus("ghost", Token(1, 1, 1), Stage.WORKING)
    for _ in range(3):
        owner.says(A, ghost)
        assert [(node, r.span) for node, r in owner.asked(Remove)] == [(A, "ghost")]


def test_the_removal_of_a_ghost_is_under_a_token_above_the_ghosts() -> None:
    owner = running("t")
    owner.says(A, DispatcherStatus("ghost", Token(1, 1, 1), Stage.WORKING))
    ((_, request),) = owner.asked(Remove)
    assert request.token > Token(1, 1, 1)


def test_a_ghost_that_is_gone_is_let_rest() -> None:
    owner = running("t")
    owner.says(A, gone("ghost", Token(1, 1, 1)))
    assert owner.take_asked() == []


def test_a_second_dispatcher_of_a_live_span_elsewhere_is_removed() -> None:
    owner = running("t")
    span = owner.only()
    wrong = other(node_of(owner, span.id))
    owner.says(wrong, working(span))
    assert [(node, r.span) for node, r in owner.asked(Remove)] == [(wrong, span.id)]
    assert owner.only().node == span.node


def test_a_span_missing_from_a_full_heartbeat_is_placed_anew() -> None:
    owner = running("t")
    span, node = owner.only(), node_of(owner, owner.only().id)
    owner.says(node, full=True)
    assert [r.span for _, r in owner.asked(Create)] == [span.id]


def test_a_span_missing_from_a_partial_heartbeat_is_not_missed() -> None:
    owner = running("t")
    owner.says(node_of(owner, owner.only().id))
    assert owner.asked(Create) == []


def test_a_span_that_was_never_seen_is_not_missed() -> None:
    """The heartbeat may be older than the request."""
    owner = Owner("t")
    owner.boot({A: ()})
    ((_, request),) = owner.asked(Create)
    owner.says(A, full=True)
    assert owner.asked(Create) == []
    assert owner.trigger.token == request.token


def test_a_span_that_an_operator_holds_is_not_missed() -> None:
    owner = Owner("t")
    owner.boot({A: ()})
    ((_, request),) = owner.asked(Create)
    owner.says(A, DispatcherStatus(TRIGGER, request.token, Stage.STARTING))
    owner.says(A, full=True)
    assert owner.asked(Create) == []
    assert owner.trigger.token == request.token


def test_a_span_that_its_node_does_not_run_any_more_is_placed_anew() -> None:
    owner = running("t")
    span, node = owner.only(), node_of(owner, owner.only().id)
    owner.says(node, DispatcherStatus(span.id, span.token, Stage.GONE))
    assert [r.span for _, r in owner.asked(Create)] == [span.id]


def test_a_span_that_the_sink_refuses_is_placed_anew_after_a_pause() -> None:
    owner = running("t")
    span, node = owner.only(), node_of(owner, owner.only().id)
    owner.says(node, DispatcherStatus(span.id, span.token, Stage.FENCED))
    assert owner.asked(Create) == []
    owner.tick()
    assert [r.span for _, r in owner.asked(Create)] == [span.id]


def test_a_sink_that_refuses_a_span_again_and_again_is_trouble() -> None:
    owner = running("t")
    trouble = Trouble("no such row", True)
    for _ in range(CoreConfig().policy.refusals_max):
        assert owner.machine.status().trouble is None
        span = owner.only()
        assert span.node is not None
        owner.says(span.node, DispatcherStatus(span.id, span.token, Stage.FENCED, trouble=trouble))
        for _ in range(8):
            owner.tick(5_000)
            owner.says(A)
            owner.says(B)
    assert owner.machine.status().trouble == trouble


def test_gone_up_to_a_later_token_counts_too() -> None:
    owner = running("t")
    span, node = owner.only(), node_of(owner, owner.only().id)
    owner.says(node, gone(span.id, Token(1, 999, 1)))
    assert [r.span for _, r in owner.asked(Create)] == [span.id]


def test_gone_up_to_an_older_token_is_old_news() -> None:
    owner = running("t")
    span, node = owner.only(), node_of(owner, owner.only().id)
    owner.says(node, gone(span.id, Token(1, 0, 1)))
    assert owner.take_asked() == []


def test_a_failed_dispatcher_is_told_to_the_coordinator_and_left_to_it() -> None:
    owner = running("t")
    span, node = owner.only(), node_of(owner, owner.only().id)
    trouble = Trouble("disk full", retryable=True)
    owner.says(node, DispatcherStatus(span.id, span.token, Stage.FAILED, trouble=trouble))
    assert owner.machine.status().trouble == trouble
    assert owner.take_asked() == []


# --- what is settled ----------------------------------------------------------------------------


def settled(owner: Owner) -> list[int]:
    return [reply.settled for reply in sent(HeartbeatReply, owner.out)]


def test_nodes_are_told_below_which_sequence_nothing_is_under_way() -> None:
    owner = running("t")
    ghost = DispatcherStatus("ghost", Token(1, 1, 1), Stage.WORKING)
    owner.says(A, ghost)
    owner.see(node_of(owner, TRIGGER))
    (add,) = owner.machine.operators.values()
    owner.tick(0)
    assert settled(owner) == [add.first_seq]
    owner.says(node_of(owner, TRIGGER), ghost)
    owner.tick(0)
    assert settled(owner) == [add.first_seq]


def test_with_nothing_under_way_everything_given_out_is_settled() -> None:
    owner = running("t")
    owner.says(A, DispatcherStatus("ghost", Token(1, 1, 1), Stage.WORKING))
    owner.out.clear()
    owner.tick()
    assert set(settled(owner)) == {owner.machine.reach.seq + 1}


def test_what_was_told_is_not_told_again() -> None:
    owner = running("t")
    owner.tick()
    owner.out.clear()
    owner.tick()
    assert settled(owner) == []


# --- drains -------------------------------------------------------------------------------------


def test_a_draining_node_is_emptied() -> None:
    owner = running("t", "u", "v")
    owner.see(A, B, draining=(A,))
    for _ in range(4):
        owner.tick(TIMING.balance_ms)
        for node in (A, B):
            owner.says(node, *_as_recorded(owner, node))
        owner.settle()
    assert owner.machine.spans.on_node(A) == []
    assert {record.node for record in owner.spans().values()} == {B}


def _as_recorded(owner: Owner, node: NodeRef) -> list[DispatcherStatus]:
    records = [owner.trigger, *owner.spans().values()]
    return [working(record) for record in records if record.node == node]


def test_a_drained_node_is_given_nothing_new() -> None:
    owner = running("t", "u", "v", nodes=(A, B, C))
    owner.see(A, B, draining=(A,))
    assert {node for node, _ in owner.asked(Create)} <= {B}


def test_with_all_nodes_draining_spans_stay_where_they_are() -> None:
    owner = running("t", "u")
    owner.see(A, B, draining=(A, B))
    owner.tick(TIMING.balance_ms)
    assert owner.machine.operators == {}


def test_with_all_nodes_draining_an_absent_span_is_placed_all_the_same() -> None:
    owner = running("t", nodes=(A, B))
    owner.see(A, draining=(A,))
    assert {node for node, _ in owner.asked(Create)} == {A}


def test_a_drain_moves_spans_and_never_runs_one_twice() -> None:
    owner = running("t", "u")
    owner.take_asked()
    owner.see(A, B, draining=(A,))
    owner.tick(TIMING.balance_ms)
    asked = owner.take_asked()
    assert {type(request) for _, request in asked} == {Remove}
    assert {node for node, _ in asked} == {A}


# --- balance ------------------------------------------------------------------------------------


def test_a_new_node_is_given_its_share() -> None:
    owner = running(*(f"t{n}" for n in range(7)), nodes=(A,))
    owner.see(A, B)
    owner.reply(B)
    for _ in range(6):
        owner.tick(TIMING.balance_ms)
        for node in (A, B):
            owner.says(node, *_as_recorded(owner, node))
        owner.settle()
    counts = sorted(owner.machine.spans.count_on(node) for node in (A, B))
    assert counts[1] - counts[0] <= owner.config.policy.balance_slack


def test_balance_moves_only_some_at_a_time() -> None:
    owner = running(*(f"t{n}" for n in range(20)), nodes=(A,))
    owner.see(A, B)
    owner.reply(B)
    owner.tick(TIMING.balance_ms)
    assert len(owner.machine.operators) == owner.config.policy.balance_moves_max


def test_an_even_load_is_left_alone() -> None:
    owner = running("t", "u", "v")
    owner.tick(TIMING.balance_ms)
    assert owner.machine.operators == {}


def test_a_hot_span_is_cut_where_its_dispatcher_says() -> None:
    owner = running("t")
    span, node = owner.only(), node_of(owner, owner.only().id)
    hot = DispatcherStatus(span.id, span.token, Stage.WORKING, heat=Heat.HOT, points=(b"m",))
    owner.says(node, hot)
    owner.tick(TIMING.balance_ms)
    owner.settle()
    ranges = {record.span.range for record in owner.spans().values()}
    assert ranges == set(span.span.range.divided((b"m",)))


def test_cold_neighbours_are_joined() -> None:
    owner = running("t")
    span, node = owner.only(), node_of(owner, owner.only().id)
    hot = DispatcherStatus(span.id, span.token, Stage.WORKING, heat=Heat.HOT, points=(b"m",))
    owner.says(node, hot)
    owner.tick(TIMING.balance_ms)
    owner.settle()
    for record in owner.spans().values():
        cold = DispatcherStatus(record.id, record.token, Stage.WORKING, heat=Heat.COLD)
        owner.says(node_of(owner, record.id), cold)
    owner.tick(TIMING.balance_ms)
    owner.settle()
    assert owner.only().span.range == span.span.range


def test_a_cold_span_alone_is_left_alone() -> None:
    owner = running("t")
    span, node = owner.only(), node_of(owner, owner.only().id)
    owner.says(node, DispatcherStatus(span.id, span.token, Stage.WORKING, heat=Heat.COLD))
    owner.tick(TIMING.balance_ms)
    assert owner.machine.operators == {}


# --- messages -----------------------------------------------------------------------------------


def test_requests_go_to_the_life_of_the_node_they_are_meant_for() -> None:
    owner = running("t")
    reborn = NodeRef("b", 7)
    owner.out.clear()
    owner.see(reborn)
    owner.reply(reborn)
    messages = [s.message for s in of(Send, owner.out) if isinstance(s.message, Requests)]
    assert {message.to for message in messages} == {7}
    assert {item.token.incarnation for message in messages for item in message.items} == {7}


def test_requests_name_the_feed_the_epoch_and_the_owner() -> None:
    owner = Owner("t", epoch=4)
    owner.boot({A: ()})
    (message,) = sent(Requests, owner.out)
    assert (message.feed, message.epoch, message.owner) == (FEED, 4, owner.machine.me)


def test_a_wish_that_cannot_begin_holds_up_no_drain() -> None:
    owner = running("t", "u", nodes=(A, B, C))
    stuck, moved = owner.spans().values()
    here, draining = node_of(owner, stuck.id), node_of(owner, moved.id)
    assert here != draining
    owner.says(here, DispatcherStatus(stuck.id, stuck.token, Stage.STARTING))
    owner.handle(MoveSpan("r", FEED, stuck.id, other(here).node))
    owner.see(A, B, C, draining=(draining,))
    owner.tick(TIMING.balance_ms)
    assert moved.id in [stop.span for _, stop in owner.asked(Remove)]


def test_what_failed_under_a_former_owner_is_tried_anew() -> None:
    former = running("t")
    span, node = former.only(), node_of(former, former.only().id)
    owner = Owner(epoch=2, former=former)
    failed = DispatcherStatus(span.id, span.token, Stage.FAILED, trouble=Trouble("broken", False))
    owner.boot({node: (failed,), other(node): ()})
    assert owner.machine.status().trouble is None
    assert span.id in [request.span for _, request in owner.asked(Create)]
