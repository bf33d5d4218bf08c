"""What a node does with the requests of its admitted owner: journal, then effect, then word."""

import pytest

from lockgate.core.dispatchers.entry import EntryState
from lockgate.core.dispatchers.manager import DispatcherManager, ManagerState
from lockgate.model.batch import Loaded, LoadFailed, Refused
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.events import (
    DispatcherAdvanced,
    DispatcherBlocked,
    DispatcherFailed,
    DispatcherHeat,
    DispatcherHeld,
    DispatcherRefused,
    DispatcherStarted,
    Tick,
)
from lockgate.model.ids import SEQ_MAX
from lockgate.model.instructions import (
    Commit,
    HoldDispatcher,
    Load,
    PassBarrier,
    ReleaseDispatcher,
    StartDispatcher,
    StopDispatcher,
    WriteBarrier,
)
from lockgate.model.messages import Bootstrap, BootstrapReply, Heartbeat
from lockgate.model.records import JournalRecord
from lockgate.model.requests import Create, Hold, Pass, Prepare, Release, Remove, Write
from lockgate.model.spans import Birth, Lineage
from lockgate.model.statuses import Heat, Stage
from tests.core.dispatchers.station import EPOCH, OWNER, TROUBLE, Station, at, owned, told
from tests.core.support import CONFIG, FEED, create, fingerprint, of, sent, spec, token

T10 = token(EPOCH, 10)
ALTER = Ddl(100, DdlKind.ALTER, ("t",))
RUNNING = [
    EntryState.STARTING,
    EntryState.WORKING,
    EntryState.HOLDING,
    EntryState.HELD,
]
ENDED = [EntryState.FENCED, EntryState.FAILED]


# --- a create -----------------------------------------------------------------------------------


def test_a_create_takes_effect_only_when_its_journal_record_is_durable() -> None:
    station = owned()
    station.hold = True
    assert of(StartDispatcher, station.ask(create("s", EPOCH, 10))) == []
    assert len(of(StartDispatcher, station.land())) == 1
    assert station.journal() == JournalRecord(FEED, spec("s"), T10)


@pytest.mark.parametrize("answer", ["not_landed", "unknown"])
def test_a_create_whose_record_did_not_land_has_no_effect(answer: str) -> None:
    station = owned()
    station.hold = True
    station.ask(create("s", EPOCH, 10))
    assert of(StartDispatcher, getattr(station, answer)()) == []


def test_a_create_is_not_told_before_it_is_durable() -> None:
    station = owned()
    station.hold = True
    assert told(station.ask(create("s", EPOCH, 10))) == []
    assert told(station.tick()) == []
    assert [status.stage for status in told(station.land())] == [Stage.STARTING]


def test_a_create_hands_on_what_the_dispatcher_needs_and_no_position() -> None:
    """O5: where to go on from is the sink's word alone."""
    station = owned()
    lineage = Lineage(("old",), (spec("s"),))
    birth = Birth(7, (spec("s"),))
    out = station.ask(Create(spec("s"), T10, lineage, birth))
    assert of(StartDispatcher, out) == [StartDispatcher(FEED, spec("s"), T10, lineage, birth)]


def test_o5_the_position_that_the_claim_found_is_the_one_that_is_told() -> None:
    station = at(EntryState.STARTING)
    (status,) = told(station.started("s", T10, position=42))
    assert (status.stage, status.position) == (Stage.WORKING, 42)


@pytest.mark.parametrize("state", EntryState)
def test_a_repeated_create_starts_nothing_a_second_time(state: EntryState) -> None:
    station = at(state)
    starts = of(StartDispatcher, station.ask(create("s", EPOCH, 10)))
    assert starts == [] or state is EntryState.PREPARED


@pytest.mark.parametrize("state", EntryState)
def test_an_older_create_than_the_one_obeyed_changes_nothing(state: EntryState) -> None:
    station = at(state)
    before = fingerprint(station.desk.entries)
    station.ask(create("s", EPOCH, 9))
    assert fingerprint(station.desk.entries) == before


