"""Holds at a real sink: nothing goes beyond, whoever moves and whoever was first."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.sql import SQL

from lockgate.endpoints.postgres.sink import hold as holds
from lockgate.endpoints.postgres.sink.gate import enter, leave
from lockgate.endpoints.postgres.sink.hold import Stands
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.errors import Conflict, EndpointBusy
from lockgate.model.floors import Refusal
from lockgate.model.spans import TRIGGER_SPEC, WHOLE, Birth, Lineage
from tests.endpoints.postgres.sink.target import HIGH, LOW, A, B, Target, token
from tests.support.waiting import until

ME = token(1, 2)
START = ((WHOLE, 0),)
LONG_S = 600.0


@pytest.fixture
def held(target: Target) -> Target:
    """A feed that is held at 7, its spans at 0 and owned by ME."""
    target.claim(A, ME)
    target.claim(B, ME)
    target.sink.hold(target.feed, "mine", 7, LONG_S)
    return target


# --- what a hold lets happen ----------------------------------------------------------------------


def test_a_task_beyond_a_hold_leaves_nothing(held: Target) -> None:
    assert held.apply(A, ME, START, 8, key=3) is Refusal.HELD
    assert (held.rows(), held.spans()["a"].floors) == ({}, START)


def test_a_task_comes_to_stand_exactly_where_the_feed_is_held(held: Target) -> None:
    assert held.apply(A, ME, START, 7, key=3) == ((WHOLE, 7),)


def test_idle_spans_beyond_a_hold_are_refused_each_for_itself(held: Target) -> None:
    moved = held.sink.advance(held.feed, [("a", ME, START, 8), ("b", ME, START, 7)])
    assert moved == {"a": Refusal.HELD, "b": ((WHOLE, 7),)}


def test_the_trigger_is_held_too(held: Target) -> None:
    assert held.advance_trigger(8) is Refusal.HELD
    assert held.advance_trigger(7) == ((WHOLE, 7),)


def test_no_batch_is_recorded_beyond_a_hold(held: Target) -> None:
    assert held.sink.record_batch(held.feed, "a", ME, START, 8, 2) is Refusal.HELD
    assert held.spans()["a"].batch_to is None


def test_a_batch_that_was_recorded_before_is_finished(target: Target) -> None:
    target.claim(A, ME)
    target.sink.record_batch(target.feed, "a", ME, START, 9, 2)
    assert target.sink.hold(target.feed, "mine", None, LONG_S) == 9
    target.admin.execute("UPDATE lockgate.parts SET landed = true WHERE feed = %s", (target.feed,))
    assert target.sink.finish_batch(target.feed, "a", ME) == ((WHOLE, 9),)


@pytest.mark.parametrize(("position", "answer"), [(8, Refusal.HELD), (7, 7)])
def test_a_schema_change_is_written_up_to_a_hold(
    held: Target, position: int, answer: Refusal | int
) -> None:
    before = position - 1
    held.advance_trigger(min(before, 7))
    held.advance(A, ME, START, min(before, 7))
    ddl = Ddl(position, DdlKind.ALTER, (A.table,))
    change = [SQL(f"ALTER TABLE {held.name(A.table)} ADD COLUMN more int")]
    assert held.sink.write_ddl(held.feed, token(), ddl, (), change) == answer


def test_children_of_a_split_are_held_like_their_parent(held: Target) -> None:
    floors = held.claim(HIGH, token(1, 3), lineage=Lineage(("a",), (LOW, HIGH)))
    assert isinstance(floors, tuple)
    assert held.apply(HIGH, token(1, 3), floors, 8) is Refusal.HELD
    assert held.apply(HIGH, token(1, 3), floors, 7) == ((HIGH.range, 7),)


def test_the_next_owner_is_held_too(held: Target) -> None:
    assert held.apply(A, token(2, 1), held.floors(A, token(2, 1)), 8) is Refusal.HELD


# --- its beginning and its end --------------------------------------------------------------------


def test_a_feed_is_held_at_the_furthest_that_anybody_is(target: Target) -> None:
    target.claim(A, ME)
    target.claim(B, ME)
    target.advance(B, ME, START, 5)
    assert target.sink.hold(target.feed, "mine", None, LONG_S) == 5
    assert target.advance(A, ME, START, 6) is Refusal.HELD


def test_a_feed_is_not_held_before_where_somebody_is(target: Target) -> None:
    target.claim(A, ME)
    target.advance(A, ME, START, 5)
    with pytest.raises(Conflict, match="beyond"):
        target.sink.hold(target.feed, "mine", 4, LONG_S)
    assert target.sink.held_upto(target.feed) is None


def test_a_released_feed_goes_on(held: Target) -> None:
    assert held.sink.release(held.feed, "mine")
    assert held.apply(A, ME, START, 8) == ((WHOLE, 8),)


def test_nobody_releases_anothers_hold(held: Target) -> None:
    assert not held.sink.release(held.feed, "yours")
    assert held.apply(A, ME, START, 8) is Refusal.HELD


def test_a_hold_whose_time_is_over_counts_for_nothing(held: Target) -> None:
    held.sink.hold(held.feed, "mine", 7, 0.0)
    assert held.sink.held_upto(held.feed) is None
    assert held.apply(A, ME, START, 8) == ((WHOLE, 8),)
    assert held.advance_trigger(8) == ((WHOLE, 8),)


def test_a_feed_has_one_holder_at_a_time(held: Target) -> None:
    with pytest.raises(EndpointBusy, match="held by mine"):
        held.sink.hold(held.feed, "yours", None, LONG_S)
    held.sink.hold(held.feed, "mine", 7, 0.0)
    assert held.sink.hold(held.feed, "yours", 9, LONG_S) == 9
    assert held.sink.held_by(held.feed) == "yours"


def test_a_holder_moves_its_hold_on(held: Target) -> None:
    assert held.sink.hold(held.feed, "mine", 9, LONG_S) == 9
    assert held.apply(A, ME, START, 9) == ((WHOLE, 9),)


def test_a_feed_that_is_not_there_is_not_held(target: Target) -> None:
    with pytest.raises(Conflict, match="no such feed"):
        target.sink.hold("stranger", "mine", None, LONG_S)
    target.sink.close(target.feed, token(2), forget=True)
    with pytest.raises(Conflict, match="no such feed"):
        target.sink.hold(target.feed, "mine", None, LONG_S)


def test_a_feed_that_is_born_again_is_not_held(held: Target) -> None:
    held.sink.close(held.feed, token(2), forget=True)
    held.claim(TRIGGER_SPEC, token(3), birth=Birth(20, (A,)))
    assert held.sink.held_upto(held.feed) is None


# --- who was first --------------------------------------------------------------------------------


def test_a_hold_waits_for_who_is_inside_and_counts_what_he_did(target: Target) -> None:
    target.claim(A, ME)
    with (
        target.session() as connection,
        connection.cursor() as cursor,
        ThreadPoolExecutor(1) as threads,
    ):
        enter(cursor, target.feed, "a", ME, START, share=False)
        leave(cursor, target.feed, "a", ME, START, 9)
        holding = threads.submit(target.sink.hold, target.feed, "mine", None, LONG_S)
        until(target.waiting)
        connection.commit()
        assert holding.result() == 9


def _task(target: Target) -> object:
    return target.apply(A, ME, START, 8, key=3)


def _idle(target: Target) -> object:
    return target.advance(A, ME, START, 8)


def _trigger(target: Target) -> object:
    return target.advance(TRIGGER_SPEC, token(), START, 8)


def _batch(target: Target) -> object:
    return target.sink.record_batch(target.feed, "a", ME, START, 8, 2)


def _ddl(target: Target) -> object:
    ddl = Ddl(8, DdlKind.ALTER, (A.table,))
    return target.sink.write_ddl(target.feed, token(), ddl, (), [])


@pytest.mark.parametrize("move", [_task, _idle, _trigger, _batch, _ddl])
def test_who_waited_for_a_hold_sees_it(target: Target, move: Callable[[Target], object]) -> None:
    """Its statement began before the hold was there to be seen."""
    target.claim(A, ME)
    with (
        psycopg.connect(target.url) as connection,
        connection.cursor() as cursor,
        ThreadPoolExecutor(1) as threads,
    ):
        holds.hold(cursor, target.feed, "mine", 7, LONG_S)
        moving = threads.submit(move, target)
        until(target.waiting)
        connection.commit()
        assert moving.result() is Refusal.HELD


def test_a_hold_gives_up_in_time_and_ends_nobody(hasty: Target) -> None:
    hasty.claim(A, ME)
    with hasty.session() as connection, connection.cursor() as cursor:
        enter(cursor, hasty.feed, "a", ME, START, share=False)
        with pytest.raises(EndpointBusy):
            hasty.sink.hold(hasty.feed, "mine", None, LONG_S)
        leave(cursor, hasty.feed, "a", ME, START, 8)
        connection.commit()
    assert hasty.sink.held_upto(hasty.feed) is None


# --- how far it is --------------------------------------------------------------------------------


def test_how_far_a_feed_is_counts_every_floor_and_batch(target: Target) -> None:
    target.claim(B, ME)
    target.advance(B, ME, START, 5)
    target.advance_trigger(3)
    assert target.sink.stands(target.feed) == Stands(0, 5, 0, copied=False)
    target.claim(A, ME)
    target.sink.record_batch(target.feed, "a", ME, START, 9, 2)
    assert target.sink.stands(target.feed) == Stands(0, 9, 1, copied=False)


def test_a_feed_stands_at_a_position_when_every_row_does(target: Target) -> None:
    for spec in (A, B):
        target.claim(spec, ME)
        target.sink.forget_chunks(target.feed, spec.id, ME, uncopied=True)
        target.advance(spec, ME, START, 5)
    before = target.sink.stands(target.feed)
    target.advance_trigger(5)
    after = target.sink.stands(target.feed)
    assert before is not None
    assert after is not None
    assert (before.exactly(5), after.exactly(5)) == (False, True)
