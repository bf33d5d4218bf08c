"""The parts that the data plane's benchmarks are made of do what their figures rest on."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import catchup
from bench.rig import byhand, memory, orders, servers, traffic
from bench.rig.memory import MIB, Sample
from bench.rig.native import Native
from tests.support.waiting import until

ROWS = 400


@pytest.fixture(scope="module")
def source() -> Iterator[str]:
    with servers.server() as url:
        orders.create(url)
        yield url


@pytest.fixture
def filled(source: str) -> str:
    servers.execute(source, "TRUNCATE orders")
    orders.fill(source, ROWS)
    return source


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with servers.server() as url:
        yield url


@pytest.fixture
def target(server: str) -> str:
    servers.execute(server, "DROP TABLE IF EXISTS orders")
    return server


def key_of(url: str) -> list[tuple[str]]:
    with servers.session(url) as connection:
        query = "SELECT indexdef FROM pg_indexes WHERE indexname = 'orders_pkey'"
        return connection.execute(query).fetchall()


@pytest.mark.parametrize("key_first", [True, False])
def test_a_copy_by_hand_brings_all_rows_and_the_key(
    filled: str, target: str, key_first: bool
) -> None:
    byhand.copy(filled, target, ROWS, key_first=key_first)
    assert orders.same_rows(filled, target) == ROWS
    assert len(key_of(target)) == 1


def test_a_copy_by_hand_that_fails_is_no_result(source: str, target: str) -> None:
    nothing = source.removesuffix("/postgres") + "/template1"
    with pytest.raises(RuntimeError, match="psql ended with"):
        byhand.copy(nothing, target, ROWS, key_first=True)


def test_one_row_that_differs_is_seen(filled: str, target: str) -> None:
    byhand.copy(filled, target, ROWS, key_first=True)
    servers.execute(target, "UPDATE orders SET score = score + 1 WHERE id = 7")
    with pytest.raises(RuntimeError, match="the rows differ"):
        orders.same_rows(filled, target)


@pytest.mark.parametrize("case", [catchup.ONE, catchup.MANY])
def test_native_replication_catches_up_with_a_backlog(filled: str, target: str, case: str) -> None:
    native = Native(filled, target, name="test", binary=True)
    native.copy()
    native.disable()
    backlog = catchup.backlog_of(ROWS)
    backlog.make(filled, case)
    native.catch_up(backlog.last)
    assert orders.same_rows(filled, target) == ROWS + backlog.inserts - backlog.deletes
    native.drop()


@pytest.mark.parametrize(("case", "transactions"), [(catchup.ONE, 1), (catchup.MANY, 72)])
def test_a_backlog_has_the_changes_that_it_says(filled: str, case: str, transactions: int) -> None:
    backlog = catchup.backlog_of(ROWS)
    assert (backlog.inserts, backlog.updates, backlog.deletes) == (400, 200, 120)
    kinds = ("CREATE PUBLICATION kinds FOR TABLE orders", "DROP PUBLICATION kinds")
    with servers.session(filled) as connection:
        connection.execute(kinds[0])
        connection.execute("SELECT pg_create_logical_replication_slot('kinds', 'pgoutput')")
        try:
            backlog.make(filled, case)
            counted = connection.execute(
                "SELECT chr(get_byte(data, 0)), count(*) FROM pg_logical_slot_get_binary_changes("
                "'kinds', NULL, NULL, 'proto_version', '1', 'publication_names', 'kinds') "
                "GROUP BY 1"
            ).fetchall()
        finally:
            connection.execute("SELECT pg_drop_replication_slot('kinds')")
            connection.execute(kinds[1])
    found = dict(counted)
    assert {kind: found[kind] for kind in "IUDC"} == {
        "I": backlog.inserts,
        "U": backlog.updates,
        "D": backlog.deletes,
        "C": transactions,
    }


def test_traffic_has_a_lag_for_every_transaction(filled: str, target: str) -> None:
    native = Native(filled, target, name="test", binary=False)
    native.copy()
    outcome = traffic.run(traffic.Traffic(filled, target, ROWS, 1_000, seconds=1))
    assert outcome.changes == 1_000
    assert len(outcome.lags_s) == 100
    assert 0 < outcome.lag_s(50) <= outcome.lag_s(99) <= outcome.lag_s(100)
    assert orders.same_rows(filled, target) == ROWS + 100 * (traffic.INSERTS - traffic.DELETES)
    native.drop()


DRIVER_WITH_WORKER = """
import subprocess, sys
hoard = "import sys; kept = bytearray(64 << 20); print(flush=True); sys.stdin.read()"
worker = subprocess.Popen(
    [sys.executable, "-c", hoard, "pyspark.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
worker.stdout.readline()
print(flush=True)
sys.stdin.readline()
worker.communicate()
print(flush=True)
sys.stdin.read()
"""


def test_memory_counts_the_driver_and_what_looks_like_spark() -> None:
    """Of a process of its own: this one may have a Spark already."""
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER_WITH_WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with driver:
        assert driver.stdin is not None
        assert driver.stdout is not None
        driver.stdout.readline()
        sample = memory.take(driver.pid, 0.0)
        driver.stdin.write(b"\n")
        driver.stdin.flush()
        driver.stdout.readline()
        alone = memory.take(driver.pid, 0.0)
    assert sample.driver > MIB
    assert 64 * MIB < sample.workers < 128 * MIB
    assert alone.workers == 0


def test_growth_is_that_of_the_second_half() -> None:
    rising = [Sample(float(at), driver=at * MIB) for at in range(60)]
    flat = [Sample(float(at), driver=60 * MIB) for at in range(60, 120)]
    assert memory.growth(rising, memory.DRIVER) == pytest.approx(60 * MIB)
    assert memory.growth(rising + flat, memory.PYTHON) == pytest.approx(0, abs=1)
    assert memory.peak(rising + flat, memory.PYTHON) == 60 * MIB


def test_memory_is_sampled_by_another_process(tmp_path: Path) -> None:
    file = tmp_path / "memory.jsonl"
    with memory.Memory(tmp_path, interval_s=0.01) as watched:
        until(lambda: file.exists() and file.read_bytes().count(b"\n") > 2)
    assert len(watched.samples) > 2
    assert all(sample.driver > MIB for sample in watched.samples)