@pytest.mark.parametrize("state", RUNNING)
def test_a_newer_create_stops_the_older_dispatcher_first(state: EntryState) -> None:
    station = at(state)
    out = station.ask(create("s", EPOCH, 11))
    assert [stop.token for stop in of(StopDispatcher, out)] == [T10]
    assert of(StartDispatcher, out) == []
    out = station.stopped("s", T10)
    assert [start.token for start in of(StartDispatcher, out)] == [token(EPOCH, 11)]


@pytest.mark.parametrize("state", ENDED)
def test_a_newer_create_replaces_one_that_has_ended_at_once(state: EntryState) -> None:
    station = at(state)
    out = station.ask(create("s", EPOCH, 11))
    assert of(StopDispatcher, out) == []
    assert [start.token for start in of(StartDispatcher, out)] == [token(EPOCH, 11)]


@pytest.mark.parametrize("state", [EntryState.STOPPING, EntryState.ERASING])
def test_a_create_newer_than_the_remove_begins_once_the_old_one_is_gone(state: EntryState) -> None:
    station = at(state)
    station.ask(create("s", EPOCH, 12))
    out = station.stopped("s", T10) + station.land_all()
    assert [start.token for start in of(StartDispatcher, out)] == [token(EPOCH, 12)]


def test_of_two_creates_that_wait_the_newer_begins() -> None:
    station = at(EntryState.STOPPING)
    station.ask(create("s", EPOCH, 13))
    station.ask(create("s", EPOCH, 12))
    out = station.stopped("s", T10)
    assert [start.token for start in of(StartDispatcher, out)] == [token(EPOCH, 13)]


def test_a_remove_newer_than_the_create_that_waits_takes_it_back() -> None:
    station = at(EntryState.STOPPING)
    station.ask(create("s", EPOCH, 12))
    station.ask(Remove("s", token(EPOCH, 13)))
    assert of(StartDispatcher, station.stopped("s", T10)) == []
    assert station.desk.entries == {}


def test_a_remove_older_than_the_create_that_waits_does_not() -> None:
    station = at(EntryState.STOPPING)
    station.ask(create("s", EPOCH, 13))
    station.ask(Remove("s", token(EPOCH, 12)))
    assert len(of(StartDispatcher, station.stopped("s", T10))) == 1


# --- a remove (O2) ------------------------------------------------------------------------------


def test_o2_the_removal_of_a_missing_dispatcher_is_acknowledged() -> None:
    station = owned()
    (status,) = told(station.ask(Remove("s", T10)))
    assert (status.stage, status.token) == (Stage.GONE, T10)


def test_o2_a_repeated_removal_is_acknowledged_again() -> None:
    station = owned()
    station.ask(Remove("s", T10))
    (status,) = told(station.ask(Remove("s", T10)))
    assert (status.stage, status.token) == (Stage.GONE, T10)


@pytest.mark.parametrize("state", [EntryState.PREPARED, *ENDED])
def test_o2_a_removal_clears_an_entry_of_which_nothing_runs(state: EntryState) -> None:
    station = at(state)
    status = told(station.ask(Remove("s", token(EPOCH, 11))))[-1]
    assert (status.stage, status.token) == (Stage.GONE, token(EPOCH, 11))
    assert station.journal() is None


def test_o2_a_later_create_is_not_blocked_by_a_removal() -> None:
    station = owned()
    station.ask(Remove("s", T10))
    assert len(of(StartDispatcher, station.ask(create("s", EPOCH, 11)))) == 1


@pytest.mark.parametrize("seq", [9, 10])
def test_o2_a_create_that_the_removal_overtook_does_not_begin(seq: int) -> None:
    station = owned()
    station.ask(Remove("s", T10))
    assert of(StartDispatcher, station.ask(create("s", EPOCH, seq))) == []


def test_o2_the_mark_of_a_removal_does_not_go_down() -> None:
    station = owned()
    station.ask(Remove("s", token(EPOCH, 12)))
    station.ask(Remove("s", T10))
    assert of(StartDispatcher, station.ask(create("s", EPOCH, 11))) == []


