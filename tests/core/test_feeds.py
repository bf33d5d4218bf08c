"""A feed's life, as the coordinator records it and as people are answered."""

import pytest

from lockgate.core.coordinator.feeds import backoff_ms
from lockgate.model.config import CoreConfig, Policy, Timing
from lockgate.model.events import CreateFeed, PauseFeed, RemoveFeed, ResumeFeed, Tick
from lockgate.model.feeds import FeedSpec, FeedState, Goal, Outcome, Trouble
from lockgate.model.instructions import Answer
from lockgate.model.messages import StopMaintainer
from lockgate.model.statuses import Phase
from tests.core.bench import TABLES, Bench, status

BROKEN = Trouble("the target is down", retryable=True)
HOPELESS = Trouble("a column has no counterpart", retryable=False)


@pytest.fixture
def bench() -> Bench:
    bench = Bench("a", "b")
    bench.create("f")
    bench.says("a", status("f", 1))
    bench.pass_time(500)
    bench.take_starts()
    return bench


def ended(bench: Bench, outcome: Outcome) -> None:
    """The owner has done what was asked."""
    record = bench.record("f")
    assert record.owner is not None
    bench.report(record.owner.node, status("f", record.epoch, Phase.ENDED, outcome=outcome))


def seen(bench: Bench) -> tuple[FeedState, Goal]:
    record = bench.record("f")
    return record.state, record.goal


# --- create -------------------------------------------------------------------------------------


def test_create_is_answered_when_it_landed() -> None:
    bench = Bench("a")
    bench.hold = True
    bench.create("g")
    assert bench.answers == {}
    bench.land()
    assert bench.answers["create g"] == Answer("create g")


def test_an_equal_feed_is_created_once(bench: Bench) -> None:
    bench.handle(CreateFeed("again", "f", TABLES))
    assert bench.answers["again"] == Answer("again")
    assert bench.record("f").epoch == 1


def test_another_feed_of_the_name_is_refused(bench: Bench) -> None:
    bench.handle(CreateFeed("other", "f", FeedSpec(tables=("customers",))))
    assert bench.answers["other"].code == "feed-exists"
    assert bench.answers["other"].hint
    assert bench.record("f").spec == TABLES


def test_done_because_it_is_so_already_is_said_only_once_that_is_durable(bench: Bench) -> None:
    bench.hold = True
    bench.handle(PauseFeed("one", "f"))
    bench.handle(PauseFeed("two", "f"))
    assert not {"one", "two"} & set(bench.answers)
    bench.land()
    bench.land()
    assert bench.answers["one"] == Answer("one")
    assert bench.answers["two"] == Answer("two")


# --- pause and resume ---------------------------------------------------------------------------


def test_pause_tells_the_owner_to_stop_under_the_same_epoch(bench: Bench) -> None:
    bench.handle(PauseFeed("p", "f"))
    bench.handle(Tick())
    assert seen(bench) == (FeedState.STOPPED, Goal.STOP)
    assert [(s.epoch, s.goal) for s in bench.take_starts()] == [(1, Goal.STOP)]


def test_a_stopped_owner_is_recorded_as_gone_and_then_forgotten_by_its_host(
    bench: Bench,
) -> None:
    bench.handle(PauseFeed("p", "f"))
    bench.hold = True
    ended(bench, Outcome.STOPPED)
    assert bench.take_stops() == []
    bench.land()
    assert bench.record("f").owner is None
    assert bench.take_stops() == [("a", StopMaintainer(bench.coordinator.term, "f", 1))]


def test_the_host_is_told_to_forget_until_it_has(bench: Bench) -> None:
    bench.handle(PauseFeed("p", "f"))
    ended(bench, Outcome.STOPPED)
    bench.take_stops()
    bench.says("a", status("f", 1, Phase.ENDED, outcome=Outcome.STOPPED))
    bench.pass_time(500)
    assert bench.take_stops() == [("a", StopMaintainer(bench.coordinator.term, "f", 1))]
    assert bench.record("f").epoch == 1


def test_a_feed_whose_owner_dies_while_stopping_is_stopped_by_another(bench: Bench) -> None:
    bench.handle(PauseFeed("p", "f"))
    bench.die("a")
    bench.pass_time(500)
    record = bench.record("f")
    assert (record.epoch, record.goal) == (2, Goal.STOP)
    assert record.owner == bench.refs["b"]


def test_a_feed_whose_owner_is_stale_while_stopping_is_not_stopped_yet(bench: Bench) -> None:
    bench.handle(PauseFeed("p", "f"))
    ended(bench, Outcome.STALE)
    bench.handle(Tick())
    record = bench.record("f")
    assert (record.epoch, record.goal) == (2, Goal.STOP)
    assert record.owner is not None


