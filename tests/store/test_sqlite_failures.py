"""SQLite when things break: a full disk, an I/O error in COMMIT, a lock, a killed process."""

import contextlib
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa

from lockgate.core.ports import Metastore
from lockgate.model.batch import (
    Batch,
    JoinFailed,
    Landed,
    Loaded,
    LoadFailed,
    NotLanded,
    Raise,
    RenewFailed,
    Unknown,
)
from lockgate.model.errors import StorageFull
from lockgate.model.ids import NodeRef
from lockgate.store.location import SqliteLocation
from lockgate.store.metastore import SqlMetastore
from lockgate.store.sqlite import SqliteBackend
from tests.support import actor
from tests.support.stores import FEED, LEASE_MS, own, put, span, sqlite_url


def opened(home: Path, timeout_ms: int = 2_000) -> SqlMetastore:
    return SqlMetastore.open(sqlite_url(home), lease_ms=LEASE_MS, timeout_ms=timeout_ms)


def check_whole(home: Path) -> None:
    """The file is sound in the eyes of SQLite itself."""
    with contextlib.closing(sqlite3.connect(home / "metastore.db")) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# --- a full disk --------------------------------------------------------------------------------


@contextlib.contextmanager
def small_mount(home: Path, size: str) -> Iterator[bool]:
    """A file system of that size at `home`. False where we may not mount."""
    home.mkdir()
    command = ["-t", "tmpfs", "-o", f"size={size}", "lockgate-test", str(home)]
    mount = shutil.which("mount")
    tried = mount and subprocess.run([mount, *command], capture_output=True, check=False)
    if not tried or tried.returncode:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "--lazy", str(home)], check=True)


@dataclass
class SmallDisk:
    """A place that fills up for real."""

    home: Path
    open: Callable[[], SqlMetastore]
    grow: Callable[[], None]
    """Make room again."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A file system of one megabyte; where mounting is not allowed, a file with a page limit."""
    home = tmp_path / "small"
    with small_mount(home, "1m") as mounted:
        if mounted:
            remount = ["mount", "-o", "remount,size=64m", str(home)]
            yield SmallDisk(
                home, lambda: opened(home), lambda: void(subprocess.run(remount, check=True))
            )
            return
        pages = [200]
        yield SmallDisk(
            home, lambda: page_limited(home, pages), lambda: pages.__setitem__(0, 1_000_000)
        )


def void(_: object) -> None:
    """For lambdas that are called for their effect."""


def page_limited(home: Path, pages: list[int]) -> SqlMetastore:
    """A metastore whose file may have only so many pages: SQLite then says that it is full."""
    backend = SqliteBackend(SqliteLocation(home / "metastore.db"), 2_000)

    def limit(raw: sqlite3.Connection, *_: object) -> None:
        raw.execute(f"PRAGMA max_page_count = {pages[0]}").fetchone()

    store = SqlMetastore(backend, LEASE_MS, None)
    for transactions in (store._core, store.transactions):
        sa.event.listen(transactions._engine, "checkout", limit)
    try:
        store._prepare()
    except BaseException:
        store.close()
        raise
    return store


def fill(store: Metastore) -> tuple[int, NotLanded]:
    """Write until there is no room: the last serial that landed, and the answer after it."""
    for serial in range(1, 2_000):
        records = [span(serial * 100 + n, table="t" * 200) for n in range(50)]
        answer = store.commit(put(serial, *records))
        if not isinstance(answer, Landed):
            assert isinstance(answer, NotLanded), answer
            return serial - 1, answer
    raise AssertionError("the small disk never filled up")


def test_on_a_full_disk_a_batch_does_not_land_and_says_why(small_disk: SmallDisk) -> None:
    with small_disk.open() as store:
        own(store)
        _, answer = fill(store)
        assert "no space left" in answer.why


def test_a_full_disk_damages_nothing_and_work_goes_on_when_there_is_room(
    small_disk: SmallDisk,
) -> None:
    with small_disk.open() as store:
        own(store)
        last, _ = fill(store)
        before = store.load(FEED)
        assert isinstance(before, Loaded)
        assert (before.serial, len(before.records)) == (last, 50 * last)
    small_disk.grow()
    check_whole(small_disk.home)
    with small_disk.open() as store:
        assert store.load(FEED) == before
        # The serial that did not land may be used for something else.
        assert isinstance(store.commit(put(last + 1, span(1))), Landed)
        after = store.load(FEED)
        assert isinstance(after, Loaded)
        assert (after.serial, len(after.records)) == (last + 1, 50 * last + 1)


def test_a_metastore_that_has_no_room_to_begin_says_the_storage_is_full(tmp_path: Path) -> None:
    home = tmp_path / "full"
    with small_mount(home, "64k") as mounted:
        if mounted:
            with contextlib.suppress(OSError), (home / "filler").open("wb", buffering=0) as filler:
                while True:
                    filler.write(b"x" * 4096)
        with pytest.raises(StorageFull) as caught:
            opened(home) if mounted else page_limited(home, [2])
        assert "free some space" in caught.value.hint


# --- an I/O error in COMMIT ---------------------------------------------------------------------


