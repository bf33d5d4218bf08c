"""A diff repairs the target of a running feed, and never writes what the feed has left behind (D5).

`level` waits for the feed; whatever is compared after that is compared by somebody else's code.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg
import pytest

from lockgate.demo.shop import open_shop
from lockgate.endpoints.postgres.diff.repair import repair_task
from lockgate.endpoints.postgres.diff.snapshots import Snapshots, level_and_held
from lockgate.endpoints.postgres.diff.snapshots import level as levelled
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.diffs import RangeOutcome
from lockgate.model.selection import TableSelection
from lockgate.node.runner import FeedRunner
from lockgate.pipeline.diff import DiffRun
from tests.support import diffs
from tests.support.diffs import receipts_of
from tests.support.feeds import Pair, level
from tests.support.shops import ShopWriters
from tests.support.waiting import until

SHOP = ("customers", "orders", "visits")
SOON_S = 60.0


@pytest.fixture
def sides(pair: Pair) -> Iterator[diffs.Pair]:
    with diffs.pair_of(pair.source, pair.target) as found:
        yield found


def _repaired(
    pair: Pair, wanted: Sequence[TableSelection], *, feed: str = "feed"
) -> dict[str, RangeOutcome]:
    """What came of every table, with one range each."""
    assert pair.spark is not None
    source, target = PostgresUrl.parse(pair.source), PostgresUrl.parse(pair.target)
    run = DiffRun(pair.spark, source, target, wanted, seed=7, tag="repair", repair=True, feed=feed)
    found: list[RangeOutcome] = []
    errors = run.compare(run.plan(), (), lambda: levelled(source, target, feed), found.extend)
    assert errors == {}
    return {each.table.removeprefix("public."): each for each in found}


@contextmanager
def _writing(pair: Pair) -> Iterator[ShopWriters]:
    writers = ShopWriters(pair.source)
    writers.start()
    try:
        yield writers
    finally:
        writers.stop()


@contextmanager
def _running(pair: Pair) -> Iterator[FeedRunner]:
    """The feed, with all rows copied."""
    with pair.running() as runner:
        level(runner)
        with PostgresSink(pair.target) as sink:
            until(lambda: sink.copies_over("feed"), SOON_S)
        yield runner


def test_a_spoilt_target_becomes_equal_while_people_write(pair: Pair, sides: diffs.Pair) -> None:
    open_shop(pair.source, 2_000)
    with _running(pair) as runner:
        with _writing(pair):
            pair.at_target(
                "SET session_replication_role = replica",
                "DELETE FROM orders WHERE id % 100 = 7",
                "UPDATE orders SET total = -1, tags = NULL WHERE id % 100 = 8",
                "INSERT INTO orders (id, customer, total) OVERRIDING SYSTEM VALUE "
                "SELECT 10000000 + n, 1, n FROM generate_series(1, 30) n",
                "UPDATE customers SET email = 'x' || email WHERE id % 10 = 3",
                "INSERT INTO visits SELECT * FROM visits WHERE page LIKE 'page 2_'",
                "DELETE FROM visits WHERE page = 'page 1'",
            )
            wanted = [sides.selection(name) for name in SHOP]
            found = _repaired(pair, wanted)
        assert {name: each.left for name, each in found.items()} == dict.fromkeys(SHOP, 0)
        orders, visits = found["orders"], found["visits"]
        assert orders.extra == 30
        assert orders.repaired >= 50
        assert (visits.missing, visits.extra, visits.repaired) == (1, 10, 11)
        assert found["customers"].different == found["customers"].repaired == 20
        assert orders.position
        level(runner)
    pair.assert_equal(*(f"public.{table}" for table in SHOP))


def test_a_row_that_never_rests_ends_with_its_newest_value(pair: Pair, sides: diffs.Pair) -> None:
    """Written from an older position, it would be behind for ever: the feed does not come back."""
    pair.at_source(
        "CREATE TABLE t (id int PRIMARY KEY, v int, w int)",
        "INSERT INTO t SELECT n, 0, 0 FROM generate_series(1, 50) n",
    )
    over = threading.Event()

    def count() -> None:
        with psycopg.connect(pair.source, autocommit=True) as connection:
            while not over.is_set():
                connection.execute("UPDATE t SET v = v + 1 WHERE id <= 25")

    with _running(pair) as runner:
        for _ in range(2):
            pair.at_target("UPDATE t SET w = -1", "DELETE FROM t WHERE id % 5 = 0")
            over.clear()
            writer = threading.Thread(target=count)
            writer.start()
            try:
                found = _repaired(pair, [sides.selection()])["t"]
            finally:
                over.set()
                writer.join()
            assert (found.left, found.missing) == (0, 10)
            level(runner)
            pair.assert_equal("public.t")


def _table(pair: Pair) -> None:
    pair.at_source("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")


def _code(answer: bytes) -> str:
    [receipt] = receipts_of(answer)
    return "" if receipt.error is None else receipt.error.code


def test_who_wakes_up_when_the_feed_has_gone_on_writes_nothing(
    pair: Pair, sides: diffs.Pair
) -> None:
    _table(pair)
    with _running(pair) as runner, PostgresSink(pair.target) as sink:
        pair.at_target("UPDATE t SET v = -1")
        with level_and_held(sides.source, sides.target, "feed") as held:
            item = sides.item(held)
            assert held.held is not None
            sink.release("feed", held.held.hold_id)  # as if it had run out
            pair.at_source("UPDATE t SET v = 2")
            level(runner)
            assert _code(repair_task(item)) == "hold-lost"
        assert pair.ask_target("SELECT v FROM t") == [(2,)]


def test_whose_hold_ran_out_writes_nothing_though_the_feed_stands_still(
    pair: Pair, sides: diffs.Pair
) -> None:
    _table(pair)
    with _running(pair), PostgresSink(pair.target) as sink:
        pair.at_target("UPDATE t SET v = -1")
        with level_and_held(sides.source, sides.target, "feed") as held:
            assert held.held is not None
            sink.release("feed", held.held.hold_id)
            assert _code(repair_task(sides.item(held))) == "hold-lost"
        assert pair.ask_target("SELECT v FROM t") == [(-1,)]


def test_a_feed_stays_held_while_it_is_repaired_and_goes_on_afterwards(
    pair: Pair, sides: diffs.Pair
) -> None:
    _table(pair)
    with _running(pair) as runner, PostgresSink(pair.target) as sink:
        pair.at_target("UPDATE t SET v = -1")
        with level_and_held(sides.source, sides.target, "feed") as held:
            assert held.held is not None
            pair.at_source("UPDATE t SET v = 2", "INSERT INTO t VALUES (2, 2)")
            assert sink.held_by("feed") == held.held.hold_id
            assert _code(repair_task(sides.item(held))) == ""
            assert pair.ask_target("SELECT * FROM t") == [(1, 1)]
        level(runner)
        assert sink.held_by("feed") is None
    pair.assert_equal("public.t")


def test_a_table_of_another_feed_is_not_repaired(pair: Pair, sides: diffs.Pair) -> None:
    _table(pair)
    statement = "CREATE TABLE stranger (id int PRIMARY KEY)"
    with pair.running(tables=["public.t"]) as runner:
        level(runner)
        pair.at_source(statement, "INSERT INTO stranger VALUES (1)")
        pair.at_target(statement)
        level(runner)
        with level_and_held(sides.source, sides.target, "feed") as held:
            assert _code(repair_task(sides.item(held, sides.selection("stranger")))) == "conflict"
        assert pair.ask_target("SELECT * FROM stranger") == []


def test_a_snapshot_of_a_running_feed_says_its_position(pair: Pair, sides: diffs.Pair) -> None:
    _table(pair)
    with _running(pair), levelled(sides.source, sides.target, "feed") as held:
        assert isinstance(held, Snapshots)
        assert "/" in held.position
        assert held.held is None