def test_a_stopped_feed_stays_without_owner(bench: Bench) -> None:
    bench.handle(PauseFeed("p", "f"))
    ended(bench, Outcome.STOPPED)
    bench.says("a")
    bench.pass_time(5_000)
    assert bench.record("f").owner is None
    assert bench.record("f").epoch == 1


def test_resume_is_a_new_epoch(bench: Bench) -> None:
    bench.handle(PauseFeed("p", "f"))
    ended(bench, Outcome.STOPPED)
    bench.handle(ResumeFeed("r", "f"))
    assert seen(bench) == (FeedState.NORMAL, Goal.RUN)
    assert bench.record("f").epoch == 2


def test_resume_while_stopping_is_a_new_epoch_too(bench: Bench) -> None:
    bench.handle(PauseFeed("p", "f"))
    bench.handle(ResumeFeed("r", "f"))
    record = bench.record("f")
    assert (record.epoch, record.goal) == (2, Goal.RUN)


def test_an_owner_that_is_closing_although_the_feed_shall_run_is_followed(bench: Bench) -> None:
    bench.report("a", status("f", 1, Phase.CLOSING))
    bench.handle(Tick())
    assert bench.record("f").epoch == 2


def test_pause_and_resume_of_a_feed_that_is_so_already_change_nothing(bench: Bench) -> None:
    bench.handle(ResumeFeed("r", "f"))
    assert bench.answers["r"] == Answer("r")
    assert bench.record("f").epoch == 1


@pytest.mark.parametrize("verb", [PauseFeed, ResumeFeed, RemoveFeed])
def test_an_unknown_feed_is_refused_with_a_hint(
    bench: Bench, verb: type[PauseFeed | ResumeFeed | RemoveFeed]
) -> None:
    bench.handle(verb("v", "nope"))
    assert bench.answers["v"].code == "unknown-feed"
    assert bench.answers["v"].hint


# --- trouble ------------------------------------------------------------------------------------


def test_trouble_stops_the_feed_waits_and_tries_again_with_a_new_epoch(bench: Bench) -> None:
    bench.report("a", status("f", 1, trouble=BROKEN))
    assert seen(bench) == (FeedState.WARNING, Goal.STOP)
    assert bench.record("f").error == BROKEN.what
    ended(bench, Outcome.STOPPED)
    bench.says("a")
    bench.pass_time(500)
    assert seen(bench) == (FeedState.WARNING, Goal.STOP)
    bench.pass_time(1_500)
    assert seen(bench) == (FeedState.WARNING, Goal.RUN)
    assert bench.record("f").epoch == 2


def test_a_feed_in_trouble_is_not_tried_again_before_it_has_stopped(bench: Bench) -> None:
    bench.says("a", status("f", 1, trouble=BROKEN))
    bench.pass_time(10_000)
    assert seen(bench) == (FeedState.WARNING, Goal.STOP)
    assert bench.record("f").epoch == bench.record("f").attempts == 1


def test_trouble_that_is_reported_again_while_stopping_counts_once(bench: Bench) -> None:
    bench.report("a", status("f", 1, trouble=BROKEN))
    bench.report("a", status("f", 1, Phase.CLOSING, trouble=BROKEN))
    assert bench.record("f").attempts == 1


def test_hopeless_trouble_fails_the_feed(bench: Bench) -> None:
    bench.report("a", status("f", 1, trouble=HOPELESS))
    assert seen(bench) == (FeedState.FAILED, Goal.STOP)
    ended(bench, Outcome.STOPPED)
    assert seen(bench) == (FeedState.FAILED, Goal.STOP)
    assert bench.record("f").owner is None


def test_one_try_too_many_fails_the_feed() -> None:
    config = CoreConfig(Timing(backoff_ms_min=500, backoff_ms_max=500), Policy(attempts_max=2))
    bench = Bench("a", config=config)
    bench.create("f")
    for attempt in range(3):
        assert bench.record("f").attempts == attempt
        bench.report("a", status("f", bench.record("f").epoch, trouble=BROKEN))
        ended(bench, Outcome.STOPPED)
        bench.pass_time(2_000)
    assert seen(bench) == (FeedState.FAILED, Goal.STOP)


def test_progress_makes_the_feed_normal_and_forgets_the_tries(bench: Bench) -> None:
    bench.report("a", status("f", 1, trouble=BROKEN))
    ended(bench, Outcome.STOPPED)
    bench.says("a")
    bench.pass_time(2_500)
    owner = bench.owner("f")
    bench.report(owner, status("f", 2, checkpoint=40))
    assert seen(bench) == (FeedState.WARNING, Goal.RUN)
    bench.report(owner, status("f", 2, checkpoint=41))
    assert seen(bench) == (FeedState.NORMAL, Goal.RUN)
    assert bench.record("f").attempts == 0
    assert bench.record("f").error == ""
    assert bench.record("f").epoch == 2


