"""complete --rename under heavy writes at the target, of small tables, several at a time.

The kept copy, `_t_old`, is the target as of the recorded position: exactly. Each table has one
writer, whose transactions are in a ledger with what the target's log said before and after each
commit. So it is known which of them lie before the position, but for one at most; and what the
table was then is what those make of it.

A witness sits in the source: an event trigger that notes, in the transaction of each rename, which
feeds could still apply there. None of that move's may.
"""

import contextlib
import itertools
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import msgspec
import psycopg
from psycopg import sql

from lockgate.model.errors import Conflict, LockgateError
from lockgate.model.move_config import FEED_MARK
from lockgate.model.move_status import MoveStep
from lockgate.model.moves import MoveState
from soak.background import Background
from soak.moves.world import MoveWorld, Unhealthy

__all__ = ["RenamesReport", "Round", "run_renames"]

KEYS: Final = 40
_PAUSE_S: Final = 0.002
"""Between transactions: the machine has others to serve, too."""
_NUMBERS: Final = itertools.count(1)
_ORDER: Final = ("check-complete", "run-out", "end-feed", "dispose", "clean")

_WITNESS: Final = """
CREATE SCHEMA IF NOT EXISTS soak;
CREATE TABLE IF NOT EXISTS soak.witness (renamed text, could_apply text[]);
CREATE OR REPLACE FUNCTION soak.witness() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT object_identity FROM pg_event_trigger_ddl_commands()
               WHERE object_identity LIKE '%\\_old' LOOP
        INSERT INTO soak.witness
        SELECT one.object_identity, coalesce(array_agg(feed), '{}') FROM lockgate.feeds
        WHERE NOT closed;
    END LOOP;
END $$;
DROP EVENT TRIGGER IF EXISTS soak_witness;
CREATE EVENT TRIGGER soak_witness ON ddl_command_end WHEN TAG IN ('ALTER TABLE')
    EXECUTE FUNCTION soak.witness();
"""


class Round(msgspec.Struct, frozen=True):
    """One move, from its creation to its end."""

    move: str
    passed: bool
    seconds: float = 0.0
    complete_s: float = 0.0
    transactions: int = 0
    """That were committed at the target while it was completed."""
    why: str = ""


class RenamesReport(msgspec.Struct, frozen=True):
    """What came of all of them."""

    rounds: list[Round]
    seconds: float
    apply_errors: list[str]

    @property
    def passed(self) -> int:
        return sum(one.passed for one in self.rounds)


def run_renames(world: MoveWorld, rounds: int, at_once: int) -> RenamesReport:
    """So many moves, so many of them at a time."""
    began = time.monotonic()
    with psycopg.connect(world.source, autocommit=True) as connection:
        connection.execute(_WITNESS)
    try:
        with ThreadPoolExecutor(at_once) as pool:
            done = list(pool.map(lambda _: _round(world), range(rounds)))
    finally:
        with psycopg.connect(world.source, autocommit=True) as connection:
            connection.execute("DROP EVENT TRIGGER soak_witness")
            connection.execute("DROP SCHEMA soak CASCADE")
    return RenamesReport(done, time.monotonic() - began, _apply_errors(world))


def _round(world: MoveWorld) -> Round:
    began = time.monotonic()
    move = f"r{next(_NUMBERS)}"
    try:
        transactions, complete_s = _completed(world, move)
    except (Unhealthy, LockgateError, psycopg.Error) as why:
        return Round(move, False, time.monotonic() - began, why=f"{type(why).__name__}: {why}")
    return Round(move, True, time.monotonic() - began, complete_s, transactions)


