"""F11, F12: owners that were stopped, and tasks that outlive their owner, write nothing."""

import signal
import time

import psycopg
import pytest

from lockgate.demo.shop import open_shop
from lockgate.model.config import Timing
from soak.process import FeedProcess
from tests.support.bad_days import SOON_S, built_no_further, held
from tests.support.feeds import Pair
from tests.support.runners import Start, finish, stands_at, until_same, waiting
from tests.support.waiting import until

SHOP = ("public.customers", "public.orders", "public.visits")
LEASE_S = Timing().lease_ms / 1000


@pytest.mark.slow
def test_a_runner_that_was_stopped_longer_than_its_lease_writes_nothing(
    ends: Pair, start: Start
) -> None:
    """F12: and it ends with a word about who runs the feed now."""
    open_shop(ends.source, 300)
    paused = start()
    until_finished(ends, paused)
    with held(ends.target, "public.orders") as lock:
        ends.at_source(
            "UPDATE orders SET total = total + 1", "INSERT INTO visits (page) VALUES ('a')"
        )
        lock.until_waited_for()
        paused.signal(signal.SIGSTOP)
        stopped_at = time.monotonic()
        successor = start()
        epoch, _ = stands_at(ends, "public.orders")
        until(lambda: stands_at(ends, "public.orders")[0] > epoch, SOON_S)
    ends.at_source("DELETE FROM orders WHERE id % 2 = 0", "INSERT INTO visits (page) VALUES ('b')")
    until_same(ends, successor, *SHOP)
    until(lambda: time.monotonic() > stopped_at + LEASE_S, LEASE_S + 1)
    stands = _owner(ends)
    paused.signal(signal.SIGCONT)
    assert paused.wait(SOON_S) == 1, paused.said()
    assert f"process {successor.pid} was started after this one" in paused.said()
    ends.at_source("UPDATE orders SET total = total * 2", "INSERT INTO visits (page) VALUES ('c')")
    until_same(ends, successor, *SHOP)
    assert _owner(ends) == stands  # the successor was not disturbed
    _finish(successor, start)
    ends.assert_equal(*SHOP)


def test_a_task_that_outlives_its_runner_commits_nothing(ends: Pair, start: Start) -> None:
    """F11: it waits inside its transaction when the runner dies, and a new runner comes."""
    open_shop(ends.source, 300)
    runner = start()
    until_finished(ends, runner)
    with held(ends.target, "public.orders"):
        ends.at_source("UPDATE orders SET total = total + 1")
        until(lambda: waiting(ends, "public.orders"), SOON_S)
        runner.kill()
        orphan = waiting(ends, "public.orders")
        assert orphan  # it is still there, in its transaction, behind the lock
        before = stands_at(ends, "public.orders")
        successor = start()
        until(lambda: stands_at(ends, "public.orders")[0] > before[0], SOON_S)
        assert stands_at(ends, "public.orders")[1] == before[1]
        until(lambda: not waiting(ends, "public.orders") & orphan, SOON_S)
    _finish(successor, start)
    ends.assert_equal(*SHOP)


def test_a_task_of_a_dead_runner_that_queues_with_the_next_one_does_nothing_twice(
    ends: Pair, start: Start
) -> None:
    """F11: both stand before the fence when it is let go, and whoever is first, it is done once."""
    open_shop(ends.source, 300)
    runner = start()
    until_finished(ends, runner)
    with psycopg.connect(ends.target) as gate:
        gate.execute("LOCK TABLE lockgate.progress IN ACCESS EXCLUSIVE MODE")
        ends.at_source("INSERT INTO visits (page) VALUES ('once')")
        until(lambda: waiting(ends, "lockgate.progress"), SOON_S)
        runner.kill()
        successor = start()
        until(lambda: len(waiting(ends, "lockgate.progress")) > 1, SOON_S)
        gate.rollback()
    _finish(successor, start)
    ends.assert_equal(*SHOP)


def test_an_owner_that_was_stopped_while_it_built_a_constraint_is_in_nobodys_way(
    ends: Pair, start: Start
) -> None:
    """F12: the tables that it had locked are free again as soon as a successor has claimed."""
    open_shop(ends.source, 300)
    with built_no_further(ends.target, "f", "public.orders") as reached:
        paused = start()
        until(reached, SOON_S)
        paused.signal(signal.SIGSTOP)
    until(lambda: _uncommitted(ends), SOON_S)
    successor = start()
    until_finished(ends, successor)
    ends.at_source("UPDATE orders SET total = total + 1", "DELETE FROM visits")
    until_same(ends, successor, *SHOP)
    _finish(successor, start)
    ends.assert_equal(*SHOP)


def _uncommitted(ends: Pair) -> list[tuple[int]]:
    """Sessions of Lockgate's that have altered a table and said nothing since."""
    return ends.ask_target(
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'lockgate %' "
        "AND state = 'idle in transaction' AND query LIKE 'ALTER TABLE%'"
    )


def until_finished(ends: Pair, process: FeedProcess) -> None:
    """Until the copy is over with all that belongs to it: whoever waits for a lock applies."""
    until_same(ends, process, *SHOP)

    def built() -> bool:
        assert process.running, process.said()
        found = ends.ask_target(
            "SELECT FROM pg_constraint WHERE contype = 'f' AND convalidated "
            "AND conrelid = 'public.orders'::regclass"
        )
        return bool(found)

    try:
        until(built, SOON_S)
    except AssertionError as late:
        late.add_note(process.said())
        raise


def _finish(process: FeedProcess, start: Start) -> None:
    """End a runner as people do, and let another one bring the feed level."""
    process.signal(signal.SIGTERM)
    assert process.wait(SOON_S) == 0, process.said()
    finish(start("--until-level"))


def _owner(ends: Pair) -> list[tuple[int, int]]:
    return ends.ask_target(
        "SELECT DISTINCT epoch, incarnation FROM lockgate.progress WHERE table_id LIKE 'public.%'"
    )
