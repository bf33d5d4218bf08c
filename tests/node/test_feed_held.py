"""A feed that is held stands at exactly one position, and both sides are compared there."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql

from lockgate.demo.shop import open_shop
from lockgate.endpoints.postgres import aligned as alignment
from lockgate.endpoints.postgres.aligned import Aligned, NotAligned, aligned
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.source import heartbeat
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import EndpointBusy
from lockgate.model.positions import Position
from tests.support.feeds import Pair, level
from tests.support.shops import ShopWriters
from tests.support.waiting import until

SHOP = ("customers", "orders", "visits")
SOON_S = 60.0
LONG_S = 600.0


@pytest.fixture
def sink(pair: Pair) -> Iterator[PostgresSink]:
    with PostgresSink(pair.target) as found:
        yield found


def _sides(pair: Pair, **more: Any) -> Any:
    return aligned(PostgresUrl.parse(pair.source), PostgresUrl.parse(pair.target), "feed", **more)


def _hold_ahead(pair: Pair, sink: PostgresSink, seconds: float = LONG_S) -> Position:
    """Hold the feed at a position of now, once its rows are of its position."""
    until(lambda: sink.copies_over("feed"), SOON_S)
    sink.hold("feed", "mine", None, seconds)
    with psycopg.connect(pair.source, autocommit=True) as connection:
        position = heartbeat.beat(connection, "feed") - 1
        return sink.hold("feed", "mine", position, seconds)


def _until_at(sink: PostgresSink, position: Position) -> None:
    def exactly() -> bool:
        found = sink.stands("feed")
        return found is not None and found.exactly(position)

    until(exactly, SOON_S, 0.05)


def _until_beyond(sink: PostgresSink, position: Position) -> None:
    def beyond() -> bool:
        found = sink.stands("feed")
        return found is not None and found.least > position

    until(beyond, SOON_S, 0.05)


def _rows(url: str, snapshot: str, table: str) -> tuple[Any, ...]:
    """How many, and a fingerprint of all of them, under a snapshot."""
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(snapshot))
        found = connection.execute(
            f"SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM {table} t"
        ).fetchone()
    assert found is not None
    return found


def _assert_same(pair: Pair, at: Aligned) -> None:
    for table in SHOP:
        source = _rows(pair.source, at.source_snapshot, table)
        assert _rows(pair.target, at.target_snapshot, table) == source, table


@contextmanager
def _writing(pair: Pair) -> Iterator[None]:
    writers = ShopWriters(pair.source)
    writers.start()
    try:
        yield
    finally:
        writers.stop()


@contextmanager
def _open_transaction(pair: Pair) -> Iterator[psycopg.Connection]:
    with psycopg.connect(pair.source, application_name="a person") as connection:
        connection.execute("SELECT pg_current_xact_id()")
        yield connection


def test_both_sides_hold_the_same_rows_at_one_position_while_people_write(
    pair: Pair, sink: PostgresSink
) -> None:
    open_shop(pair.source, 300)
    with pair.running() as runner:
        level(runner)
        positions = []
        with _writing(pair):
            for _ in range(5):
                with _sides(pair) as at:
                    # The feed goes on meanwhile: what is compared must not depend on that.
                    _until_beyond(sink, at.position)
                    _assert_same(pair, at)
                    positions.append(at.position)
        assert positions == sorted(set(positions))
        level(runner)
    pair.assert_equal(*(f"public.{table}" for table in SHOP))


def test_a_held_feed_stands_there_and_goes_on_when_released(pair: Pair, sink: PostgresSink) -> None:
    pair.at_source("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    with pair.running() as runner:
        level(runner)
        until(lambda: sink.copies_over("feed"), SOON_S)
        sink.hold("feed", "mine", None, LONG_S)
        pair.at_source("INSERT INTO t VALUES (2)")
        position = _hold_ahead(pair, sink)
        pair.at_source("INSERT INTO t VALUES (3)", "ALTER TABLE t ADD COLUMN more int")
        _until_at(sink, position)
        until(lambda: "held" in " ".join(runner.status().notes), SOON_S)
        assert runner.status().error == ""
        assert pair.ask_target("SELECT * FROM t ORDER BY id") == [(1,), (2,)]
        sink.release("feed", "mine")
        level(runner)
        assert pair.ask_target("SELECT * FROM t ORDER BY id") == [(1, None), (2, None), (3, None)]
        until(lambda: not runner.status().notes, SOON_S)


def test_a_hold_that_nobody_keeps_up_ends_by_itself(pair: Pair, sink: PostgresSink) -> None:
    pair.at_source("CREATE TABLE t (id int PRIMARY KEY)")
    with pair.running() as runner:
        level(runner)
        position = _hold_ahead(pair, sink, 3.0)
        pair.at_source("INSERT INTO t VALUES (1)")
        _until_at(sink, position)
        until(lambda: pair.ask_target("SELECT * FROM t") == [(1,)], SOON_S)


def test_the_next_owner_brings_a_held_feed_to_its_position(pair: Pair, sink: PostgresSink) -> None:
    pair.at_source("CREATE TABLE t (id int PRIMARY KEY)")
    with pair.running() as runner:
        level(runner)
        until(lambda: sink.copies_over("feed"), SOON_S)
        sink.hold("feed", "mine", None, LONG_S)
    pair.at_source("INSERT INTO t VALUES (1)")
    position = _hold_ahead(pair, sink)
    pair.at_source("INSERT INTO t VALUES (2)")
    with pair.running() as runner:
        _until_at(sink, position)
        assert pair.ask_target("SELECT * FROM t") == [(1,)]
        sink.release("feed", "mine")
        level(runner)
    pair.assert_equal("public.t")


def test_a_transaction_left_open_at_the_source_is_named_and_the_feed_goes_on(
    pair: Pair, sink: PostgresSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.at_source("CREATE TABLE t (id int PRIMARY KEY)")
    monkeypatch.setattr(alignment, "_SLOT_S", 1.0)
    with pair.running() as runner:
        level(runner)
        with (
            _open_transaction(pair),
            pytest.raises(EndpointBusy, match="a person"),
            _sides(pair),
        ):
            pass
        assert sink.held_upto("feed") is None
        assert pair.ask_source(
            "SELECT count(*) FROM pg_replication_slots WHERE temporary "
            "AND database = current_database()"
        ) == [(0,)]


def test_a_feed_that_nobody_runs_is_not_aligned_and_not_held(
    pair: Pair, sink: PostgresSink
) -> None:
    pair.at_source("CREATE TABLE t (id int PRIMARY KEY)")
    with pair.running() as runner:
        level(runner)
        until(lambda: sink.copies_over("feed"), SOON_S)
    with pytest.raises(NotAligned, match="was to come to"), _sides(pair, timeout_s=2.0):
        pass
    assert sink.held_upto("feed") is None


def test_a_target_that_knows_no_holds_yet_learns_of_them(pair: Pair, sink: PostgresSink) -> None:
    """An earlier version had made its tables, and its feed goes on."""
    pair.at_source("CREATE TABLE t (id int PRIMARY KEY)")
    with pair.running() as runner:
        level(runner)
    pair.at_target(
        "ALTER TABLE lockgate.feeds DROP hold_id, DROP hold_upto, DROP hold_until",
        "UPDATE lockgate.schema_version SET version = 1",
    )
    pair.at_source("INSERT INTO t VALUES (1)")
    with pair.running() as runner:
        level(runner)
    pair.assert_equal("public.t")
    assert sink.held_upto("feed") is None
