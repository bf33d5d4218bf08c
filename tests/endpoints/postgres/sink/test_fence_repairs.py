"""Who writes rows of the position at which a feed is held: only while it is, whoever was first."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from lockgate.endpoints.postgres.sink.gate import Refused, enter_held
from lockgate.model.floors import Refusal
from lockgate.model.spans import WHOLE, Lineage
from tests.endpoints.postgres.sink.target import HIGH, LOW, A, B, Target, token
from tests.support.waiting import until

ME = token(1, 2)
START = ((WHOLE, 0),)
HERE = ((WHOLE, 7),)
LONG_S = 600.0


def _held(target: Target) -> Target:
    """A feed that stands at 7, all of it, and is held there."""
    for spec in (A, B):
        target.claim(spec, ME)
        target.sink.forget_chunks(target.feed, spec.id, ME, uncopied=True)
        target.advance(spec, ME, START, 7)
    target.advance_trigger(7)
    target.sink.hold(target.feed, "mine", 7, LONG_S)
    return target


@pytest.fixture
def held(target: Target) -> Target:
    return _held(target)


def _repair(
    target: Target, hold: str = "mine", position: int = 7, table: str = A.table
) -> Refusal | None:
    """What a repairer does."""
    with target.session("repair") as connection, connection.cursor() as cursor:
        try:
            enter_held(cursor, target.feed, table, hold, position)
        except Refused as refused:
            return refused.refusal
        target.write(cursor, table, 1, position)
        connection.commit()
    return None


def test_rows_are_written_at_the_position_of_the_hold(held: Target) -> None:
    assert _repair(held) is None
    assert held.rows() == {1: 7}


def test_nothing_is_written_without_the_hold(held: Target) -> None:
    held.sink.release(held.feed, "mine")
    assert _repair(held) is Refusal.MOVED
    held.sink.hold(held.feed, "yours", 7, LONG_S)
    assert _repair(held) is Refusal.MOVED
    assert held.rows() == {}


def test_nothing_is_written_when_its_time_is_over(held: Target) -> None:
    held.sink.hold(held.feed, "mine", 7, 0.0)
    assert _repair(held) is Refusal.MOVED


def test_nothing_is_written_at_another_position(held: Target) -> None:
    """He comes back to a hold of his own that he has taken anew since."""
    held.sink.hold(held.feed, "mine", 9, LONG_S)
    held.advance(A, ME, HERE, 9)
    assert _repair(held) is Refusal.MOVED


def test_nothing_is_written_while_anybody_of_the_feed_is_elsewhere(held: Target) -> None:
    held.sink.hold(held.feed, "mine", 9, LONG_S)
    held.advance(B, ME, HERE, 9)
    assert _repair(held) is Refusal.MOVED


def test_nothing_is_written_to_a_table_that_the_feed_does_not_have(held: Target) -> None:
    assert _repair(held, table="stranger") is Refusal.GONE


def test_nothing_is_written_for_a_feed_that_is_removed(held: Target) -> None:
    held.sink.close(held.feed, token(2), forget=True)
    assert _repair(held) is Refusal.GONE


def test_every_span_of_the_table_is_kept(held: Target) -> None:
    held.claim(HIGH, token(1, 3), lineage=Lineage(("a",), (LOW, HIGH)))
    assert _repair(held) is None


def test_who_wants_to_move_waits_for_who_is_inside(held: Target) -> None:
    """Even though the hold is over meanwhile."""
    with (
        held.session("repair") as connection,
        connection.cursor() as cursor,
        ThreadPoolExecutor(1) as threads,
    ):
        enter_held(cursor, held.feed, A.table, "mine", 7)
        held.sink.release(held.feed, "mine")
        moving = threads.submit(held.apply, A, ME, HERE, 8, 1)
        until(held.waiting)
        held.write(cursor, A.table, 1, 7)
        connection.commit()
        assert moving.result() == ((WHOLE, 8),)
    assert held.rows() == {1: 8}


def test_who_waited_for_a_mover_sees_that_it_moved(held: Target) -> None:
    held.sink.release(held.feed, "mine")
    with (
        psycopg.connect(held.url) as connection,
        connection.cursor() as cursor,
        ThreadPoolExecutor(1) as threads,
    ):
        cursor.execute(
            "UPDATE lockgate.progress SET position = 8, floors = jsonb_set(floors, '{0,1}', '8') "
            "WHERE feed = %s AND span = 'a'",
            (held.feed,),
        )
        repairing = threads.submit(_repair, held)
        until(held.waiting)
        connection.commit()
        assert repairing.result() is Refusal.MOVED


def test_the_hold_is_kept_up_and_others_repair_meanwhile(held: Target) -> None:
    with held.session("repair") as connection, connection.cursor() as cursor:
        enter_held(cursor, held.feed, A.table, "mine", 7)
        assert held.sink.hold(held.feed, "mine", 7, LONG_S) == 7
        assert _repair(held) is None


def test_the_next_owner_does_not_wait_for_ever(hasty: Target) -> None:
    _held(hasty)
    with hasty.session("repair") as connection, connection.cursor() as cursor:
        enter_held(cursor, hasty.feed, A.table, "mine", 7)
        assert hasty.claim(A, token(2)) == HERE
        with pytest.raises(psycopg.OperationalError):
            hasty.write(cursor, A.table, 1, 7)