@pytest.mark.parametrize("seq", [9, 10])
def test_a_removal_that_is_not_newer_stops_nothing(seq: int) -> None:
    station = at(EntryState.WORKING)
    assert of(StopDispatcher, station.ask(Remove("s", token(EPOCH, seq)))) == []


@pytest.mark.parametrize("state", RUNNING)
def test_gone_is_told_only_after_the_executor_stopped_it(state: EntryState) -> None:
    station = at(state)
    out = station.ask(Remove("s", token(EPOCH, 11)))
    assert [stop.token for stop in of(StopDispatcher, out)] == [T10]
    assert Stage.GONE not in [status.stage for status in told(out + station.tick())]
    assert Stage.GONE in [status.stage for status in told(station.stopped("s", T10))]


def test_gone_is_told_only_after_the_journal_forgot_it() -> None:
    station = at(EntryState.STOPPING)
    station.hold = True
    assert told(station.stopped("s", T10)) == []
    assert [status.stage for status in told(station.land())] == [Stage.GONE]


def test_gone_is_told_under_the_highest_token_that_wanted_it() -> None:
    station = at(EntryState.STOPPING)
    station.ask(Remove("s", token(EPOCH, 20)))
    assert [status.token for status in told(station.stopped("s", T10))] == [token(EPOCH, 20)]


def test_a_stop_of_somebody_elses_dispatcher_does_not_count() -> None:
    station = at(EntryState.STOPPING)
    station.stopped("s", token(EPOCH, 9))
    assert station.entry().state is EntryState.STOPPING


def test_what_was_committed_while_stopping_is_told() -> None:
    """O5: the last transaction of the origin counts."""
    station = at(EntryState.STOPPING)
    station.take(DispatcherAdvanced(FEED, "s", T10, 77))
    assert station.entry().status().position == 77


# --- what has been settled ----------------------------------------------------------------------


def test_marks_below_the_settled_sequence_are_forgotten() -> None:
    station = owned()
    station.ask(Remove("s", T10))
    station.settled(11)
    assert station.desk.marks == {}


def test_a_mark_at_the_settled_sequence_is_kept() -> None:
    station = owned()
    station.ask(Remove("s", T10))
    station.settled(10)
    assert list(station.desk.marks) == ["s"]


def test_a_create_below_the_settled_sequence_does_not_begin_though_its_mark_is_forgotten() -> None:
    station = owned()
    station.ask(Remove("s", T10))
    station.settled(11)
    assert of(StartDispatcher, station.ask(create("s", EPOCH, 9))) == []


def test_the_settled_sequence_does_not_go_down() -> None:
    station = owned()
    station.settled(11)
    station.settled(5)
    assert of(StartDispatcher, station.ask(create("s", EPOCH, 9))) == []


# --- merges: prepare, hold, release -------------------------------------------------------------


def test_a_prepared_target_does_nothing() -> None:
    station = owned()
    out = station.ask(Prepare(spec("s"), T10, "m"))
    assert of(StartDispatcher, out) == []
    (status,) = told(out)
    assert (status.stage, status.operator) == (Stage.PREPARING, "m")


def test_b2_a_prepared_target_is_in_the_bootstrap_reply() -> None:
    station = at(EntryState.PREPARED)
    (reply,) = sent(BootstrapReply, station.bootstrap(EPOCH + 1))
    assert [(s.stage, s.operator) for s in reply.statuses] == [(Stage.PREPARING, "merge-1")]


def test_b2_a_held_source_is_in_the_bootstrap_reply() -> None:
    station = at(EntryState.HELD)
    (reply,) = sent(BootstrapReply, station.bootstrap(EPOCH + 1))
    assert [(s.stage, s.operator) for s in reply.statuses] == [(Stage.HELD, "merge-1")]


def test_the_create_of_the_same_token_begins_a_prepared_target() -> None:
    station = at(EntryState.PREPARED)
    out = station.ask(create("s", EPOCH, 10))
    assert [start.token for start in of(StartDispatcher, out)] == [T10]
    assert station.journal() == JournalRecord(FEED, spec("s"), T10)