def test_resume_of_a_failed_feed_forgets_the_tries_and_the_error(bench: Bench) -> None:
    bench.report("a", status("f", 1, trouble=HOPELESS))
    ended(bench, Outcome.STOPPED)
    bench.handle(ResumeFeed("r", "f"))
    record = bench.record("f")
    assert (record.state, record.attempts, record.error) == (FeedState.NORMAL, 0, "")


def test_a_rest_goes_on_under_the_next_coordinator(bench: Bench) -> None:
    bench.report("a", status("f", 1, trouble=BROKEN))
    ended(bench, Outcome.STOPPED)
    bench.says("a")
    bench.elect("b")
    bench.pass_time(2_500)
    assert bench.record("f").epoch == 2


def test_the_rest_doubles_up_to_its_limit() -> None:
    timing = Timing(backoff_ms_min=100, backoff_ms_max=1_000)
    assert [backoff_ms(timing, n) for n in (1, 2, 3, 4, 5, 99)] == [
        100,
        200,
        400,
        800,
        1_000,
        1_000,
    ]


# --- the end ------------------------------------------------------------------------------------


def test_a_finished_feed_is_stopped_and_stays_finished(bench: Bench) -> None:
    bench.report("a", status("f", 1, finished=True))
    assert seen(bench) == (FeedState.FINISHED, Goal.STOP)
    ended(bench, Outcome.STOPPED)
    assert seen(bench) == (FeedState.FINISHED, Goal.STOP)
    bench.handle(ResumeFeed("r", "f"))
    assert bench.answers["r"].code == "feed-finished"


def test_remove_is_recorded_as_done_when_the_owner_says_so(bench: Bench) -> None:
    bench.handle(RemoveFeed("x", "f"))
    assert bench.answers["x"] == Answer("x")
    assert bench.record("f").goal is Goal.REMOVE
    assert bench.record("f").state is not FeedState.REMOVED
    ended(bench, Outcome.REMOVED)
    assert bench.record("f").state is FeedState.REMOVED
    assert bench.record("f").owner is None


def test_a_stopped_feed_gets_an_owner_to_remove_it(bench: Bench) -> None:
    bench.handle(PauseFeed("p", "f"))
    ended(bench, Outcome.STOPPED)
    bench.handle(RemoveFeed("x", "f"))
    record = bench.record("f")
    assert (record.epoch, record.goal) == (2, Goal.REMOVE)
    assert record.owner is not None


def test_an_owner_that_stopped_before_it_heard_of_the_removal_is_followed(bench: Bench) -> None:
    bench.handle(PauseFeed("p", "f"))
    bench.handle(RemoveFeed("x", "f"))
    ended(bench, Outcome.STOPPED)
    bench.handle(Tick())
    record = bench.record("f")
    assert (record.epoch, record.goal) == (2, Goal.REMOVE)


def test_a_removal_is_told_until_it_shows(bench: Bench) -> None:
    bench.handle(RemoveFeed("x", "f"))
    bench.says("a", status("f", 1, Phase.CLOSING))
    bench.pass_time(1_000)
    bench.take_starts()
    bench.pass_time(2_000)
    assert {start.goal for start in bench.take_starts()} == {Goal.REMOVE}
    bench.says("a", status("f", 1, Phase.FORGETTING))
    bench.pass_time(500)
    bench.take_starts()
    bench.pass_time(2_000)
    assert bench.take_starts() == []


@pytest.mark.parametrize("verb", [PauseFeed, ResumeFeed])
def test_a_feed_that_is_being_removed_is_left_to_it(
    bench: Bench, verb: type[PauseFeed | ResumeFeed]
) -> None:
    bench.handle(RemoveFeed("x", "f"))
    bench.handle(verb("v", "f"))
    assert bench.answers["v"].code == "feed-removing"
    assert bench.record("f").goal is Goal.REMOVE


def test_a_new_feed_of_a_removed_ones_name_goes_on_counting_epochs(bench: Bench) -> None:
    bench.handle(RemoveFeed("x", "f"))
    bench.handle(CreateFeed("early", "f", TABLES))
    assert bench.answers["early"].code == "feed-removing"
    ended(bench, Outcome.REMOVED)
    bench.says("a")
    other = FeedSpec(tables=("customers",))
    bench.handle(CreateFeed("new", "f", other))
    assert bench.answers["new"] == Answer("new")
    record = bench.record("f")
    assert (record.epoch, record.spec, record.state) == (2, other, FeedState.NORMAL)
    assert bench.fence("f") == 2


def test_removing_a_removed_feed_is_done(bench: Bench) -> None:
    bench.handle(RemoveFeed("x", "f"))
    ended(bench, Outcome.REMOVED)
    bench.handle(RemoveFeed("again", "f"))
    assert bench.answers["again"] == Answer("again")
