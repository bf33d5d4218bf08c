"""Partitions that come while a move is under way: closed at the side that is closed, like their
table, and in nobody's way."""

import psycopg
import pytest

from lockgate.model.moves import Command, Disposal, MoveState
from lockgate.node.service import NodeService
from tests.support.feeds import Pair
from tests.support.moves import RENAME, REVERSE, SWITCH, copied, left_behind, order
from tests.support.waiting import until

SOON_S = 60.0
KEEP = order(Command.COMPLETE, disposal=Disposal.KEEP)


@pytest.fixture
def parted(service: NodeService, pair: Pair) -> NodeService:
    """A move of `orders`, and of `visits`, which has a partition for each day."""
    pair.at_source(
        "CREATE TABLE visits (day int, id int, PRIMARY KEY (day, id)) PARTITION BY LIST (day)",
        _partition(1),
        "INSERT INTO visits SELECT 1, g FROM generate_series(1, 50) g",
    )
    copied(service)
    return service


def _partition(day: int) -> str:
    return f"CREATE TABLE visits_{day} PARTITION OF visits FOR VALUES IN ({day})"


def _new_day(open_: str, closed: str, day: int, told: str) -> None:
    """A partition comes at the open side, and to the other; it takes writes at the open one only,
    whatever name they go by."""
    with psycopg.connect(open_) as connection:
        connection.execute(_partition(day))
        connection.execute(f"INSERT INTO visits_{day} VALUES ({day}, 1)")
    with psycopg.connect(closed, autocommit=True) as connection:

        def has_come() -> bool:
            if connection.execute(f"SELECT to_regclass('visits_{day}')").fetchone() == (None,):
                return False
            return connection.execute(f"SELECT id FROM visits_{day}").fetchall() == [(1,)]

        until(has_come, SOON_S)
        for statement in (f"INSERT INTO visits_{day} VALUES ({day}, 2)", f"TRUNCATE visits_{day}"):
            with pytest.raises(psycopg.Error, match=r"public\.visits ") as refused:
                connection.execute(statement)
            assert refused.value.sqlstate == told


def test_partitions_that_come_on_the_way_are_closed_and_hold_up_no_command(
    parted: NodeService, pair: Pair
) -> None:
    _new_day(pair.source, pair.target, 2, "LK003")
    assert parted.moves.command("orders", SWITCH, "test").verdict == "done"
    _new_day(pair.target, pair.source, 3, "LK001")
    assert parted.moves.command("orders", REVERSE, "test").verdict == "done"
    _new_day(pair.source, pair.target, 4, "LK001")
    assert parted.moves.command("orders", SWITCH, "test").verdict == "done"
    _new_day(pair.target, pair.source, 5, "LK001")
    assert parted.moves.command("orders", RENAME, "test").verdict == "done"
    assert parted.moves.one("orders").state is MoveState.COMPLETED
    assert left_behind(pair) == {}
    query = "SELECT * FROM {} ORDER BY day, id"
    kept = pair.ask_source(query.format("_visits_old"))
    assert kept == pair.ask_target(query.format("visits"))
    assert [day for day, number in kept if day > 1] == [2, 3, 4, 5]


def test_a_partition_without_a_guard_gets_it_before_the_command_acts(
    parted: NodeService, pair: Pair
) -> None:
    """One that somebody made at the closed side, or that came by an older version."""
    pair.at_target("DROP TRIGGER lockgate_guard ON visits_1")
    for command, closed in ((SWITCH, pair.at_target), (KEEP, pair.at_source)):
        closed("DROP TRIGGER IF EXISTS lockgate_guard ON visits_1")
        planned = parted.moves.command("orders", command, "test", dry=True)
        assert "public.visits_1 has no guard of its own, and gets one" in planned.steps[0].detail
        assert parted.moves.command("orders", command, "test").verdict == "done"
    with pytest.raises(psycopg.Error, match=r"public\.visits has moved to copy"):
        pair.at_source("INSERT INTO visits_1 VALUES (1, 99)")


def test_a_table_without_a_guard_is_still_refused(parted: NodeService, pair: Pair) -> None:
    pair.at_target("DROP TRIGGER lockgate_guard ON visits")
    with pytest.raises(Exception, match="should have one"):
        parted.moves.command("orders", SWITCH, "test")
