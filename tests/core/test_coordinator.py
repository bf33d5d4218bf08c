"""Who owns a feed: raised and recorded first, told afterwards, one owner per epoch (F1, F2)."""

import pytest

from lockgate.core.coordinator.coordinator import Coordinator, CoordinatorState, Dismissed
from lockgate.core.coordinator.ownership import EPOCH_MAX
from lockgate.model.batch import Loaded, LoadFailed, Raise
from lockgate.model.config import CoreConfig
from lockgate.model.events import (
    CreateFeed,
    DrainNode,
    MoveMaintainer,
    PauseFeed,
    ResumeFeed,
    Tick,
)
from lockgate.model.feeds import FeedSpec, FeedState, Goal, Outcome
from lockgate.model.ids import NodeRef
from lockgate.model.instructions import Answer, Load
from lockgate.model.messages import NodeReport, StartMaintainer, StopMaintainer
from lockgate.model.records import COORDINATOR, FeedRecord, key_of
from lockgate.model.statuses import Phase
from tests.core.bench import TABLES, Bench, status

SILENCE = CoreConfig().timing.silence_ms


@pytest.fixture
def bench() -> Bench:
    return Bench("a", "b", "c")


@pytest.fixture
def running(bench: Bench) -> Bench:
    """A feed whose owner, node a, reports it."""
    bench.create("f")
    bench.says("a", status("f", 1))
    bench.pass_time(1_000)
    bench.take_starts()
    return bench


# --- raise, record, tell ------------------------------------------------------------------------


def test_the_raise_and_the_owner_are_in_one_batch(bench: Bench) -> None:
    bench.hold = True
    bench.create("f")
    (batch,) = bench.held
    assert batch.raises == (Raise("feed:f", 0, 1),)
    assert batch.puts == (FeedRecord("f", FeedState.NORMAL, Goal.RUN, 1, bench.refs["a"], TABLES),)
    assert batch.fence == bench.coordinator.term


def test_the_owner_is_told_only_after_the_raise_landed(bench: Bench) -> None:
    bench.hold = True
    bench.create("f")
    bench.pass_time(3_000)
    assert bench.take_starts() == []
    bench.land()
    term = bench.coordinator.term
    assert bench.take_starts() == [StartMaintainer(term, bench.refs["a"], "f", 1, Goal.RUN, TABLES)]


def test_a_crash_before_the_landing_leaves_no_owner_and_the_next_coordinator_repairs_it(
    bench: Bench,
) -> None:
    bench.hold = True
    bench.create("f")
    bench.held.clear()
    bench.hold = False
    bench.elect("b")
    assert "f" not in bench.coordinator.book.decided
    assert bench.fence("f") == 0
    bench.create("f")
    assert bench.fence("f") == bench.record("f").epoch == 1


def test_a_crash_between_landing_and_telling_is_repaired_by_the_next_coordinator(
    bench: Bench,
) -> None:
    bench.hold = True
    bench.create("f")
    bench.store.commit(bench.held.pop())
    bench.hold = False
    assert bench.take_starts() == []
    bench.elect("b")
    (start,) = bench.take_starts()
    assert (start.owner, start.epoch) == (bench.refs["a"], 1)


def test_a_start_is_repeated_until_the_owner_reports_it(bench: Bench) -> None:
    bench.create("f")
    bench.take_starts()
    bench.pass_time(3_000)
    assert len(bench.take_starts()) >= 2
    bench.says("a", status("f", 1, Phase.LOADING))
    bench.pass_time(1_000)
    bench.take_starts()
    bench.pass_time(3_000)
    assert bench.take_starts() == []


def test_an_unknown_outcome_repeats_the_same_batch_and_raises_once(bench: Bench) -> None:
    bench.hold = True
    bench.create("f")
    first = bench.held[0]
    bench.answer_unknown(landed=True)
    assert bench.take_starts() == []
    bench.pass_time(2_000)
    assert bench.held == [first]
    bench.land()
    assert bench.fence("f") == 1
    assert [start.epoch for start in bench.take_starts()] == [1]


def test_what_did_not_land_is_written_again_and_raises_once(bench: Bench) -> None:
    bench.hold = True
    bench.create("f")
    bench.answer_not_landed()
    assert bench.fence("f") == 0
    bench.pass_time(2_000)
    bench.land()
    assert bench.fence("f") == bench.record("f").epoch == 1


def test_of_two_coordinators_that_raise_one_wins_and_the_other_is_deposed(bench: Bench) -> None:
    bench.create("f")
    old = bench.coordinator
    bench.elect("b")
    new = bench.coordinator
    bench.die("a")
    bench.pass_time(1_000)
    assert bench.record("f").epoch == 2
    bench.coordinator = old
    bench.handle(MoveMaintainer("m", "f", "c"))
    assert old.state is CoordinatorState.DEPOSED
    assert bench.answers["m"].code == "coordinator-lost"
    assert bench.fence("f") == 2
    assert new.state is CoordinatorState.ACTIVE