@contextlib.contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Every write beyond `size` fails with EFBIG, which SQLite reports as an I/O error."""
    assert signal.getsignal(signal.SIGXFSZ) is signal.SIG_IGN
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_an_io_error_in_commit_is_unknown_until_the_same_batch_settles_it(home: Path) -> None:
    with opened(home) as store:
        own(store)
        assert isinstance(store.commit(put(1, span(1))), Landed)
        batch = put(2, span(2))
        limit = (home / "metastore.db-wal").stat().st_size
        with file_size_limit(limit):
            # Small enough to stay in memory until COMMIT, where writing it fails.
            answer = store.commit(batch)
        assert isinstance(answer, Unknown), answer
        assert "I/O" in answer.why
        assert store.commit(batch) == Landed(FEED, 2)
        assert store.load(FEED) == Loaded(FEED, 1, 2, (span(1), span(2)))
    check_whole(home)


def test_a_batch_in_doubt_stays_unknown_when_its_repetition_never_began(home: Path) -> None:
    with opened(home, timeout_ms=100) as store:
        own(store)
        batch = put(1, span(1))
        with file_size_limit((home / "metastore.db-wal").stat().st_size):
            assert isinstance(store.commit(batch), Unknown)
        with contextlib.closing(sqlite3.connect(home / "metastore.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            assert isinstance(store.commit(batch), Unknown)
            # Of another scope's batch nothing is in doubt.
            assert isinstance(store.commit(put(1, span(1), scope="feed:b", fence=0)), NotLanded)
        assert store.commit(batch) == Landed(FEED, 1)
        with contextlib.closing(sqlite3.connect(home / "metastore.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            assert isinstance(store.commit(put(2, span(2))), NotLanded)


# --- locks, and files that go bad under us ------------------------------------------------------


def test_while_somebody_holds_the_lock_nothing_lands_and_reading_works(home: Path) -> None:
    with opened(home, timeout_ms=50) as store:
        own(store)
        with contextlib.closing(sqlite3.connect(home / "metastore.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            answer = store.commit(put(1, span(1)))
            assert isinstance(answer, NotLanded)
            assert "locked" in answer.why
            assert isinstance(store.join("a", 0), JoinFailed)
            assert isinstance(store.renew(NodeRef("a", 1), 0), RenewFailed)
            assert store.load(FEED) == Loaded(FEED, 1, 0, ())
        assert isinstance(store.commit(put(1, span(2))), Landed)


def test_a_record_that_cannot_be_read_fails_the_load(home: Path) -> None:
    with opened(home) as store:
        own(store)
        assert isinstance(store.commit(put(1, span(1))), Landed)
        with contextlib.closing(sqlite3.connect(home / "metastore.db")) as other:
            other.execute('UPDATE records SET body = \'{"type": "unheard of"}\'')
            other.commit()
        answer = store.load(FEED)
        assert isinstance(answer, LoadFailed)
        assert "unheard of" in answer.why


def test_a_metastore_whose_tables_are_gone_answers_and_does_not_crash(home: Path) -> None:
    with opened(home) as store:
        own(store)
        with contextlib.closing(sqlite3.connect(home / "metastore.db")) as other:
            other.execute("DROP TABLE records")
        assert isinstance(store.load(FEED), LoadFailed)
        assert isinstance(store.commit(put(1, span(1))), NotLanded)


def test_a_home_that_is_deleted_answers_and_does_not_crash(home: Path) -> None:
    place = home / "inner"
    place.mkdir()
    with opened(place) as store:
        own(store)
        store.close()
        shutil.rmtree(place)
        assert isinstance(store.commit(put(1, span(1))), NotLanded)
        assert isinstance(store.load(FEED), LoadFailed)
        assert isinstance(store.join("a", 0), JoinFailed)


# --- SIGKILL ------------------------------------------------------------------------------------


def test_a_killed_process_loses_nothing_that_was_acknowledged(home: Path) -> None:
    with opened(home) as store:
        own(store)
    landed = 0
    for acknowledged in (1, 7, 23, 40):
        writer = actor.start("write", sqlite_url(home))
        assert actor.said(writer) == "ready"
        actor.go(writer)
        for _ in range(acknowledged):
            assert int(actor.said(writer)) == landed + 1
            landed += 1
        os.kill(writer.pid, signal.SIGKILL)
        assert writer.wait() == -signal.SIGKILL
        assert writer.stdout is not None
        assert writer.stdin is not None
        # It may have said more between our reading and its end; a torn line is no word.
        rest = writer.stdout.read()
        landed += rest.count("\n")
        writer.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            writer.stdin.close()
        with opened(home) as store:
            found = store.load(FEED)
        assert isinstance(found, Loaded)
        assert found.serial in {landed, landed + 1}
        landed = found.serial
        numbers = [int(record.id[1:]) for record in found.records]
        assert [number for number in numbers if number < 900_000] == list(range(1, landed + 1))
        # Each batch is whole: what it overwrote is all of the same, newest batch.
        assert {r.span.table for r in found.records if int(r.id[1:]) >= 900_000} == {f"t{landed}"}
    check_whole(home)


def test_a_raise_and_its_records_survive_together(home: Path) -> None:
    with opened(home) as store:
        raising = Batch("coordinator", 0, 1, puts=(span(1),), raises=(Raise(FEED, 0, 1),))
        assert isinstance(store.commit(raising), Landed)
    with opened(home) as store:
        coordinator, feed = store.load("coordinator"), store.load(FEED)
        assert isinstance(coordinator, Loaded)
        assert isinstance(feed, Loaded)
        assert (coordinator.records, feed.fence) == ((span(1),), 1)
