"""C10, C12: the runner's process is killed with SIGKILL at chosen moments, and started again.

Its Spark lives on, and so do the tasks that it had under way: the worst heirs that a killed owner
can leave.
"""

import signal

import pytest

from lockgate.demo.shop import open_shop
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from tests.support.bad_days import SOON_S, built_no_further, chunks_done, held, prepare
from tests.support.feeds import Pair
from tests.support.proxy import FaultProxy
from tests.support.runners import Start, finish, processes, stands_at, until_same
from tests.support.shops import ShopWriters
from tests.support.waiting import until

SHOP = ("public.customers", "public.orders", "public.visits")


def test_killed_during_the_copy_it_goes_on_at_the_chunk(ends: Pair, start: Start) -> None:
    open_shop(ends.source, 2_000)
    prepare(ends, chunk_rows=200)
    with held(ends.target, "public.orders") as lock:
        runner = start(chunk_rows=200)
        lock.until_waited_for()
        left = lock.hold_chunks("public.orders")
        done = until(lambda: chunks_done(ends, "public.orders"), SOON_S)
        lock.until_waited_for()
        runner.kill()
        done = chunks_done(ends, "public.orders")
        epoch, _ = stands_at(ends, "public.orders")
        ends.at_source("UPDATE orders SET total = total + 1 WHERE id % 3 = 0")
        ends.at_source(
            "DELETE FROM orders WHERE id % 7 = 0", "DELETE FROM visits WHERE page < 'page 5'"
        )
        again = start("--until-level", chunk_rows=200)
        until(lambda: stands_at(ends, "public.orders")[0] > epoch, SOON_S)
        lock.until_waited_for()
        assert chunks_done(ends, "public.orders") == done  # none of them was written again
        assert left
        ends.at_source("UPDATE orders SET total = -total WHERE id % 5 = 0")
    finish(again)
    ends.assert_equal(*SHOP)


@pytest.mark.parametrize("meanwhile", ["", "ALTER TABLE orders RENAME id TO no"])
def test_killed_between_the_rows_and_their_key(ends: Pair, start: Start, meanwhile: str) -> None:
    """No change comes before the key is there; a table that has changed is copied anew."""
    open_shop(ends.source, 1_000)
    with built_no_further(ends.target, "p", "public.orders") as reached:
        runner = start()
        until(reached, SOON_S)
        assert chunks_done(ends, "public.orders")
        runner.kill()
    ends.at_source("UPDATE orders SET total = -total", "DELETE FROM orders WHERE id % 3 = 0")
    if meanwhile:
        ends.at_source(meanwhile)
    finish(start("--until-level"))
    ends.assert_equal(*SHOP)
    assert ends.ask_target(
        "SELECT conname FROM pg_constraint WHERE contype = 'p' AND conrelid = 'orders'::regclass"
    ) == [("orders_pkey",)]


def test_killed_before_the_key_a_newer_index_waits_for_the_changes(
    ends: Pair, start: Start
) -> None:
    """The rows that were copied have duplicates which the source deleted before it made it."""
    ends.at_source(
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "INSERT INTO t SELECT n, n / 2 FROM generate_series(1, 1000) n",
    )
    with built_no_further(ends.target, "p", "public.t") as reached:
        runner = start()
        until(reached, SOON_S)
        assert chunks_done(ends, "public.t")
        runner.kill()
    ends.at_source("DELETE FROM t WHERE id % 2 = 1")
    ends.at_source("CREATE UNIQUE INDEX one ON t (v)")
    finish(start("--until-level"))
    ends.assert_equal("public.t")
    start()
    built = "SELECT indisunique FROM pg_index WHERE indexrelid = to_regclass('public.one')"
    until(lambda: ends.ask_target(built) == [(True,)], SOON_S)


def test_killed_while_changes_are_applied(ends: Pair, start: Start) -> None:
    open_shop(ends.source, 300)
    runner = start()
    until_same(ends, runner, *SHOP)
    with held(ends.target, "public.orders") as lock:
        ends.at_source(
            "UPDATE orders SET total = total + 1", "INSERT INTO visits (page) VALUES ('a')"
        )
        lock.until_waited_for()
        runner.kill()
        ends.at_source(
            "DELETE FROM orders WHERE id % 2 = 0", "INSERT INTO visits (page) VALUES ('b')"
        )
    finish(start("--until-level"))
    ends.assert_equal(*SHOP)


def test_killed_between_the_commit_at_the_target_and_hearing_of_it(
    ends: Pair, start: Start
) -> None:
    """Stopped first, it cannot hear; its task commits; then it is killed."""
    open_shop(ends.source, 300)
    runner = start()
    until_same(ends, runner, *SHOP)
    with held(ends.target, "public.visits") as lock:
        ends.at_source("INSERT INTO visits (page) VALUES ('a'), ('a')")
        lock.until_waited_for()
        before = stands_at(ends, "public.visits")
        runner.signal(signal.SIGSTOP)
    until(lambda: stands_at(ends, "public.visits") > before, SOON_S)
    ends.assert_equal("public.visits")
    runner.kill()
    finish(start("--until-level"))
    ends.assert_equal(*SHOP)


def test_killed_between_the_logs_commit_and_the_sources_hearing_of_it(
    ends: Pair, start: Start, pg16: EmbeddedPostgres
) -> None:
    """What is durable was not acknowledged, so the source sends it again: it is taken once."""
    open_shop(ends.source, 300)
    direct = ends.source
    with FaultProxy(pg16.host, pg16.port) as proxy:
        source = direct.replace(f":{pg16.port}/", f":{proxy.port}/")
        runner = start(source=source)
        until_same(ends, runner, *SHOP)
        ends.at_source("INSERT INTO visits (page) VALUES ('first')")
        until_same(ends, runner, *SHOP)
        proxy.deafen(b"START_REPLICATION")
        before = ends.slots("confirmed_flush_lsn")
        ends.at_source("INSERT INTO visits (page) VALUES ('again'), ('again')")
        until_same(ends, runner, *SHOP)
        runner.kill()
        assert ends.slots("confirmed_flush_lsn") == before
        proxy.listen()
        ends.at_source("INSERT INTO visits (page) VALUES ('last')")
        finish(start("--until-level", source=source))
    ends.assert_equal(*SHOP)


@pytest.mark.slow
def test_killed_with_a_spark_of_its_own(ends: Pair) -> None:
    """As people run it: Spark ends with the runner, and the next one begins with another."""
    open_shop(ends.source, 3_000)
    prepare(ends, chunk_rows=500)
    writers = ShopWriters(ends.source)
    with held(ends.target, "public.orders") as lock, processes(ends, "local[2]") as start:
        writers.start()
        runner = start(chunk_rows=500)
        lock.until_waited_for()
        runner.kill()
        lock.release()
        writers.stop()
        finish(start("--until-level", chunk_rows=500))
    ends.assert_equal(*SHOP)