def _completed(world: MoveWorld, move: str) -> tuple[int, float]:
    table = sql.Identifier("public", move)
    with psycopg.connect(world.source) as connection:
        connection.execute(
            sql.SQL("CREATE TABLE {} (id int PRIMARY KEY, v bigint NOT NULL)").format(table)
        )
        connection.execute(
            sql.SQL("INSERT INTO {} SELECT g, 0 FROM generate_series(1, %s) g").format(table),
            (KEYS // 2,),
        )
    world.create(move, [f"public.{move}"])
    world.flip(move, "target")
    with Hammer(world.target, move) as hammer:
        world.until(lambda: len(hammer.done) >= 20 or not hammer.alive)
        before, began = len(hammer.done), time.monotonic()
        _complete(world, move)
        complete_s, during = time.monotonic() - began, len(hammer.done) - before
        more = len(hammer.done) + 5
        world.until(lambda: len(hammer.done) >= more or not hammer.alive)
    if hammer.bug:
        raise Unhealthy(f"the writer met {hammer.bug}")
    status = world.rested(move, MoveState.COMPLETED)
    _require_order(status.steps)
    _require_witness(world, move)
    kept = _rows(world.source, f"_{move}_old")
    possible = hammer.states_at(_lsn(status.as_of))
    if kept not in possible:
        raise Unhealthy(f"_{move}_old is not the target as of {status.as_of}: {kept} {possible}")
    if _rows(world.target, move) != hammer.now():
        raise Unhealthy("the target is not what was written there")
    world.client().moves.remove(move)
    world.drop_tables(f"public.{move}")
    return during, complete_s


def _complete(world: MoveWorld, move: str) -> None:
    def done() -> bool:
        with contextlib.suppress(Conflict):
            world.client().moves.complete(move, "rename")
            return True
        return False

    world.until(done, lambda: world.status(move))


def _require_order(steps: Sequence[MoveStep]) -> None:
    """Stopped at a position, then removed, then renamed; one after the other."""
    names = tuple(each.name for each in steps)
    if names != _ORDER:
        raise Unhealthy(f"the steps are {names}")
    times = [(each.started, each.ended) for each in steps]
    flat = [moment for pair in times for moment in pair]
    if not all(flat) or flat != sorted(flat):
        raise Unhealthy(f"steps overlap: {times}")


def _require_witness(world: MoveWorld, move: str) -> None:
    with psycopg.connect(world.source) as connection:
        found = connection.execute(
            "SELECT could_apply FROM soak.witness WHERE renamed LIKE %s", (f"%._{move}_old",)
        ).fetchall()
    if len(found) != 1:
        raise Unhealthy(f"the table was renamed {len(found)} times")
    mine = [feed for feed in found[0][0] if feed.startswith(f"{move}{FEED_MARK}")]
    if mine:
        raise Unhealthy(f"{mine} could still apply when the table was renamed")


def _rows(url: str, table: str) -> dict[int, int]:
    with psycopg.connect(url) as connection:
        query = sql.SQL("SELECT id, v FROM {}").format(sql.Identifier("public", table))
        return dict(connection.execute(query).fetchall())


def _lsn(text: str) -> int:
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def _apply_errors(world: MoveWorld) -> list[str]:
    """What nodes had to tell of tables that are not there, or of bugs."""
    found = []
    for node in world.cluster.nodes.values():
        for line in node.log.read_text("utf-8", "replace").splitlines():
            if "_old" in line or "does not exist" in line or "trace" in line:
                found.append(f"{node.name}: {line}")
    return found


class _Transaction(NamedTuple):
    """`low`: where the log was before its commit; `high`: after it. A change to None: deleted."""

    low: int
    high: int
    changes: dict[int, int | None]


class Hammer(Background):
    """The one who writes to a table at the target, and does not rest."""

    def __init__(self, url: str, table: str) -> None:
        super().__init__("hammer", ends_s=60.0)
        self._url = url
        self._table = sql.Identifier("public", table)
        self._rng = random.Random(table)
        self._first = dict.fromkeys(range(1, KEYS // 2 + 1), 0)
        self.done: list[_Transaction] = []
        self.bug = ""

    def now(self) -> dict[int, int]:
        """What the table holds after all of it."""
        return self._after(self.done)

    def states_at(self, position: int) -> list[dict[int, int]]:
        """What the table held at a position: two answers, when nobody knows on which side of it a
        commit lies."""
        before = [one for one in self.done if one.high <= position]
        perhaps = [one for one in self.done if one.low < position < one.high]
        return [self._after([*before, *perhaps[:many]]) for many in range(len(perhaps) + 1)]

    def _after(self, transactions: Sequence[_Transaction]) -> dict[int, int]:
        rows = dict(self._first)
        for one in transactions:
            for key, value in one.changes.items():
                if value is None:
                    rows.pop(key, None)
                else:
                    rows[key] = value
        return rows

    def _work(self) -> None:
        with contextlib.closing(
            psycopg.connect(self._url, application_name="hammer")
        ) as connection:
            for number in itertools.count(1):
                if self._stopped.wait(_PAUSE_S):
                    return
                self.done.append(self._one(connection, number))

    def _broke(self, bug: BaseException) -> None:
        self.bug = f"{type(bug).__name__}: {bug}"

    def _one(self, connection: psycopg.Connection, number: int) -> _Transaction:
        keys = self._rng.sample(range(1, KEYS + 1), 5)
        put, gone = keys[:3], keys[3:]
        connection.execute(
            sql.SQL(
                "INSERT INTO {} SELECT unnest(%s::int[]), %s "
                "ON CONFLICT (id) DO UPDATE SET v = excluded.v"
            ).format(self._table),
            (put, number),
        )
        connection.execute(
            sql.SQL("DELETE FROM {} WHERE id = ANY (%s)").format(self._table), (gone,)
        )
        low = self._position(connection)
        connection.commit()
        high = self._position(connection)
        connection.rollback()
        return _Transaction(low, high, {**dict.fromkeys(put, number), **dict.fromkeys(gone)})

    def _position(self, connection: psycopg.Connection) -> int:
        row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
        assert row is not None, "a query without FROM has a row"
        return int(row[0])
