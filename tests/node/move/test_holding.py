"""Holds of a move at a real sink: the newest keeper's count, whoever sleeps and wakes up."""

from collections.abc import Iterator

import pytest

from lockgate.endpoints.postgres.cutover.row import MoveMark
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.errors import EndpointBusy, StaleOwner
from lockgate.node.move.holding import hold, let_go
from tests.endpoints.postgres.sink.target import Target
from tests.support.databases import fresh_database

FIRST, SECOND = (MoveMark("m", 7, keeper) for keeper in (1, 2))


@pytest.fixture
def target(pg16: EmbeddedPostgres) -> Iterator[Target]:
    with fresh_database(pg16) as url:
        place = Target(url)
        yield place
        place.close()


def held(target: Target) -> str | None:
    return target.sink.held_by(target.feed)


def test_a_feed_is_held_and_let_go(target: Target) -> None:
    assert hold(FIRST, target.sink, target.feed) == 0
    assert held(target) == "move m 7 1"
    let_go(FIRST, target.sink, target.feed)
    assert held(target) is None


def test_a_freeze_that_comes_after_its_undoing_holds_nothing(target: Target) -> None:
    """Its keeper slept; the next one has found nothing to let go, and nobody would look again."""
    let_go(SECOND, target.sink, target.feed)
    with pytest.raises(StaleOwner):
        hold(FIRST, target.sink, target.feed)
    assert held(target) is None


def test_a_successor_takes_over_what_was_held(target: Target) -> None:
    hold(FIRST, target.sink, target.feed)
    hold(SECOND, target.sink, target.feed)
    assert held(target) == "move m 7 2"


def test_a_former_keeper_lets_nothing_go(target: Target) -> None:
    hold(SECOND, target.sink, target.feed)
    with pytest.raises(StaleOwner):
        let_go(FIRST, target.sink, target.feed)
    assert held(target) == "move m 7 2"


def test_what_somebody_else_holds_is_left_alone(target: Target) -> None:
    target.sink.hold(target.feed, "a comparison", None, 600.0)
    let_go(FIRST, target.sink, target.feed)
    with pytest.raises(EndpointBusy):
        hold(FIRST, target.sink, target.feed)
    assert held(target) == "a comparison"
