"""The fence of a feed at a node: whose requests have an effect (F3 to F6, F8)."""

from collections.abc import Callable
from typing import Any

import pytest

from lockgate.core.dispatchers.desk import Desk
from lockgate.core.dispatchers.entry import EntryState
from lockgate.core.dispatchers.fence import Fence, Standing
from lockgate.model.errors import IllegalTransition
from lockgate.model.ids import UNFENCED, NodeRef
from lockgate.model.instructions import Instruction, Send, StartDispatcher, StopDispatcher
from lockgate.model.messages import BootstrapReply, CloseReply, Heartbeat, Stale
from lockgate.model.records import FenceRecord
from lockgate.model.requests import Hold, Prepare, Remove
from tests.core.dispatchers.station import EPOCH, OWNER, RIVAL, Station, at, owned
from tests.core.support import FEED, create, fingerprint, of, sent, spec, token

Order = Callable[[Station, int, NodeRef], list[Instruction]]

ORDERS: dict[str, Order] = {
    "create": lambda s, epoch, owner: s.ask(create("x", epoch, 90), epoch=epoch, owner=owner),
    "remove": lambda s, epoch, owner: s.ask(
        Remove("s", token(epoch, 90)), epoch=epoch, owner=owner
    ),
    "prepare": lambda s, epoch, owner: s.ask(
        Prepare(spec("x"), token(epoch, 90), "m"), epoch=epoch, owner=owner
    ),
    "hold": lambda s, epoch, owner: s.ask(
        Hold("s", token(EPOCH, 10), "m"), epoch=epoch, owner=owner
    ),
    "heartbeat-reply": lambda s, epoch, owner: s.settled(100, epoch, owner),
    "bootstrap": lambda s, epoch, owner: s.bootstrap(epoch, owner),
    "close": lambda s, epoch, owner: s.close(epoch, owner),
}
EACH_ORDER = pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)


def answers(out: list[Instruction]) -> list[Send]:
    """What goes to anybody but the admitted owner."""
    return [send for send in of(Send, out) if send.to != OWNER.node]


# --- F3: the stale change nothing ---------------------------------------------------------------


@EACH_ORDER
def test_f3_an_order_of_an_older_epoch_changes_nothing(order: Order) -> None:
    station = at(EntryState.WORKING)
    before, journal = fingerprint(station.manager), dict(station.store.records("node:n"))
    order(station, EPOCH - 1, RIVAL)
    assert fingerprint(station.manager) == before
    assert station.store.records("node:n") == journal


@EACH_ORDER
def test_f3_the_stale_are_told_so_and_which_epoch_was_seen(order: Order) -> None:
    station = at(EntryState.WORKING)
    out = order(station, EPOCH - 1, RIVAL)
    assert out == [Send(RIVAL.node, Stale(FEED, EPOCH - 1, station.me, EPOCH))]


@EACH_ORDER
def test_f3_the_same_owner_under_its_older_epoch_is_stale(order: Order) -> None:
    station = at(EntryState.WORKING)
    out = order(station, EPOCH - 1, OWNER)
    assert out == [Send(OWNER.node, Stale(FEED, EPOCH - 1, station.me, EPOCH))]


@pytest.mark.parametrize("order", [n for n in ORDERS if n not in ("bootstrap", "close")])
def test_f3_a_newer_owner_that_did_not_bootstrap_here_is_not_obeyed(order: str) -> None:
    station = at(EntryState.WORKING)
    before = fingerprint(station.manager)
    assert ORDERS[order](station, EPOCH + 1, RIVAL) == []
    assert fingerprint(station.manager) == before


def test_f3_a_stale_order_is_weighed_by_the_fence_of_a_former_life() -> None:
    station = Station(owned().store)
    out = station.bootstrap(EPOCH - 1, RIVAL)
    assert out == [Send(RIVAL.node, Stale(FEED, EPOCH - 1, station.me, EPOCH))]


