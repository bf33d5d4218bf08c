"""What is left when a move is over: nothing, or what is named; and nobody comes back to it."""

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psycopg
import pytest

from lockgate.endpoints.postgres.cutover import (
    block,
    clean,
    drop,
    guard,
    is_sealed,
    open_tables,
    rename,
    seal,
)
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.model.errors import EndpointBusy, StaleOwner
from tests.endpoints.postgres.cutover.side import Side
from tests.support.roles import role
from tests.support.waiting import until


@pytest.fixture
def alone(database_of: str) -> Side:
    """A side in a database that has nothing else of Lockgate's."""
    return Side(database_of)


def sealed(side: Side) -> None:
    at = block(side.url, side.mark, side.tables, moved_to="x", deadline_s=60.0, patience_s=9.0)
    assert seal(side.url, side.mark, side.tables, blocked_at=at)


def schema(side: Side) -> bool:
    found = side.admin.execute("SELECT to_regnamespace('lockgate') IS NOT NULL").fetchone()
    return found == (True,)


def test_after_a_rename_nothing_is_left(alone: Side) -> None:
    sealed(alone)
    rename(alone.url, alone.mark, alone.tables)
    for _ in range(2):
        assert clean(alone.url, alone.mark, alone.tables, keep_guards=False) == []
    assert not schema(alone)
    alone.admin.close()


def test_an_open_side_has_nothing_left_either(alone: Side) -> None:
    guard(alone.url, alone.mark, alone.tables, at="x")
    open_tables(alone.url, alone.mark, alone.tables)
    assert clean(alone.url, alone.mark, alone.tables, keep_guards=False) == []
    assert not schema(alone)
    alone.insert()
    alone.admin.close()


def test_guards_are_kept_when_asked_and_named(alone: Side) -> None:
    sealed(alone)
    for keeper in (3, 4):
        stays = clean(alone.url, alone.keeper(keeper), alone.tables, keep_guards=True)
        assert f"the guard on {alone.orders}: it refuses all writes" in stays
        assert stays[-1] == "the schema lockgate with moves"
    with pytest.raises(psycopg.Error, match="has moved to x"):
        alone.insert()
    assert alone.row() is None
    alone.admin.close()


def test_guards_are_kept_on_partitions_too(here: Side) -> None:
    """Who names a partition passes the guard of its table."""
    whole, part = here.name("events"), here.name("events_1")
    here.do("CREATE TABLE {} (id int) PARTITION BY RANGE (id)", whole)
    here.do("CREATE TABLE {} PARTITION OF {} FOR VALUES FROM (0) TO (9)", part, whole)
    here.tables.append(whole)
    sealed(here)
    clean(here.url, here.mark, here.tables, keep_guards=True)
    for table in (whole, part):
        with pytest.raises(psycopg.Error, match="has moved to x"):
            here.do("INSERT INTO {} VALUES (1)", table)


def test_guards_go_also_from_tables_that_were_renamed_by_hand(here: Side) -> None:
    sealed(here)
    here.do("ALTER TABLE {} RENAME TO elsewhere", here.orders)
    clean(here.url, here.mark, here.tables, keep_guards=False)
    assert here.guards() == []


def test_who_slept_through_the_end_closes_nothing(here: Side) -> None:
    """Where a sink has its rows the schema stays, and with it a mark that the move is over."""
    with PostgresSink(here.url) as sink:
        sink.prepare()
    guard(here.url, here.mark, here.tables, at="x")
    open_tables(here.url, here.mark, here.tables)
    stays = clean(here.url, here.mark, here.tables, keep_guards=False)
    assert len(stays) == 1
    assert "progress" in stays[0]
    for verb in (
        lambda: guard(here.url, here.mark, here.tables, at="x"),
        lambda: drop(here.url, here.mark, here.tables),
        lambda: is_sealed(here.url, here.keeper(99)),
    ):
        with pytest.raises(StaleOwner, match="the move is over here"):
            verb()  # type: ignore[no-untyped-call]
    here.insert()
    assert clean(here.url, here.mark, here.tables, keep_guards=False) == stays


def test_who_slept_through_the_end_of_a_move_that_had_done_nothing_here_closes_nothing(
    here: Side,
) -> None:
    with PostgresSink(here.url) as sink:
        sink.prepare()
    for _ in range(2):
        clean(here.url, here.mark, here.tables, keep_guards=False)
    with pytest.raises(StaleOwner, match="the move is over here"):
        guard(here.url, here.keeper(1), here.tables, at="x")
    here.insert()


def test_a_side_that_has_nothing_of_lockgates_gets_nothing(alone: Side) -> None:
    assert clean(alone.url, alone.mark, alone.tables, keep_guards=False) == []
    assert not schema(alone)
    alone.admin.close()


def test_who_may_make_nothing_here_has_nothing_to_clean(alone: Side) -> None:
    """Nor could a former keeper, with the same role."""
    alone.admin.execute("CREATE SCHEMA lockgate")
    with role(alone.url) as (_, url):
        stays = clean(url, alone.mark, alone.tables, keep_guards=False)
    assert stays == ["the schema lockgate"]
    alone.admin.close()


def test_a_guard_that_a_former_keeper_puts_up_at_the_last_moment_goes(here: Side) -> None:
    """Whoever looks first and then has the row does not see it."""
    here.tables = [here.orders]
    with PostgresSink(here.url) as sink:
        sink.prepare()
    with ThreadPoolExecutor(2) as pool, here.holding() as writer:
        guarding = pool.submit(guard, here.url, here.keeper(1), here.tables, at="x")
        until(lambda: waiting(here) == 1)
        cleaning = pool.submit(clean, here.url, here.mark, here.tables, keep_guards=False)
        until(lambda: waiting(here) == 2)
        writer.rollback()
        cleaning.result(30)
        with suppress(StaleOwner):
            guarding.result(30)
    assert here.guards() == []
    here.insert()


def waiting(side: Side) -> int:
    """How many of the move's sessions wait for a lock."""
    found = side.admin.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND application_name = %s",
        (f"lockgate move {side.mark.move}",),
    ).fetchone()
    assert found is not None
    return int(found[0])


def test_another_move_is_left_alone(here: Side) -> None:
    other = type(here.mark)("another", 9, 1)
    guard(here.url, other, here.tables[1:], at="x")
    here.tables, others = here.tables[:1], here.tables[1:]
    sealed(here)
    clean(here.url, here.mark, here.tables, keep_guards=False)
    here.insert()
    with pytest.raises(psycopg.Error, match="is not open here yet"):
        here.insert(others[0])
    open_tables(here.url, other, others)


def test_a_stale_keeper_cleans_nothing(here: Side) -> None:
    sealed(here)
    with pytest.raises(StaleOwner):
        clean(here.url, here.keeper(1), here.tables, keep_guards=False)
    with pytest.raises(psycopg.Error, match="has moved"):
        here.insert()


def test_who_uses_a_table_for_long_is_named_and_the_rest_is_done_later(
    here: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[clean.__module__], "PATIENCE_S", 0.1)
    sealed(here)
    with here.person() as reader:
        here.do("SELECT * FROM {}", here.orders, by=reader)
        with pytest.raises(EndpointBusy, match=rf"session {reader.info.backend_pid} \(app"):
            clean(here.url, here.mark, here.tables, keep_guards=False)
    monkeypatch.undo()
    clean(here.url, here.mark, here.tables, keep_guards=False)
    assert here.guards() == []