def test_a_raise_refused_within_the_term_is_read_again_not_forced(bench: Bench) -> None:
    bench.store.scope("feed:f").fence = 4
    bench.create("f")
    assert bench.coordinator.state is CoordinatorState.LOADING
    assert bench.answers["create f"].code == "coordinator-lost"
    assert bench.fence("f") == 4
    assert bench.take_starts() == []
    bench.pass_time(2_000)
    assert bench.active


def test_past_the_last_epoch_there_is_an_error_and_no_raise(bench: Bench) -> None:
    record = FeedRecord("f", FeedState.NORMAL, Goal.RUN, EPOCH_MAX, None, TABLES)
    bench.store.scope("feed:f").fence = EPOCH_MAX
    bench.store.records(COORDINATOR)[key_of(record)] = record
    bench.elect("b")
    bench.pass_time(2_000)
    assert bench.record("f").epoch == bench.fence("f") == EPOCH_MAX
    assert "used up" in bench.record("f").error
    assert bench.take_starts() == []


# --- losing an owner ----------------------------------------------------------------------------


def test_a_dead_owner_is_followed_under_the_next_epoch(running: Bench) -> None:
    running.die("a")
    running.pass_time(500)
    (start,) = running.take_starts()
    assert (start.epoch, start.owner.node) == (2, "b")
    assert running.fence("f") == 2


def test_an_owner_in_a_new_life_is_not_the_owner(running: Bench) -> None:
    running.elect("b")  # a new life of the coordinator's own node would take the office too
    running.join("a")
    running.pass_time(500)
    assert running.record("f").epoch == 2


def test_a_silent_owner_is_followed_and_stopped_when_it_speaks_again(running: Bench) -> None:
    running.pass_time(SILENCE + 1_000, quiet=["a"])
    record = running.record("f")
    assert (record.epoch, record.owner) == (2, running.refs["b"])
    running.take_stops()
    running.report("a", status("f", 1))
    term = running.coordinator.term
    assert running.take_stops() == [("a", StopMaintainer(term, "f", 1))]


def test_a_stale_owner_is_followed_under_the_next_epoch(running: Bench) -> None:
    running.report("a", status("f", 1, Phase.ENDED, outcome=Outcome.STALE))
    running.handle(Tick())
    assert running.record("f").epoch == 2


def test_an_owner_that_speaks_and_never_shows_the_feed_is_followed(bench: Bench) -> None:
    bench.create("f")
    bench.pass_time(SILENCE + 2_000)
    assert bench.record("f").epoch == 2


def test_without_a_usable_node_nothing_is_raised(running: Bench) -> None:
    running.pass_time(SILENCE + 1_000, quiet=["a", "b", "c"])
    assert running.record("f").epoch == 1


# --- reports ------------------------------------------------------------------------------------


def test_an_older_report_changes_nothing(running: Bench) -> None:
    stale = status("f", 1, Phase.ENDED, outcome=Outcome.STALE)
    running.report("a", stale, beat=1)
    running.handle(Tick())
    assert running.record("f").epoch == 1


def test_a_report_to_another_term_changes_nothing(running: Bench) -> None:
    stale = status("f", 1, Phase.ENDED, outcome=Outcome.STALE)
    other = running.coordinator.term - 1
    running.handle(NodeReport(running.refs["a"], other, 999, (stale,), 0))
    running.handle(Tick())
    assert running.record("f").epoch == 1


def test_a_report_of_a_former_life_changes_nothing(running: Bench) -> None:
    former = running.refs["a"]
    running.join("a")
    running.pass_time(500)
    running.take_stops()
    term = running.coordinator.term
    running.handle(NodeReport(former, term, 999, (status("f", 1),), 0))
    assert running.take_stops() == []


def test_a_maintainer_of_an_unknown_feed_is_stopped_under_its_own_epoch(bench: Bench) -> None:
    bench.report("b", status("ghost", 9))
    assert bench.take_stops() == [("b", StopMaintainer(bench.coordinator.term, "ghost", 9))]


def test_a_former_owner_is_stopped_under_its_own_epoch_not_under_the_recorded_one(
    running: Bench,
) -> None:
    running.handle(MoveMaintainer("m", "f", "b"))
    running.take_stops()
    running.report("a", status("f", 1))
    assert running.take_stops() == [("a", StopMaintainer(running.coordinator.term, "f", 1))]


def test_a_former_owner_is_not_stopped_before_its_successor_is_recorded(running: Bench) -> None:
    running.hold = True
    running.handle(MoveMaintainer("m", "f", "b"))
    running.report("a", status("f", 1))
    assert running.take_stops() == []
    running.land()
    assert running.take_stops() == [("a", StopMaintainer(running.coordinator.term, "f", 1))]


def test_a_maintainer_of_a_newer_epoch_than_recorded_is_left_alone(running: Bench) -> None:
    running.report("b", status("f", 2))
    assert running.take_stops() == []