def test_f3_requests_that_outlived_their_addressee_are_not_obeyed() -> None:
    former = owned()
    station = Station(former.store)
    station.bootstrap()
    out = station.ask(create("s", EPOCH, 1, former.me.incarnation), to=former.me.incarnation)
    assert out == []
    assert station.desk.entries == {}


def test_f3_a_request_for_a_former_life_in_a_message_for_this_one_is_not_obeyed() -> None:
    station = Station(owned().store)
    station.bootstrap()
    station.ask(create("s", EPOCH, 1, station.me.incarnation - 1))
    assert station.desk.entries == {}


# --- F4: equal epochs, newer epochs -------------------------------------------------------------


@EACH_ORDER
def test_f4_an_equal_epoch_of_another_owner_is_rejected(order: Order) -> None:
    station = at(EntryState.WORKING)
    before = fingerprint(station.manager)
    out = order(station, EPOCH, RIVAL)
    assert out == [Send(RIVAL.node, Stale(FEED, EPOCH, station.me, EPOCH))]
    assert fingerprint(station.manager) == before


def test_f4_another_life_of_the_owners_node_is_another_owner() -> None:
    station = owned()
    reborn = NodeRef(OWNER.node, OWNER.incarnation + 1)
    assert sent(Stale, station.bootstrap(EPOCH, reborn)) != []


def test_f4_a_newer_epoch_takes_over() -> None:
    station = owned()
    station.bootstrap(EPOCH + 1, RIVAL)
    assert station.fence() == FenceRecord(FEED, RIVAL, EPOCH + 1)


def test_f4_the_former_owner_is_stale_once_a_newer_one_took_over() -> None:
    station = owned()
    station.bootstrap(EPOCH + 1, RIVAL)
    out = station.ask(create("s", EPOCH, 1))
    assert sent(Stale, out) == [Stale(FEED, EPOCH, station.me, EPOCH + 1)]


def test_f4_a_newer_owner_is_answered_only_when_its_fence_is_durable() -> None:
    station = owned()
    station.hold = True
    assert sent(BootstrapReply, station.bootstrap(EPOCH + 1, RIVAL)) == []
    assert sent(BootstrapReply, station.land()) == [BootstrapReply(FEED, EPOCH + 1, station.me, ())]


def test_f4_a_repeated_bootstrap_is_not_answered_before_the_fence_is_durable() -> None:
    station = owned()
    station.hold = True
    station.bootstrap(EPOCH + 1, RIVAL)
    assert station.bootstrap(EPOCH + 1, RIVAL) == []


def test_f4_the_answer_for_an_owner_overtaken_while_recording_is_not_sent() -> None:
    station = Station()
    station.hold = True
    station.bootstrap(EPOCH, OWNER)
    station.bootstrap(EPOCH + 1, RIVAL)
    out = station.land()
    assert sent(BootstrapReply, out) == []
    assert [reply.epoch for reply in sent(BootstrapReply, station.land())] == [EPOCH + 1]


def test_f4_a_request_of_the_former_owner_that_is_not_durable_yet_is_dropped() -> None:
    station = owned()
    station.hold = True
    station.ask(create("s", EPOCH, 1))
    station.bootstrap(EPOCH + 1, RIVAL)
    assert of(StartDispatcher, station.land_all()) == []
    assert station.desk.entries == {}


def test_f4_a_replacement_that_the_former_owner_queued_is_dropped() -> None:
    """O9: what a newer epoch did not ask for does not begin under it."""
    station = at(EntryState.WORKING)
    station.ask(create("s", EPOCH, 11))
    station.bootstrap(EPOCH + 1, RIVAL)
    out = station.stopped("s", token(EPOCH, 10))
    assert of(StartDispatcher, out) == []
    assert station.desk.entries == {}


def test_o9_a_queued_request_of_a_newer_epoch_replaces_an_older_one() -> None:
    station = at(EntryState.WORKING)
    station.ask(create("s", EPOCH, 11))
    station.bootstrap(EPOCH + 1, RIVAL)
    station.ask(create("s", EPOCH + 1, 1), epoch=EPOCH + 1, owner=RIVAL)
    out = station.stopped("s", token(EPOCH, 10))
    assert [start.token for start in of(StartDispatcher, out)] == [token(EPOCH + 1, 1)]


