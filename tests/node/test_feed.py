"""One feed, end to end, between two real servers through a real Spark."""

import pytest

from lockgate.demo.shop import open_shop
from lockgate.model.errors import Terminal
from lockgate.model.feeds import FeedState
from tests.support.feeds import Pair, level
from tests.support.shops import ShopWriters

SHOP = ("public.customers", "public.orders", "public.visits")


def test_writes_during_the_copy_arrive_once(pair: Pair) -> None:
    """C10: in front of the cursor, behind it, and in the table without a key."""
    open_shop(pair.source, 5_000)
    writers = ShopWriters(pair.source)
    writers.start()
    try:
        with pair.running(chunk_rows=500) as runner:
            level(runner)
            writers.stop()
            level(runner)
            pair.assert_equal(*SHOP)
            assert runner.status().copy.percent == 100
    finally:
        writers.stop()
    assert writers.transactions > 0


def test_a_feed_that_was_stopped_goes_on_where_it_was(pair: Pair) -> None:
    open_shop(pair.source, 200)
    with pair.running() as runner:
        level(runner)
    pair.at_source("UPDATE orders SET total = 0", "DELETE FROM customers WHERE id > 10000")
    pair.at_source("INSERT INTO visits (page) SELECT 'again' FROM generate_series(1, 50)")
    with pair.running() as runner:
        level(runner)
        assert runner.status().epoch > 1
        pair.assert_equal(*SHOP)


def test_indexes_and_foreign_keys_come_after_the_copy(pair: Pair) -> None:
    open_shop(pair.source, 200)
    with pair.running() as runner:
        level(runner)
        indexes = pair.ask_target("SELECT indexname FROM pg_indexes WHERE schemaname = 'public'")
        assert ("orders_by_customer",) in indexes


def test_a_removed_feed_leaves_nothing_at_the_source(pair: Pair) -> None:
    open_shop(pair.source, 100)
    with pair.running() as runner:
        level(runner)
        runner.remove()
    assert pair.slots() == []
    assert pair.ask_source("SELECT pubname FROM pg_publication") == []
    assert pair.ask_source("SELECT evtname FROM pg_event_trigger") == []
    assert pair.ask_source("SELECT nspname FROM pg_namespace WHERE nspname = 'lockgate'") == []
    pair.assert_equal(*SHOP)


def test_schema_changes_come_in_order_with_the_rows(pair: Pair) -> None:
    """C13, in the middle of transactions too."""
    pair.at_source(
        "CREATE TABLE a (id int PRIMARY KEY, v text)", "CREATE TABLE b (id int PRIMARY KEY, w int)"
    )
    with pair.running() as runner:
        pair.at_source("INSERT INTO a SELECT n, 'x' || n FROM generate_series(1, 10) n")
        pair.at_source(
            "ALTER TABLE a ADD COLUMN n int DEFAULT 5",
            "INSERT INTO a VALUES (11, 'y', 7)",
            "ALTER TABLE a RENAME COLUMN v TO vv",
            "UPDATE a SET vv = 'z' WHERE id = 1",
        )
        pair.at_source(
            "CREATE TABLE c (id bigint PRIMARY KEY, j jsonb)", "INSERT INTO c VALUES (1)"
        )
        pair.at_source("ALTER TABLE b ALTER w TYPE bigint", "INSERT INTO b VALUES (1, 5000000000)")
        pair.at_source("ALTER TABLE c RENAME TO d", "INSERT INTO d VALUES (3, '[1]')")
        pair.at_source("ALTER TABLE a DROP COLUMN n", "INSERT INTO a VALUES (12, 'last')")
        level(runner)
        pair.assert_equal("public.a", "public.b", "public.d")
        pair.at_source("DROP TABLE b")
        level(runner)
        names = pair.ask_target(
            "SELECT relname FROM pg_stat_user_tables WHERE schemaname = 'public'"
        )
        assert sorted(names) == [("a",), ("d",)]


def test_an_unsupported_schema_change_stops_the_feed_and_names_it(pair: Pair) -> None:
    pair.at_source("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    with pair.running() as runner:
        level(runner)
        pair.at_source("INSERT INTO a VALUES (2)")
        pair.at_source("ALTER TABLE a ADD COLUMN r float8 DEFAULT random()")
        with pytest.raises(Terminal):
            level(runner)
        status = runner.status()
        assert status.state is FeedState.FAILED
        assert "ALTER TABLE a ADD COLUMN r" in status.error
        assert pair.ask_target("SELECT count(*) FROM a") == [(2,)]


def test_a_refused_row_stops_its_table_and_no_other(pair: Pair) -> None:
    pair.at_source(
        "CREATE TABLE good (id int PRIMARY KEY)", "CREATE TABLE bad (id int PRIMARY KEY, v int)"
    )
    with pair.running() as runner:
        level(runner)
        pair.at_target("ALTER TABLE bad ADD CONSTRAINT small CHECK (v < 10)")
        pair.at_source("INSERT INTO bad VALUES (1, 1), (7, 99)", "INSERT INTO good VALUES (1)")
        from tests.support.waiting import until

        until(lambda: runner.status().state is FeedState.WARNING, 60)
        until(lambda: pair.ask_target("SELECT count(*) FROM good") == [(1,)], 60)
        error = runner.status().error
        assert "small" in error
        assert "7" in error
        assert pair.ask_target("SELECT count(*) FROM bad") == [(0,)]
        pair.at_target("ALTER TABLE bad DROP CONSTRAINT small")
        level(runner)
        assert runner.status().state is FeedState.NORMAL
        pair.assert_equal("public.bad", "public.good")


def test_filters_masks_and_renames(pair: Pair) -> None:
    pair.at_source(
        "CREATE TABLE people (id int PRIMARY KEY, email text, ssn text, name text, eu bool)",
        "ALTER TABLE people REPLICA IDENTITY FULL",
        "INSERT INTO people VALUES (1, 'a@x', '123', 'Ann', true), (2, 'b@x', '456', 'Bob', false)",
        "CREATE TABLE secret (id int PRIMARY KEY)",
    )
    config = {
        "tables": ["public.*", "!public.secret"],
        "leave_out": ["public.people.ssn"],
        "masks": {"public.people.email": "hash", "public.people.name": {"fixed": "somebody"}},
        "rows": {"public.people": "eu"},
        "rename": {"public.people": "shop.folk"},
    }
    with pair.running(**config) as runner:
        level(runner)
        pair.at_source("INSERT INTO people VALUES (3, 'a@x', '7', 'Cid', true)")
        pair.at_source("UPDATE people SET eu = true WHERE id = 2")
        pair.at_source("UPDATE people SET eu = false WHERE id = 1")
        level(runner)
    rows = pair.ask_target(
        "SELECT id, name, length(email), to_jsonb(f) ? 'ssn' FROM shop.folk f ORDER BY 1"
    )
    assert rows == [(2, "somebody", 64, False), (3, "somebody", 64, False)]
    assert pair.ask_target("SELECT to_regclass('public.secret')") == [(None,)]
