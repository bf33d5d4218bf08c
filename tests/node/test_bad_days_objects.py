"""C12: somebody drops what a feed rests on. Nothing is lost without a word."""

from collections.abc import Iterator

import psycopg
import pytest

from lockgate.demo.shop import open_shop
from lockgate.model.errors import Terminal
from lockgate.model.feeds import FeedState
from lockgate.node.runner import FeedRunner
from tests.support.bad_days import SOON_S, prepare, until_failed, until_normal, until_warned
from tests.support.databases import fresh_database
from tests.support.feeds import Pair, level
from tests.support.waiting import until

SHOP = ("public.customers", "public.orders", "public.visits")


def _drop_slot(pair: Pair) -> str:
    """End whoever reads from it, and be quicker than their return."""
    with psycopg.connect(pair.source, autocommit=True) as connection:

        def dropped() -> str:
            found = connection.execute(
                "SELECT slot_name::text, active_pid FROM pg_replication_slots "
                "WHERE database = current_database() AND NOT temporary"
            ).fetchone()
            assert found is not None
            name, pid = found
            try:
                if pid is not None:
                    connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
                connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))
            except psycopg.errors.ObjectInUse:
                return ""
            return str(name)

        return until(dropped, SOON_S)


def test_a_dropped_slot_fails_the_feed_and_says_what_to_do(pair: Pair) -> None:
    open_shop(pair.source, 100)
    with pair.running() as runner:
        level(runner)
        slot = _drop_slot(pair)
        pair.at_source("INSERT INTO visits (page) VALUES ('lost')")
        error, hint = until_failed(runner)
        assert slot in error
        assert "not there" in error
        assert "remove the feed and create it anew" in hint
        with pytest.raises(Terminal, match=slot):
            runner.check()
    with (
        pair.running() as runner
    ):  # started again, it says the same; no slot is made behind our back
        error, _ = until_failed(runner)
        assert slot in error
    assert pair.slots() == []


def test_a_feed_whose_slot_was_lost_is_made_anew(pair: Pair) -> None:
    """The way that the error names is open."""
    open_shop(pair.source, 100)
    with pair.running() as runner:
        level(runner)
        _drop_slot(pair)
        pair.at_source("INSERT INTO visits (page) VALUES ('lost')")
        until_failed(runner)
        runner.remove()
    pair.at_target("TRUNCATE customers, orders, visits")
    with pair.running() as runner:
        level(runner)
        pair.assert_equal(*SHOP)
        until_normal(runner)


@pytest.fixture(params=["pg16", "pg18"])
def pair_from(request: pytest.FixtureRequest, pair: Pair) -> Iterator[Pair]:
    """From each version in turn."""
    with fresh_database(request.getfixturevalue(request.param)) as source:
        pair.source = source
        yield pair


def test_a_dropped_publication_fails_the_feed_and_says_what_to_do(pair_from: Pair) -> None:
    """C12: created again, it has no memory of what passed without it, so that is said again.

    From version 18 on the server goes on without a publication, and only warns.
    """
    pair = pair_from
    open_shop(pair.source, 100)
    with pair.running() as runner:
        level(runner)
        [(name,)] = pair.ask_source("SELECT pubname::text FROM pg_publication")
        pair.at_source(f"DROP PUBLICATION {name}")
        pair.at_source("INSERT INTO visits (page) VALUES ('unpublished')")
        error, hint = until_failed(runner)
        assert name in error
        assert "publication" in error
        assert "remove the feed and create it anew" in hint
    pair.at_source(f"CREATE PUBLICATION {name} FOR TABLE customers, orders, visits")
    pair.at_source("INSERT INTO visits (page) VALUES ('published')")
    with pair.running() as runner:
        error, _ = until_failed(runner)
        assert name in error
    assert pair.ask_target("SELECT count(*) FROM visits WHERE page = 'published'") == [(0,)]


def test_a_dropped_target_table_stops_its_span_and_no_other(pair: Pair) -> None:
    open_shop(pair.source, 100)
    with pair.running() as runner:
        level(runner)
        pair.at_target("DROP TABLE visits")
        pair.at_source("INSERT INTO visits (page) VALUES ('x')", "UPDATE orders SET total = 7")
        until_warned(runner, "public.visits")
        until(lambda: pair.ask_target("SELECT DISTINCT total FROM orders") == [(7,)], SOON_S)
        pair.at_source("DELETE FROM orders WHERE id % 2 = 0")
        rows = pair.ask_source("SELECT count(*) FROM orders")
        until(lambda: pair.ask_target("SELECT count(*) FROM orders") == rows, SOON_S)
        pair.assert_equal("public.customers", "public.orders")
        assert runner.status().state is FeedState.WARNING


def test_a_target_table_that_is_gone_before_its_copy_holds_up_no_other(pair: Pair) -> None:
    open_shop(pair.source, 100)
    prepare(pair)
    pair.at_target("DROP TABLE orders")
    with pair.running() as runner:
        until_warned(runner, "public.orders")
        _until_same(pair, runner, "visits")
        pair.at_source(
            "INSERT INTO visits (page) VALUES ('x')", "DELETE FROM customers WHERE id < 0"
        )
        _until_same(pair, runner, "visits")
        pair.assert_equal("public.customers", "public.visits")


def _until_same(pair: Pair, runner: FeedRunner, table: str) -> None:
    count = f"SELECT count(*) FROM {table}"
    until(lambda: runner.check() and pair.ask_target(count) == pair.ask_source(count), SOON_S)