def test_f4_what_the_former_owner_left_running_goes_on_and_is_reported() -> None:
    station = at(EntryState.WORKING)
    out = station.bootstrap(EPOCH + 1, RIVAL)
    (reply,) = sent(BootstrapReply, out)
    assert [status.token for status in reply.statuses] == [token(EPOCH, 10)]
    assert of(StopDispatcher, out) == []


def test_f4_a_newer_owner_does_not_inherit_what_was_settled() -> None:
    station = owned()
    station.settled(100)
    station.bootstrap(EPOCH + 1, RIVAL)
    out = station.ask(create("s", EPOCH + 1, 1), epoch=EPOCH + 1, owner=RIVAL)
    assert len(of(StartDispatcher, out)) == 1


def test_f4_marks_that_guarded_against_the_former_owners_requests_are_forgotten() -> None:
    station = owned()
    station.ask(Remove("s", token(EPOCH, 10)))
    station.bootstrap(EPOCH + 1, RIVAL)
    assert station.desk.marks == {}


# --- F5: epoch 0 --------------------------------------------------------------------------------


def test_f5_an_unfenced_owner_is_accepted_while_nothing_else_was_seen() -> None:
    station = Station()
    assert sent(BootstrapReply, station.bootstrap(UNFENCED)) != []


def test_f5_an_unfenced_owner_is_obeyed() -> None:
    station = Station()
    station.bootstrap(UNFENCED)
    out = station.ask(create("s", UNFENCED, 1), epoch=UNFENCED)
    assert len(of(StartDispatcher, out)) == 1


def test_f5_an_unfenced_owner_gives_way_to_an_elected_one() -> None:
    station = Station()
    station.bootstrap(UNFENCED)
    station.bootstrap(1, RIVAL)
    assert station.fence() == FenceRecord(FEED, RIVAL, 1)


@EACH_ORDER
def test_f5_epoch_0_is_stale_once_anything_else_was_seen(order: Order) -> None:
    station = at(EntryState.WORKING)
    before = fingerprint(station.manager)
    out = order(station, UNFENCED, OWNER)
    assert out == [Send(OWNER.node, Stale(FEED, UNFENCED, station.me, EPOCH))]
    assert fingerprint(station.manager) == before


def test_f5_epoch_0_is_never_accepted_again_after_a_restart() -> None:
    station = Station(owned().store)
    assert sent(Stale, station.bootstrap(UNFENCED)) != []


def test_f5_epoch_0_is_never_accepted_again_after_a_close() -> None:
    station = owned()
    station.close()
    assert sent(Stale, station.bootstrap(UNFENCED)) != []


def test_f5_an_unfenced_tombstone_holds_against_unfenced_owners() -> None:
    station = Station()
    station.bootstrap(UNFENCED)
    station.close(UNFENCED)
    assert sent(Stale, station.bootstrap(UNFENCED, RIVAL)) != []


def test_f5_of_unfenced_owners_that_take_turns_only_the_durable_one_is_answered() -> None:
    station = Station()
    station.hold = True
    station.bootstrap(UNFENCED, OWNER)
    station.bootstrap(UNFENCED, RIVAL)
    station.not_landed()
    station.tick()
    station.bootstrap(UNFENCED, OWNER)
    out = station.land()
    assert station.fence() == FenceRecord(FEED, RIVAL, UNFENCED)
    assert sent(BootstrapReply, out) == []
    assert len(sent(BootstrapReply, station.land())) == 1


def test_f5_a_fence_refuses_to_be_set_back() -> None:
    fence = Fence(FEED)
    fence.admit(OWNER, EPOCH)
    with pytest.raises(IllegalTransition):
        fence.admit(RIVAL, EPOCH - 1)
    assert (fence.owner, fence.epoch) == (OWNER, EPOCH)


# --- F6: tombstones -----------------------------------------------------------------------------