def test_a_prepared_target_begins_only_when_the_journal_says_so() -> None:
    station = at(EntryState.PREPARED)
    station.hold = True
    assert of(StartDispatcher, station.ask(create("s", EPOCH, 10))) == []
    assert len(of(StartDispatcher, station.land())) == 1


def test_a_late_prepare_does_not_turn_a_begun_target_back() -> None:
    station = at(EntryState.WORKING)
    station.ask(Prepare(spec("s"), T10, "m"))
    assert station.entry().state is EntryState.WORKING


def test_a_hold_takes_effect_only_when_it_is_durable() -> None:
    station = at(EntryState.WORKING)
    station.hold = True
    assert of(HoldDispatcher, station.ask(Hold("s", T10, "m"))) == []
    assert of(HoldDispatcher, station.land()) == [HoldDispatcher(FEED, "s", T10, "m")]


def test_held_is_told_only_when_the_executor_holds_it() -> None:
    station = at(EntryState.WORKING)
    out = station.ask(Hold("s", T10, "m"))
    assert Stage.HELD not in [status.stage for status in told(out + station.tick())]
    (status,) = told(station.take(DispatcherHeld(FEED, "s", T10, "m")))
    assert (status.stage, status.operator) == (Stage.HELD, "m")


def test_a_hold_under_another_token_than_the_dispatchers_changes_nothing() -> None:
    station = at(EntryState.WORKING)
    station.ask(Hold("s", token(EPOCH, 9), "m"))
    assert station.entry().state is EntryState.WORKING


def test_a_second_merge_cannot_hold_what_one_holds() -> None:
    station = at(EntryState.HELD)
    station.ask(Hold("s", T10, "merge-2"))
    assert station.entry().operator == "merge-1"


@pytest.mark.parametrize("state", [EntryState.HOLDING, EntryState.HELD])
def test_a_release_lets_it_go_on(state: EntryState) -> None:
    station = at(state)
    out = station.ask(Release("s", T10, "merge-1"))
    assert of(ReleaseDispatcher, out) == [ReleaseDispatcher(FEED, "s", T10)]
    assert (station.entry().state, station.entry().operator) == (EntryState.WORKING, "")


def test_a_release_of_another_merge_changes_nothing() -> None:
    station = at(EntryState.HELD)
    assert of(ReleaseDispatcher, station.ask(Release("s", T10, "merge-2"))) == []
    assert station.entry().state is EntryState.HELD


def test_a_hold_that_was_released_before_it_was_durable_has_no_effect() -> None:
    station = at(EntryState.WORKING)
    station.hold = True
    station.ask(Hold("s", T10, "m"))
    station.ask(Release("s", T10, "m"))
    assert of(HoldDispatcher, station.land_all()) == []


def test_the_word_held_after_a_release_is_passed_over() -> None:
    station = at(EntryState.HOLDING)
    station.ask(Release("s", T10, "merge-1"))
    station.take(DispatcherHeld(FEED, "s", T10, "m"))
    assert station.entry().state is EntryState.WORKING


def test_the_word_held_for_an_earlier_merge_says_nothing_of_a_later_one() -> None:
    station = at(EntryState.HOLDING)
    station.ask(Release("s", T10, "merge-1"))
    station.ask(Hold("s", T10, "merge-2"))
    station.take(DispatcherHeld(FEED, "s", T10, "merge-1"))
    assert station.entry().state is EntryState.HOLDING


# --- barriers -----------------------------------------------------------------------------------


def blocked() -> Station:
    station = at(EntryState.WORKING)
    station.take(DispatcherBlocked(FEED, "s", T10, ALTER.position, ALTER))
    return station


def test_a_dispatcher_that_stands_before_a_ddl_says_so_at_once() -> None:
    station = at(EntryState.WORKING)
    out = station.take(DispatcherBlocked(FEED, "s", T10, ALTER.position, ALTER))
    (status,) = told(out)
    assert (status.barrier, status.ddl) == (100, ALTER)


def test_the_write_is_handed_on_with_its_births() -> None:
    station = blocked()
    out = station.ask(Write("s", T10, ALTER, (spec("new"),)))
    assert of(WriteBarrier, out) == [WriteBarrier(FEED, "s", T10, ALTER, (spec("new"),))]


