"""The move's row at a side: made once, by many at once, and the fence of every verb."""

import threading

import psycopg
import pytest

from lockgate.endpoints.postgres.cutover import MoveMark, SideState, is_sealed, look, prepare
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.model.errors import MissingPrivilege, StaleOwner
from tests.endpoints.postgres.cutover.side import Side
from tests.support.roles import role


def test_many_prepare_at_once(database_of: str) -> None:
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            if number % 3:
                prepare(database_of)
            else:
                with PostgresSink(database_of) as sink:
                    sink.prepare()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    assert not failed
    prepare(database_of)
    assert look(database_of, "m", 1) is None


def test_looking_makes_nothing(database: str) -> None:
    assert look(database, "m", 1) is None
    with psycopg.connect(database) as admin:
        assert admin.execute("SELECT to_regnamespace('lockgate')").fetchone() == (None,)


def test_the_later_keeper_is_written_and_the_earlier_refused(here: Side) -> None:
    assert not is_sealed(here.url, here.keeper(5))
    assert not is_sealed(here.url, here.keeper(5))
    with pytest.raises(StaleOwner):
        is_sealed(here.url, here.keeper(4))
    row = here.row()
    assert row is not None
    assert (row.keeper, row.state) == (5, SideState.NEW)


def test_moves_of_one_name_are_told_apart_by_birth(here: Side) -> None:
    assert not is_sealed(here.url, MoveMark(here.mark.move, 1, 100))
    assert not is_sealed(here.url, MoveMark(here.mark.move, 2, 1))
    assert look(here.url, here.mark.move, 3) is None


def test_a_role_that_may_make_no_schema_is_told_what_it_lacks(database: str) -> None:
    with role(database) as (_, url):
        with pytest.raises(MissingPrivilege, match="may not keep the record of a move") as refused:
            prepare(url)
        assert "GRANT CREATE ON DATABASE" in refused.value.hint
