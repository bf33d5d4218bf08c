"""The capture when things break: a newer owner, a metastore in doubt or away, a full disk."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from lockgate.endpoints.postgres.capture import CaptureOptions
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.source.errors import SourceLost
from lockgate.model.errors import DidNotLand, ObjectMissing, StaleOwner, StorageFull
from lockgate.model.ids import Token
from lockgate.store.changelog import sweep
from tests.store.test_sqlite_failures import small_mount
from tests.support.captures import FEED, SOON, TOKEN, Gate, Workshop, workshop
from tests.support.databases import fresh_database
from tests.support.proxy import FaultProxy
from tests.support.stores import sqlite_url
from tests.support.waiting import until

NEXT = Token(2, 1, 1)


@pytest.fixture
def shop(pg18: EmbeddedPostgres, tmp_path: Path) -> Iterator[Workshop]:
    with fresh_database(pg18) as url, workshop(url, tmp_path / "log", sqlite_url(tmp_path)) as shop:
        yield shop


def keys(shop: Workshop) -> list[int]:
    return [change.new["id"] for change in shop.changes() if change.new is not None]


def insert(shop: Workshop, key: int) -> None:
    shop.execute(f"INSERT INTO a VALUES ({key}, 'x')")


# --- a newer owner ------------------------------------------------------------------------------


def test_a_zombie_with_an_older_token_appends_nothing(shop: Workshop) -> None:
    with shop.running() as zombie:
        insert(shop, 1)
        zombie.until_resolved(shop.end())
        state = shop.log.claim(FEED, NEXT, 0)
        insert(shop, 2)
        error = zombie.failure()
    assert isinstance(error, StaleOwner)
    assert shop.log.claim(FEED, NEXT, 0) == state, "the log is as the new owner found it"
    assert keys(shop) == [1]
    assert shop.there() == shop.named(), "what it wrote in vain is gone"
    assert shop.confirmed() == state.resolved + 1, "and nothing was acknowledged"
    with shop.running(NEXT) as run:
        run.until_resolved(shop.end())
    assert keys(shop) == [1, 2]


def test_a_zombie_whose_folder_was_tidied_away_is_stale_too(shop: Workshop) -> None:
    gates: list[Gate] = []

    def gated(resolved: int) -> Gate:
        gates.append(Gate(shop.fetch(resolved)))
        return gates[0]

    with shop.running(open_source=gated) as zombie:
        zombie.until(lambda: gates)
        until((shop.root / FEED).exists)
        shop.log.claim(FEED, NEXT, 0)
        sweep(shop.log, shop.files, FEED)
        insert(shop, 1)
        gates[0].open.set()
        assert isinstance(zombie.failure(), StaleOwner)
    assert shop.there() == set()


def test_a_folder_that_others_removed_is_an_error(shop: Workshop) -> None:
    with shop.running() as run:
        run.until(lambda: run.capture.resolved is not None)
        until((shop.root / FEED / "1-1-1").exists)
        (shop.root / FEED / "1-1-1").rmdir()
        insert(shop, 1)
        error = run.failure()
    assert isinstance(error, ObjectMissing)


def test_an_older_owner_does_not_even_begin(shop: Workshop) -> None:
    shop.log.claim(FEED, NEXT, shop.start - 1)
    with shop.running() as zombie:
        assert isinstance(zombie.failure(), StaleOwner)
    assert shop.there() == set()
    assert zombie.capture.resolved is None


def test_a_forgotten_log_takes_nothing(shop: Workshop) -> None:
    with shop.running() as run:
        insert(shop, 1)
        run.until_resolved(shop.end())
        shop.log.forget(FEED, TOKEN)
        insert(shop, 2)
        assert isinstance(run.failure(), StaleOwner)
    assert shop.log.read(FEED, 0).segments == ()


# --- the metastore ------------------------------------------------------------------------------


@pytest.fixture
def proxy(pg18: EmbeddedPostgres) -> Iterator[FaultProxy]:
    with FaultProxy(pg18.host, pg18.port) as proxy:
        yield proxy


@pytest.fixture
def remote(pg18: EmbeddedPostgres, proxy: FaultProxy, tmp_path: Path) -> Iterator[Workshop]:
    """A workshop whose metastore is in PostgreSQL, behind a proxy."""
    with fresh_database(pg18) as url, fresh_database(pg18) as meta:
        through = meta.replace(f":{pg18.port}/", f":{proxy.port}/")
        with workshop(url, tmp_path / "log", through) as shop:
            yield shop


@pytest.mark.parametrize("heard", [False, True], ids=["commit-lost", "answer-lost"])
def test_an_append_in_doubt_is_settled_and_nothing_is_lost_or_doubled(
    remote: Workshop, proxy: FaultProxy, heard: bool
) -> None:
    with remote.running() as run:
        run.until(lambda: run.capture.resolved is not None)
        for key in range(1, 6):
            proxy.cut_at(b"COMMIT", forward=heard)
            insert(remote, key)
            run.until_resolved(remote.end())
    assert proxy.hits >= 5
    assert keys(remote) == [1, 2, 3, 4, 5]
    assert remote.there() == remote.named()


def test_an_append_that_did_not_land_is_tried_again(remote: Workshop, proxy: FaultProxy) -> None:
    with remote.running() as run:
        run.until(lambda: run.capture.resolved is not None)
        proxy.cut_at(b"INSERT INTO lockgate.segments", forward=False)
        insert(remote, 1)
        run.until_resolved(remote.end())
    assert proxy.hits == 1
    assert keys(remote) == [1]


def test_a_metastore_that_is_locked_for_long_is_a_transient_error(
    remote: Workshop, pg18: EmbeddedPostgres, proxy: FaultProxy
) -> None:
    direct = remote.metastore.replace(f":{proxy.port}/", f":{pg18.port}/")
    impatient = CaptureOptions(flush_ms=10, idle_ms=10, patience_s=0.05)
    with remote.running(options=impatient) as run:
        insert(remote, 1)
        run.until_resolved(remote.end())
        with psycopg.connect(direct) as other:
            other.execute("LOCK TABLE lockgate.changelog")
            insert(remote, 2)
            error = run.failure()
    assert isinstance(error, DidNotLand)
    assert remote.there() == remote.named()
    assert keys(remote) == [1]


# --- the disk -----------------------------------------------------------------------------------


def test_a_full_disk_stops_the_capture_and_room_lets_it_go_on(
    pg18: EmbeddedPostgres, tmp_path: Path
) -> None:
    root = tmp_path / "small"
    with small_mount(root, "1m") as mounted:
        if not mounted:
            pytest.skip("mounting a small file system needs root")
        with (
            fresh_database(pg18) as url,
            workshop(url, root, sqlite_url(tmp_path)) as shop,
        ):
            rows = 30_000
            insert(shop, 0)
            with shop.running() as run:
                run.until_resolved(shop.end())
                shop.execute(
                    "INSERT INTO a SELECT i, md5(i::text) || md5((-i)::text) "
                    f"FROM generate_series(1, {rows}) i"
                )
                error = run.failure()
            assert isinstance(error, StorageFull)
            assert str(root) in error.object
            assert error.hint
            assert keys(shop) == [0]
            assert shop.there() == shop.named(), "nothing half-made is left"
            assert shop.confirmed() == shop.log.read(FEED, shop.start - 1).resolved + 1
            subprocess.run(["mount", "-o", "remount,size=64m", str(root)], check=True)
            with shop.running() as run:
                run.until_resolved(shop.end())
            assert keys(shop) == list(range(rows + 1))


# --- the source ---------------------------------------------------------------------------------


def test_a_source_that_is_lost_is_a_transient_error_and_nothing_is_missing(shop: Workshop) -> None:
    with shop.running() as run:
        insert(shop, 1)
        run.until_resolved(shop.end())
        shop.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots "
            f"WHERE slot_name = '{shop.slot}'"
        )
        error = run.failure()
    assert isinstance(error, SourceLost)
    insert(shop, 2)
    with shop.running(options=SOON) as run:
        run.until_resolved(shop.end())
    assert keys(shop) == [1, 2]