@EACH_ORDER
def test_f6_an_order_delayed_past_the_close_changes_nothing(order: Order) -> None:
    station = owned()
    station.close()
    before = fingerprint(station.manager)
    order(station, EPOCH, OWNER)
    assert fingerprint(station.manager) == before


def test_f6_a_delayed_bootstrap_is_answered_stale() -> None:
    station = owned()
    station.close()
    out = station.bootstrap()
    assert out == [Send(OWNER.node, Stale(FEED, EPOCH, station.me, EPOCH))]


def test_f6_the_tombstone_holds_over_a_restart() -> None:
    first = owned()
    first.close()
    station = Station(first.store)
    assert sent(Stale, station.bootstrap()) != []
    assert station.fence() == FenceRecord(FEED, OWNER, EPOCH, closed=True)


def test_f6_a_newer_epoch_clears_the_way() -> None:
    station = owned()
    station.close()
    assert sent(BootstrapReply, station.bootstrap(EPOCH + 1)) != []
    assert station.fence() == FenceRecord(FEED, OWNER, EPOCH + 1)


def test_f6_a_stale_close_is_answered_and_closes_nothing() -> None:
    station = at(EntryState.WORKING)
    out = station.close(EPOCH - 1, RIVAL)
    assert sent(Stale, out) == [Stale(FEED, EPOCH - 1, station.me, EPOCH)]
    assert of(StopDispatcher, out) == []
    assert station.fence() == FenceRecord(FEED, OWNER, EPOCH)


def test_f6_a_close_is_confirmed_only_when_the_tombstone_is_durable() -> None:
    station = owned()
    station.hold = True
    assert sent(CloseReply, station.close()) == []
    assert sent(CloseReply, station.land()) == [CloseReply(FEED, EPOCH, station.me)]


def test_f6_a_close_is_confirmed_only_when_nothing_runs() -> None:
    station = at(EntryState.WORKING)
    out = station.close()
    assert [stop.token for stop in of(StopDispatcher, out)] == [token(EPOCH, 10)]
    assert sent(CloseReply, out) == []
    assert station.fence() == FenceRecord(FEED, OWNER, EPOCH)
    assert sent(CloseReply, station.stopped("s", token(EPOCH, 10))) != []


def test_f6_a_repeated_close_is_confirmed_again() -> None:
    station = owned()
    station.close()
    assert sent(CloseReply, station.close()) == [CloseReply(FEED, EPOCH, station.me)]


def test_f6_a_close_repeated_while_stopping_waits_with_the_first() -> None:
    station = at(EntryState.WORKING)
    station.close()
    assert of(Send, station.close()) == []


def test_f6_a_close_by_an_owner_that_never_bootstrapped_here_leaves_its_tombstone() -> None:
    station = owned()
    out = station.close(EPOCH + 1, RIVAL)
    assert sent(CloseReply, out) == [CloseReply(FEED, EPOCH + 1, station.me)]
    assert station.fence() == FenceRecord(FEED, RIVAL, EPOCH + 1, closed=True)


def test_f6_what_is_asked_while_closing_does_not_begin() -> None:
    station = at(EntryState.WORKING)
    station.close()
    out = station.ask(create("x", EPOCH, 11))
    assert of(StartDispatcher, out) == []
    assert list(station.desk.entries) == ["s"]


def test_f6_a_replacement_in_the_queue_does_not_begin_after_a_close() -> None:
    station = at(EntryState.WORKING)
    station.ask(create("s", EPOCH, 11))
    station.close()
    assert of(StartDispatcher, station.stopped("s", token(EPOCH, 10))) == []


def test_f6_a_newer_owner_that_comes_while_closing_ends_the_close() -> None:
    station = at(EntryState.WORKING)
    station.close()
    station.bootstrap(EPOCH + 1, RIVAL)
    out = station.stopped("s", token(EPOCH, 10))
    assert sent(CloseReply, out) == []
    assert station.fence() == FenceRecord(FEED, RIVAL, EPOCH + 1)


def test_f6_a_closed_feed_is_not_reported_on() -> None:
    station = owned()
    station.close()
    assert sent(Heartbeat, station.tick()) == []