def test_a_write_of_another_ddl_than_the_one_it_stands_before_is_not_obeyed() -> None:
    station = blocked()
    other = Ddl(99, DdlKind.ALTER, ("t",))
    assert of(WriteBarrier, station.ask(Write("s", T10, other))) == []


def test_a_written_ddl_is_told_at_once() -> None:
    station = blocked()
    (status,) = told(station.take(DispatcherAdvanced(FEED, "s", T10, 100)))
    assert (status.position, status.barrier) == (100, 100)


def test_a_pass_lets_it_go_on_behind_the_ddl() -> None:
    station = blocked()
    out = station.ask(Pass("s", T10, 100))
    assert of(PassBarrier, out) == [PassBarrier(FEED, "s", T10, 100)]
    (status,) = told(out)
    assert (status.position, status.barrier, status.ddl) == (100, 0, None)


def test_a_pass_of_another_ddl_is_not_obeyed() -> None:
    station = blocked()
    assert of(PassBarrier, station.ask(Pass("s", T10, 99))) == []


def test_a_repeated_pass_is_handed_on_once() -> None:
    station = blocked()
    station.ask(Pass("s", T10, 100))
    assert of(PassBarrier, station.ask(Pass("s", T10, 100))) == []


def test_a_position_does_not_go_back() -> None:
    station = at(EntryState.WORKING)
    station.take(DispatcherAdvanced(FEED, "s", T10, 50))
    station.take(DispatcherAdvanced(FEED, "s", T10, 40))
    assert station.entry().status().position == 50


# --- ends ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", RUNNING)
def test_a_dispatcher_that_the_sink_refused_is_told_as_fenced_and_stays(state: EntryState) -> None:
    station = at(state)
    assert [s.stage for s in told(station.take(DispatcherRefused(FEED, "s", T10)))] == [
        Stage.FENCED
    ]
    assert [status.stage for status in told(station.tick())] == [Stage.FENCED]


def test_a_failed_dispatcher_is_told_with_its_trouble() -> None:
    station = at(EntryState.WORKING)
    (status,) = told(station.take(DispatcherFailed(FEED, "s", T10, TROUBLE)))
    assert (status.stage, status.trouble) == (Stage.FAILED, TROUBLE)


def test_heat_is_told_with_the_next_heartbeat() -> None:
    station = at(EntryState.WORKING)
    assert told(station.take(DispatcherHeat(FEED, "s", T10, Heat.HOT, (b"m",)))) == []
    (status,) = told(station.tick())
    assert (status.heat, status.points) == (Heat.HOT, (b"m",))


def test_news_of_an_unknown_feed_is_passed_over() -> None:
    station = Station()
    assert station.take(DispatcherStarted("other", "s", T10, 1)) == []


# --- heartbeats ---------------------------------------------------------------------------------


def test_heartbeats_are_numbered_upwards() -> None:
    station = at(EntryState.WORKING)
    beats = [sent(Heartbeat, station.tick())[0].beat for _ in range(3)]
    assert beats == sorted(set(beats))


def test_a_tick_tells_all_and_says_that_it_is_all() -> None:
    station = at(EntryState.WORKING)
    (beat,) = sent(Heartbeat, station.tick())
    assert beat.full
    assert [status.span for status in beat.statuses] == ["s"]


def test_an_answer_to_a_request_does_not_pass_for_all() -> None:
    station = at(EntryState.WORKING)
    (beat,) = sent(Heartbeat, station.ask(Remove("x", token(EPOCH, 11))))
    assert not beat.full


def test_nobody_is_told_anything_before_the_fence_is_durable() -> None:
    station = Station()
    station.hold = True
    station.bootstrap()
    assert sent(Heartbeat, station.tick()) == []


# --- lives --------------------------------------------------------------------------------------


def test_a_journal_of_a_former_life_is_struck_out() -> None:
    former = at(EntryState.WORKING)
    assert former.journal() is not None
    station = Station(former.store)
    assert station.journal() is None
    assert station.manager.dispatchers == 0


def test_a_new_life_starts_nothing_by_itself() -> None:
    station = Station(at(EntryState.WORKING).store)
    assert of(StartDispatcher, station.tick()) == []


