"""A name may be used again: who speaks for the feed that had it before is told so."""

import pytest

from lockgate.model.events import CreateFeed, PauseFeed, RemoveFeed, ResumeFeed
from lockgate.model.feeds import FeedSpec, FeedState, Goal, Outcome
from lockgate.model.instructions import Answer
from lockgate.model.statuses import Phase
from tests.core.bench import Bench, status

FORMER, LATTER = FeedSpec(5, ("t",), birth=3), FeedSpec(9, ("t",), birth=4)


@pytest.fixture
def bench() -> Bench:
    """The former feed runs."""
    bench = Bench("a", "b")
    bench.handle(CreateFeed("c", "f", FORMER))
    return bench


def _remove(bench: Bench, birth: int) -> None:
    bench.handle(RemoveFeed(f"x{birth}", "f", birth))
    record = bench.record("f")
    assert record.owner is not None
    gone = status("f", record.epoch, Phase.ENDED, outcome=Outcome.REMOVED)
    bench.report(record.owner.node, gone)
    assert bench.record("f").state is FeedState.REMOVED


def test_a_late_removal_leaves_the_feed_that_has_the_name_now(bench: Bench) -> None:
    _remove(bench, 3)
    bench.handle(CreateFeed("anew", "f", LATTER))
    bench.handle(RemoveFeed("late", "f", 3))
    assert bench.answers["late"].code == "feed-outlived"
    assert (bench.record("f").goal, bench.record("f").spec) == (Goal.RUN, LATTER)


@pytest.mark.parametrize("verb", [PauseFeed, ResumeFeed])
def test_nobody_who_is_late_stops_or_wakes_it(
    bench: Bench, verb: type[PauseFeed | ResumeFeed]
) -> None:
    _remove(bench, 3)
    bench.handle(CreateFeed("anew", "f", LATTER))
    if verb is ResumeFeed:
        bench.handle(PauseFeed("people", "f"))
    before = bench.record("f")
    bench.handle(verb("late", "f", 3))
    assert bench.answers["late"].code == "feed-outlived"
    assert bench.record("f") == before
    bench.handle(verb("timely", "f", 4))
    assert bench.answers["timely"] == Answer("timely")
    assert bench.record("f") != before


def test_what_was_stopped_is_not_woken_by_who_may_only_wake_what_failed(bench: Bench) -> None:
    bench.handle(PauseFeed("move", "f"))
    before = bench.record("f")
    bench.handle(ResumeFeed("people", "f", failed_only=True))
    assert bench.answers["people"].code == "feed-stopped"
    assert bench.record("f") == before
    bench.handle(ResumeFeed("move again", "f", 3))
    assert bench.record("f").goal is Goal.RUN


def test_a_removal_of_before_there_were_births_does_not_mean_a_feed_with_one(bench: Bench) -> None:
    bench.handle(RemoveFeed("late", "f"))
    assert bench.answers["late"].code == "feed-outlived"
    assert bench.record("f").goal is Goal.RUN


def test_a_feed_that_was_removed_is_not_brought_back_by_who_asks_late(bench: Bench) -> None:
    _remove(bench, 3)
    bench.handle(CreateFeed("late", "f", FORMER))
    assert bench.answers["late"].code == "feed-outlived"
    assert bench.record("f").state is FeedState.REMOVED


def test_nor_when_its_successor_was_removed_as_well(bench: Bench) -> None:
    _remove(bench, 3)
    bench.handle(CreateFeed("anew", "f", LATTER))
    _remove(bench, 4)
    bench.handle(CreateFeed("late", "f", FORMER))
    assert bench.answers["late"].code == "feed-outlived"
    assert bench.record("f").state is FeedState.REMOVED


def test_the_same_feed_may_be_asked_for_twice(bench: Bench) -> None:
    bench.handle(CreateFeed("again", "f", FORMER))
    assert bench.answers["again"] == Answer("again")
