"""The change log when its database fails: what is known then, and how a claim settles the rest."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.errors import (
    DidNotLand,
    MetastoreUnavailable,
    OutcomeUnknown,
    StaleOwner,
    StorageFull,
)
from lockgate.store.changelog.log import Changelog
from lockgate.store.changelog.rows import LogState, LogView
from lockgate.store.metastore import SqlMetastore
from tests.store.test_sqlite_failures import file_size_limit, small_mount
from tests.support.logs import FEED, NEW, OWN, change, log_at, segment, unstamped
from tests.support.proxy import FaultProxy
from tests.support.stores import LEASE_MS, sqlite_url


@pytest.fixture
def proxy(postgres: EmbeddedPostgres) -> Iterator[FaultProxy]:
    with FaultProxy(postgres.host, postgres.port) as proxy:
        yield proxy


@pytest.fixture
def through(proxy: FaultProxy, postgres: EmbeddedPostgres, database: str) -> Iterator[Changelog]:
    """A log reached through the proxy, claimed."""
    url = database.replace(f":{postgres.port}/", f":{proxy.port}/")
    with log_at(url, timeout_ms=1_000) as log:
        log.claim(FEED, OWN, 0)
        yield log


def append(log: Changelog, n: int) -> None:
    """The n-th of appends that continue each other."""
    log.append(FEED, OWN, [segment(n, n + 1)], [change(n + 1)], n + 1, n + 1)


@pytest.mark.parametrize("heard", [False, True], ids=["commit-lost", "answer-lost"])
def test_an_append_cut_at_commit_is_unknown_and_a_claim_tells(
    proxy: FaultProxy, through: Changelog, heard: bool
) -> None:
    append(through, 0)
    proxy.cut_at(b"COMMIT", forward=heard)
    with pytest.raises(OutcomeUnknown) as caught:
        append(through, 1)
    assert proxy.hits == 1
    assert "claim" in caught.value.hint
    state = through.claim(FEED, OWN, 0)
    assert state == (LogState(2, 2) if heard else LogState(1, 1))
    if not heard:
        append(through, 1)
    seen = through.read(FEED, 0)
    assert unstamped(seen.segments) == [segment(0, 1), segment(1, 2)]
    assert seen.changes == (change(1), change(2))


@pytest.mark.parametrize("word", [b"INSERT INTO lockgate.segments", b"FOR UPDATE"])
def test_an_append_cut_before_commit_did_not_land(
    proxy: FaultProxy, through: Changelog, word: bytes
) -> None:
    proxy.cut_at(word, forward=False)
    with pytest.raises(DidNotLand):
        append(through, 0)
    assert through.read(FEED, 0) == LogView(0, 0)
    append(through, 0)


def test_an_append_in_doubt_stays_so_until_a_claim_has_answered(
    proxy: FaultProxy, through: Changelog
) -> None:
    proxy.cut_at(b"COMMIT", forward=True)
    with pytest.raises(OutcomeUnknown):
        append(through, 0)
    proxy.cut_at(b"FOR UPDATE", forward=False)
    with pytest.raises(OutcomeUnknown):
        append(through, 0)  # it failed before it began; but what of the first one?
    proxy.cut_at(b"FOR UPDATE", forward=False)
    with pytest.raises(OutcomeUnknown):
        through.claim(FEED, OWN, 0)
    assert through.claim(FEED, OWN, 0) == LogState(1, 1)
    proxy.cut_at(b"FOR UPDATE", forward=False)
    with pytest.raises(DidNotLand):
        append(through, 1)


def test_an_append_that_landed_unheard_is_not_repeated(
    proxy: FaultProxy, through: Changelog
) -> None:
    proxy.cut_at(b"COMMIT", forward=True)
    with pytest.raises(OutcomeUnknown):
        append(through, 0)
    with pytest.raises(StaleOwner):
        append(through, 0)
    assert len(through.read(FEED, 0).segments) == 1


def test_a_claim_waits_for_the_append_in_doubt(database: str) -> None:
    with log_at(database, timeout_ms=30_000) as log, psycopg.connect(database) as slow:
        log.claim(FEED, OWN, 0)
        slow.execute("SELECT * FROM lockgate.changelog FOR UPDATE")
        slow.execute("UPDATE lockgate.changelog SET resolved = 7")
        with log_at(database, timeout_ms=1_000) as hasty, pytest.raises(DidNotLand):
            hasty.claim(FEED, NEW, 0)
        slow.commit()
        assert log.claim(FEED, NEW, 0).resolved == 7


def test_a_server_that_is_gone_is_unavailable_to_a_reader() -> None:
    with EmbeddedPostgres(settings={"fsync": "off"}) as mortal, log_at(mortal.url()) as log:
        log.claim(FEED, OWN, 0)
        mortal.stop("immediate")
        with pytest.raises(MetastoreUnavailable):
            log.read(FEED, 0)
        with pytest.raises(DidNotLand):
            append(log, 0)


# --- SQLite -------------------------------------------------------------------------------------


def test_while_somebody_holds_the_lock_nothing_lands_and_reading_works(home: Path) -> None:
    with log_at(sqlite_url(home), timeout_ms=50) as log:
        log.claim(FEED, OWN, 0)
        with contextlib.closing(sqlite3.connect(home / "metastore.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(DidNotLand, match="locked"):
                append(log, 0)
            assert log.read(FEED, 0) == LogView(0, 0)
        append(log, 0)


def test_an_io_error_in_commit_is_unknown_until_a_claim_tells(home: Path) -> None:
    with log_at(sqlite_url(home)) as log:
        log.claim(FEED, OWN, 0)
        append(log, 0)
        with (
            file_size_limit((home / "metastore.db-wal").stat().st_size),
            pytest.raises(OutcomeUnknown),
        ):
            append(log, 1)
        state = log.claim(FEED, OWN, 0)
        if state == LogState(1, 1):
            append(log, 1)
        assert unstamped(log.read(FEED, 0).segments) == [segment(0, 1), segment(1, 2)]


def test_a_full_disk_is_storage_full_and_the_log_as_it_was(tmp_path: Path) -> None:
    home = tmp_path / "small"
    with small_mount(home, "1m") as mounted:
        if not mounted:
            pytest.skip("mounting a small file system needs root")
        with SqlMetastore.open(sqlite_url(home), lease_ms=LEASE_MS) as store:
            log = Changelog(store.transactions)
            log.claim(FEED, OWN, 0)
            landed = 0

            def fill() -> None:
                nonlocal landed
                while landed < 10_000:
                    rows = [segment(100 * landed + n, landed + 1) for n in range(100)]
                    end = landed + 1
                    log.append(FEED, OWN, rows, [], end, 100 * end)
                    landed = end

            with pytest.raises(StorageFull) as caught:
                fill()
            assert "free some space" in caught.value.hint
            assert landed > 0
            seen = log.read(FEED, 0)
            assert (seen.resolved, len(seen.segments)) == (landed, 100 * landed)