def test_f6_a_close_clears_every_state_an_entry_can_be_in() -> None:
    for state in EntryState:
        station = at(state)
        station.close()
        station.land_all()
        station.stopped("s", token(EPOCH, 10))
        assert station.fence() == FenceRecord(FEED, OWNER, EPOCH, closed=True), state


# --- F8: no way out leaves the fence held -------------------------------------------------------


class Broken(Exception):
    """Raised where a bug would."""


SECTIONS: list[tuple[str, str, Callable[[Station], list[Instruction]]]] = [
    ("bootstrap, newer owner", "admit", lambda s: s.bootstrap(EPOCH + 1)),
    ("bootstrap, recording", "record_fence", lambda s: s.bootstrap(EPOCH + 1)),
    ("bootstrap, known owner", "statuses", lambda s: s.bootstrap()),
    ("requests", "obey", lambda s: s.ask(create("x", EPOCH, 90))),
    ("heartbeat reply", "settle_up_to", lambda s: s.settled(90)),
    ("close", "close", lambda s: s.close()),
    ("close, newer owner", "admit", lambda s: s.close(EPOCH + 1)),
]


def _break(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    def broken(self: Desk, *args: Any) -> None:
        assert self.fence.entered, "the test does not raise inside the fenced section"
        raise Broken

    monkeypatch.setattr(Desk, method, broken)


@pytest.mark.parametrize(
    ("method", "order"), [case[1:] for case in SECTIONS], ids=[case[0] for case in SECTIONS]
)
def test_f8_an_exception_in_a_fenced_section_leaves_the_fence_free(
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    order: Callable[[Station], list[Instruction]],
) -> None:
    station = at(EntryState.WORKING)
    with monkeypatch.context() as patch:
        _break(patch, method)
        with pytest.raises(Broken):
            order(station)
    assert not station.desk.fence.entered


EFFECTS: list[tuple[str, Callable[[Station], list[Instruction]], type]] = [
    ("admit", lambda s: s.bootstrap(EPOCH + 1), BootstrapReply),
    ("record_fence", lambda s: s.bootstrap(EPOCH + 1), BootstrapReply),
    ("statuses", lambda s: s.bootstrap(), BootstrapReply),
    ("obey", lambda s: s.ask(create("s", EPOCH, 10)), Heartbeat),
    ("close", lambda s: (s.close(), s.stopped("s", token(EPOCH, 10)))[1], CloseReply),
]


@pytest.mark.parametrize(
    ("method", "order", "answer"), EFFECTS, ids=[effect[0] for effect in EFFECTS]
)
def test_f8_the_same_order_repeated_after_an_exception_is_answered(
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    order: Callable[[Station], list[Instruction]],
    answer: type,
) -> None:
    station = at(EntryState.WORKING)
    with monkeypatch.context() as patch:
        _break(patch, method)
        with pytest.raises(Broken):
            order(station)
    assert sent(answer, order(station)) != []


def test_f8_settling_works_again_after_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    station = at(EntryState.WORKING)
    with monkeypatch.context() as patch:
        _break(patch, "settle_up_to")
        with pytest.raises(Broken):
            station.settled(90)
    station.settled(90)
    assert station.desk.settled == 90


@EACH_ORDER
def test_f8_the_early_way_out_of_the_stale_leaves_the_fence_free(order: Order) -> None:
    station = at(EntryState.WORKING)
    order(station, EPOCH - 1, RIVAL)
    assert not station.desk.fence.entered


def test_f8_a_fenced_section_is_not_entered_twice() -> None:
    fence = Fence(FEED)
    with fence.section(OWNER, EPOCH), pytest.raises(IllegalTransition), fence.section(RIVAL, EPOCH):
        pass
    assert not fence.entered


def test_weighing_a_sender_changes_nothing() -> None:
    fence = Fence(FEED)
    with fence.section(OWNER, EPOCH) as standing:
        assert standing is Standing.NEWER
    assert (fence.owner, fence.epoch, fence.closed) == (None, UNFENCED, False)