def test_the_same_owner_is_answered_by_a_new_life_with_nothing() -> None:
    station = Station(at(EntryState.WORKING).store)
    (reply,) = sent(BootstrapReply, station.bootstrap())
    assert (reply.node, reply.statuses) == (station.me, ())


def test_before_the_journal_is_read_nobody_is_answered() -> None:
    station = owned()
    manager = DispatcherManager(CONFIG, station.me)
    station.manager = manager
    assert station.bootstrap(EPOCH - 1) == []
    assert manager.state is ManagerState.LOADING


def test_the_journal_is_asked_for_again_when_it_could_not_be_read() -> None:
    station = Station()
    manager = DispatcherManager(CONFIG, station.me)
    assert of(Load, manager.handle(0, Tick())) != []
    manager.handle(0, LoadFailed("node:n"))
    assert of(Load, manager.handle(CONFIG.timing.resend_ms, Tick())) != []


def test_a_reading_of_a_former_life_is_waited_past() -> None:
    """B7 for the metastore: a late answer is not ours."""
    station = Station()
    manager = DispatcherManager(CONFIG, station.store.join("n", 0).ref)
    manager.handle(0, Loaded("node:n", station.me.incarnation, 0, ()))
    assert manager.state is ManagerState.LOADING


def test_f10_a_reading_of_a_newer_life_ends_this_one() -> None:
    station = Station()
    manager = DispatcherManager(CONFIG, station.me)
    manager.handle(0, Loaded("node:n", station.me.incarnation + 1, 0, ()))
    assert manager.refused


def test_f10_a_refused_journal_ends_this_life() -> None:
    station = at(EntryState.WORKING)
    station.take(Refused("node:n", 1, 2))
    assert station.manager.refused
    assert station.ask(create("x", EPOCH, 11)) == []
    assert station.tick() == []


def test_the_close_of_a_feed_counts_as_its_last_request() -> None:
    station = at(EntryState.WORKING)
    station.close()
    assert station.entry().stop_token == token(EPOCH, SEQ_MAX)


def test_several_requests_travel_to_the_journal_together() -> None:
    station = owned()
    station.hold = True
    station.ask(create("a", EPOCH, 1), create("b", EPOCH, 2))
    (batch,) = station.held
    assert [record.id for record in batch.puts] == [f"{FEED}/a", f"{FEED}/b"]


def test_requests_of_an_owner_whose_fence_is_not_durable_wait_behind_it() -> None:
    station = Station()
    station.hold = True
    station.bootstrap()
    station.ask(create("s", EPOCH, 10))
    assert of(StartDispatcher, station.land()) == []
    assert station.fence() is not None
    assert of(StartDispatcher, station.land()) != []


def test_feeds_do_not_know_of_each_other() -> None:
    station = at(EntryState.WORKING)
    station.take(Bootstrap("other", 1, OWNER))
    assert station.desk.fence.epoch == EPOCH
    assert station.manager.desks["other"].fence.epoch == 1


def test_a_frozen_journal_write_is_repeated_and_takes_effect_once() -> None:
    station = owned()
    station.hold = True
    station.ask(create("s", EPOCH, 10))
    (first,) = station.held
    station.unknown()
    station.tick()
    assert station.held == [first]
    assert len(of(StartDispatcher, station.land())) == 1


def test_nothing_to_write_is_not_committed() -> None:
    station = at(EntryState.WORKING)
    assert of(Commit, station.manager.handle(station.now, Tick())) == []


def test_o7_a_late_answer_to_a_hold_that_was_released_does_not_confirm_the_next_hold() -> None:
    station = at(EntryState.WORKING)
    station.ask(Hold("s", T10, "first"))
    station.ask(Release("s", T10, "first"))
    station.hold = True
    station.ask(Hold("s", T10, "second"))
    station.take(DispatcherHeld(FEED, "s", T10, "first"))
    assert of(HoldDispatcher, station.land()) == [HoldDispatcher(FEED, "s", T10, "second")]
    assert station.entry().state is EntryState.HOLDING
