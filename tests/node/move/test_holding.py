"""Holds of a move at a real sink: the newest keeper's count, whoever sleeps and wakes up."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import psycopg
import pytest

from lockgate.endpoints.postgres.cutover.row import MoveMark, prepare
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.errors import EndpointBusy, StaleOwner
from lockgate.node.move.holding import hold, let_go
from tests.endpoints.postgres.sink.target import Target
from tests.support.databases import fresh_database
from tests.support.waiting import until

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


def after_a_freeze_in_the_middle(target: Target, verb: Callable[[], object]) -> None:
    """The first keeper's freeze has the move's row, and has not committed when the verb begins."""
    prepare(target.url)
    with (
        ThreadPoolExecutor(2) as pool,
        psycopg.connect(target.url, application_name="a person") as person,
    ):
        person.execute("SELECT FROM lockgate.feeds WHERE feed = %s FOR UPDATE", (target.feed,))
        doing: list[Future[object]] = []
        for one in (lambda: hold(FIRST, target.sink, target.feed), verb):
            doing.append(pool.submit(one))
            until(lambda: len(target.waiting()) == len(doing))
        person.rollback()
        for each in doing:
            each.result(30)


def test_what_a_former_keeper_holds_at_the_last_moment_is_let_go(target: Target) -> None:
    """Whoever looks first and then has the row does not see it, and nobody would look again."""
    after_a_freeze_in_the_middle(target, lambda: let_go(SECOND, target.sink, target.feed))
    assert held(target) is None


def test_what_a_former_keeper_holds_at_the_last_moment_is_taken_over(target: Target) -> None:
    after_a_freeze_in_the_middle(target, lambda: hold(SECOND, target.sink, target.feed))
    assert held(target) == "move m 7 2"


def test_a_hold_of_another_move_is_not_taken_over(target: Target) -> None:
    hold(MoveMark("m", 70, 1), target.sink, target.feed)
    let_go(SECOND, target.sink, target.feed)
    assert held(target) == "move m 70 1"
