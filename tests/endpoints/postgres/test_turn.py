"""Turns at a database: one at a time, and nobody waits for ever for one who does not move."""

import psycopg
import pytest

from lockgate.endpoints.postgres import turn
from lockgate.endpoints.postgres.connect import connect
from lockgate.model.errors import EndpointBusy


def _connected(url: str) -> psycopg.Connection:
    return connect(url, purpose="turn", autocommit=True)


def test_a_turn_that_was_given_back_is_had_at_once(database: str) -> None:
    with _connected(database) as one, _connected(database) as two:
        with turn.taken(one, "it", 0.0):
            pass
        with turn.taken(two, "it", 0.0):
            pass
        assert not one.broken


def test_whoever_has_it_for_too_long_can_do_nothing_any_more(database_of: str) -> None:
    with _connected(database_of) as paused, _connected(database_of) as later:
        with (
            turn.taken(paused, "it", 0.0),
            turn.taken(later, "it", 0.1),
            pytest.raises(psycopg.OperationalError),
        ):
            paused.execute("CREATE TABLE late (id int)")
        assert paused.broken


def test_turns_at_different_things_do_not_meet(database: str) -> None:
    with (
        _connected(database) as one,
        _connected(database) as two,
        turn.taken(one, "it", 0.0),
        turn.taken(two, "something else", 0.0),
    ):
        one.execute("SELECT 1")


def test_who_is_not_one_of_ours_is_left_alone(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "_ENDING_S", 0.1)
    with _connected(database) as other, _connected(database) as mine:
        other.execute("SET application_name = 'app'")
        with (
            turn.taken(other, "it", 0.0),
            pytest.raises(EndpointBusy),
            turn.taken(mine, "it", 0.0),
        ):
            pytest.fail("nobody has ended it")
        other.execute("SELECT 1")
