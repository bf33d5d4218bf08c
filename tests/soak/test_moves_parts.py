"""The soak of moves is only worth what its parts see."""

from collections.abc import Iterator

import psycopg
import pytest

from lockgate.core.move.plans import PLANS, UNDO_ORDER
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.moves import Command, Step
from soak.moves.cells import COMMANDS, VICTIMS, cells
from soak.moves.flips import Flip, wrongly_refused
from soak.moves.ledger import MOVED, MOVING, Acknowledged, Ledger, Refused, missing_or_doubled
from soak.moves.leftovers import leftovers
from soak.moves.prober import Prober
from soak.moves.renames import Hammer, _Transaction
from tests.support.databases import fresh_database
from tests.support.waiting import until

TABLE = "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY, note text)"
CLOSED = (
    "CREATE FUNCTION closed() RETURNS trigger LANGUAGE plpgsql AS "
    "$$BEGIN RAISE EXCEPTION 'closed' USING ERRCODE = 'LK001'; END$$",
    "CREATE TRIGGER closed BEFORE INSERT ON orders EXECUTE FUNCTION closed()",
)


@pytest.fixture
def sides(pg16: EmbeddedPostgres, pg18: EmbeddedPostgres) -> Iterator[tuple[str, str]]:
    with fresh_database(pg16) as source, fresh_database(pg18) as target:
        for url in (source, target):
            _do(url, TABLE)
        yield source, target


def _do(url: str, *statements: str) -> None:
    with psycopg.connect(url) as connection:
        for statement in statements:
            connection.execute(statement)


# --- cells ----------------------------------------------------------------------------------------


def test_every_step_of_every_command_is_in_the_matrix() -> None:
    tried = {(one.command, one.step, one.undo) for one in cells(COMMANDS, VICTIMS, None)}
    wanted = {
        (command.value, step.value, False)
        for command, plan in PLANS.items()
        for step in plan
        if step is not Step.FLIP
    }
    wanted |= {
        (command.value, step.value, True)
        for command in (Command.SWITCH, Command.REVERSE)
        for step in UNDO_ORDER
    }
    assert tried == wanted


def test_each_is_there_before_and_after_and_for_every_victim() -> None:
    found = cells(COMMANDS, VICTIMS, None)
    assert len(found) == len(set(found)) == 4 * len({one[:2] + one[4:] for one in found})


# --- the prober -----------------------------------------------------------------------------------


def test_two_open_sides_are_seen(sides: tuple[str, str]) -> None:
    with Prober(*sides, "public.orders") as prober:
        until(lambda: prober.both_open)
    _do(sides[0], "LOCK TABLE orders")  # and what it wrote is rolled back
    with psycopg.connect(sides[0]) as connection:
        assert connection.execute("SELECT count(*) FROM orders").fetchone() == (0,)


def test_one_open_side_is_well_and_none_is_timed(sides: tuple[str, str]) -> None:
    _do(sides[1], *CLOSED)
    with Prober(*sides, "public.orders") as prober:
        until(lambda: prober.probes > 5)
        assert (prober.open_side, prober.both_open, prober.bug) == ("source", [], None)
        _do(sides[0], *CLOSED)
        until(lambda: prober.longest_s > 0.5)
        _do(sides[0], "DROP TRIGGER closed ON orders")
        probes = prober.probes
        until(lambda: prober.probes > probes + 5)
    assert prober.longest_s > 0.5


# --- ledgers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        (["a 1", "a 2", "b 1"], []),
        (["a 1", "b 1"], ["1 rows lost, a 2 first"]),
        (["a 1", "a 2", "a 2"], ["1 rows doubled, a 2 first"]),
        (["a 1", "a 2", "a 3"], ["1 rows never written, a 3 first"]),
    ],
)
def test_lost_and_doubled_rows_are_seen(
    sides: tuple[str, str], rows: list[str], wrong: list[str]
) -> None:
    ledger = Ledger()
    ledger.rows = [Acknowledged(note, "source", 0.0, 1.0, 0) for note in ("a 1", "a 2")]
    _do(sides[0], f"INSERT INTO orders (note) SELECT unnest(ARRAY{rows})")
    assert missing_or_doubled(sides[0], "public.orders", ledger, ["a"]) == wrong


@pytest.mark.parametrize(
    ("refusals", "wrong"),
    [
        ([(10.2, MOVING), (10.4, MOVED)], 0),
        ([(11.5, MOVED)], 0),
        ([(11.5, MOVED), (11.6, MOVED)], 1),
        ([(11.5, MOVING)], 1),
        ([(9.0, MOVING)], 1),
    ],
)
def test_who_is_refused_without_need_is_seen(refusals: list[tuple[float, str]], wrong: int) -> None:
    """A flip from 10 to 12, whose first row is in at 11."""
    ledger = Ledger()
    ledger.rows = [Acknowledged("a 1", "target", 10.1, 11.0, 1)]
    ledger.refusals = [Refused(at, at, "source", code) for at, code in refusals]
    assert len(wrongly_refused([Flip("target", 10.0, 12.0)], [ledger])) == wrong


# --- renames --------------------------------------------------------------------------------------


def test_a_position_tells_what_a_table_was() -> None:
    hammer = Hammer("postgres://nowhere", "t")
    start = hammer.now()
    hammer.done = [
        _Transaction(10, 20, {1: 5}),
        _Transaction(20, 30, {1: None, 99: 6}),
        _Transaction(30, 40, {99: 7}),
    ]
    first = start | {1: 5}
    second = {key: value for key, value in first.items() if key != 1} | {99: 6}
    assert hammer.states_at(10) == [start]
    assert hammer.states_at(20) == [first]
    assert hammer.states_at(25) == [first, second]
    assert hammer.states_at(100) == [second | {99: 7}]


def test_what_is_left_of_a_move_is_seen(sides: tuple[str, str]) -> None:
    assert leftovers(*sides) == []
    _do(sides[1], "CREATE PUBLICATION lockgate_p FOR ALL TABLES")
    _do(
        sides[0],
        "CREATE SCHEMA lockgate",
        "CREATE TABLE lockgate.moves (move text, state text)",
        "INSERT INTO lockgate.moves VALUES ('gone', 'over'), ('here', 'sealed')",
    )
    assert leftovers(*sides) == [
        "source: row of a move here, sealed",
        "target: publication lockgate_p",
    ]