# --- moving and balance -------------------------------------------------------------------------


def test_a_move_raises_the_epoch_to_the_wanted_node_and_answers_when_it_landed(
    running: Bench,
) -> None:
    running.hold = True
    running.handle(MoveMaintainer("m", "f", "c"))
    assert "m" not in running.answers
    running.land()
    assert running.answers["m"] == Answer("m")
    record = running.record("f")
    assert (record.epoch, record.owner) == (2, running.refs["c"])


def test_a_move_to_where_it_is_is_done_without_an_epoch(running: Bench) -> None:
    running.handle(MoveMaintainer("m", "f", "a"))
    assert running.answers["m"] == Answer("m")
    assert running.record("f").epoch == 1


@pytest.mark.parametrize(
    ("verb", "code"),
    [
        (MoveMaintainer("m", "g", "b"), "unknown-feed"),
        (MoveMaintainer("m", "f", "z"), "unknown-node"),
        (DrainNode("m", "z"), "unknown-node"),
    ],
)
def test_what_is_not_there_is_refused_with_a_hint(
    running: Bench, verb: MoveMaintainer | DrainNode, code: str
) -> None:
    running.handle(verb)
    assert running.answers["m"].code == code
    assert running.answers["m"].hint
    assert running.record("f").epoch == 1


def test_a_stopped_feed_has_no_owner_to_move(running: Bench) -> None:
    running.handle(PauseFeed("p", "f"))
    running.report("a", status("f", 1, Phase.ENDED, outcome=Outcome.STOPPED))
    running.handle(MoveMaintainer("m", "f", "b"))
    assert running.answers["m"].code == "not-running"


def test_a_second_move_waits_for_the_first_raise(running: Bench) -> None:
    running.hold = True
    running.handle(MoveMaintainer("m", "f", "b"))
    running.handle(MoveMaintainer("n", "f", "c"))
    assert running.answers["n"].code == "feed-busy"


def test_feeds_are_spread_over_the_nodes(bench: Bench) -> None:
    for number in range(6):
        bench.create(f"f{number}")
    owners = [bench.owner(f"f{number}") for number in range(6)]
    assert sorted(owners) == ["a", "a", "b", "b", "c", "c"]


def test_balance_moves_running_feeds_to_a_node_that_came_later() -> None:
    bench = Bench("a")
    for number in range(5):
        bench.create(f"f{number}")
    bench.says("a", *(status(f"f{number}", 1) for number in range(5)))
    bench.join("b")
    bench.pass_time(CoreConfig().timing.balance_ms + 1_000)
    owners = sorted(bench.owner(f"f{number}") for number in range(5))
    assert owners.count("b") == 2


def test_balance_leaves_alone_what_is_still_starting() -> None:
    bench = Bench("a")
    for number in range(5):
        bench.create(f"f{number}")
    bench.says("a", *(status(f"f{n}", 1, Phase.BOOTSTRAPPING) for n in range(5)))
    bench.join("b")
    bench.pass_time(CoreConfig().timing.balance_ms + 1_000)
    assert {bench.owner(f"f{number}") for number in range(5)} == {"a"}


# --- terms --------------------------------------------------------------------------------------


def test_a_new_coordinator_loads_and_goes_on_without_new_epochs(running: Bench) -> None:
    running.elect("b")
    running.pass_time(3_000)
    assert running.active
    assert running.record("f").epoch == 1


def test_it_does_nothing_before_it_has_read_its_records() -> None:
    coordinator = Coordinator(CoreConfig(), NodeRef("a", 1), 3)
    assert coordinator.handle(0, Tick()) == [Load(COORDINATOR)]
    coordinator.handle(1, LoadFailed(COORDINATOR))
    (answer,) = coordinator.handle(2, CreateFeed("r", "f", FeedSpec()))
    assert isinstance(answer, Answer)
    assert answer.code == "coordinator-starting"
    assert coordinator.handle(1_001, Tick()) == [Load(COORDINATOR)]


def test_a_reading_under_an_older_term_is_not_taken() -> None:
    coordinator = Coordinator(CoreConfig(), NodeRef("a", 1), 3)
    coordinator.handle(0, Loaded(COORDINATOR, 2, 9, ()))
    assert coordinator.state is CoordinatorState.LOADING


def test_a_reading_under_a_newer_term_deposes() -> None:
    coordinator = Coordinator(CoreConfig(), NodeRef("a", 1), 3)
    coordinator.handle(0, Loaded(COORDINATOR, 4, 9, ()))
    assert coordinator.state is CoordinatorState.DEPOSED


def test_a_deposed_coordinator_says_and_asks_nothing(running: Bench) -> None:
    running.handle(ResumeFeed("r", "f"))
    running.handle(Dismissed())
    running.sent.clear()
    running.pass_time(SILENCE, quiet=["a"])
    running.handle(PauseFeed("p", "f"))
    assert running.sent == []
    assert running.answers["p"].code == "not-coordinator"
