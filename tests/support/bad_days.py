"""What bad days are made of: servers that go away, locks that hold work up, disks that fill."""

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.feeds import FeedState
from lockgate.node.feed import setup
from lockgate.node.home import Home
from lockgate.node.runner import FeedRunner
from lockgate.store.feeds import FeedBook
from lockgate.store.metastore import SqlMetastore
from tests.support.feeds import Pair
from tests.support.waiting import until

SOON_S = 180.0
"""Everything here happens within seconds on a machine that has nothing else to do."""

_WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE application_name LIKE 'lockgate %%' AND wait_event_type = 'Lock' AND datname = %s
"""


def prepare(pair: Pair, **config: object) -> None:
    """Set the feed up, as its runner would, and run nothing yet."""
    home = Home(pair.home)
    home.take()
    with SqlMetastore.open(home.metastore_url, lease_ms=10_000) as metastore:
        book = FeedBook(metastore.transactions)
        setup.set_up(book, pair.config(**config), str(home.path.resolve()))


class Held:
    """Tables that nobody else can touch, until `release` or until the server is gone."""

    def __init__(self, url: str, *tables: str) -> None:
        self._url = url
        self._connection = psycopg.connect(url, application_name="test holds a lock")
        for table in tables:
            self._connection.execute(
                sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(
                    sql.Identifier(*table.split("."))
                )
            )

    def hold_chunks(self, table: str) -> int:
        """Hold the table's chunks that no task has begun with, and let the table itself go."""
        chunks = psycopg.connect(self._url, application_name="test holds chunks")
        found = chunks.execute(
            "SELECT c.no FROM lockgate.chunks c JOIN lockgate.progress p USING (feed, span) "
            "WHERE p.table_id = %s AND NOT c.done FOR UPDATE OF c SKIP LOCKED",
            (table,),
        ).fetchall()
        self.release()
        self._connection = chunks
        return len(found)

    def until_waited_for(self, count: int = 1) -> None:
        """Wait until so many sessions of Lockgate's stand before a lock in this database."""
        with psycopg.connect(self._url, autocommit=True) as connection:

            def waiting() -> bool:
                row = connection.execute(_WAITING, (connection.info.dbname,)).fetchone()
                return row is not None and row[0] >= count

            until(waiting, SOON_S)

    def release(self) -> None:
        with contextlib.suppress(psycopg.Error):
            self._connection.rollback()
        self._connection.close()


@contextlib.contextmanager
def held(url: str, *tables: str) -> Iterator[Held]:
    """Tables that nobody else can touch."""
    lock = Held(url, *tables)
    try:
        yield lock
    finally:
        lock.release()


@contextlib.contextmanager
def built_no_further(url: str, kind: str, table: str) -> Iterator[Callable[[], bool]]:
    """Whoever makes a constraint of that kind waits before its transaction ends, until we leave.

    Yields whether somebody does, at this gate and no other: sessions wait for many locks.
    """
    with psycopg.connect(url) as gate:
        gate.execute(_GATE.format(kind=kind, table=table))
        gate.commit()
        gate.execute("SELECT pg_advisory_lock(42)")
        yield lambda: gate.execute(_AT_THE_GATE).fetchone() == (True,)


_AT_THE_GATE = (
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 42 "
    "AND NOT granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
)
_GATE = """
CREATE FUNCTION gate() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_constraint
               WHERE contype = '{kind}' AND conrelid = to_regclass('{table}')) THEN
        PERFORM pg_advisory_xact_lock_shared(42);
    END IF;
END $$;
CREATE EVENT TRIGGER gate ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION gate();
"""


@contextlib.contextmanager
def gone(server: EmbeddedPostgres, how: str) -> Iterator[None]:
    """The server is away, and comes back."""
    server.stop(how)  # type: ignore[arg-type]
    try:
        yield
    finally:
        server.start()


def chunks_done(pair: Pair, table: str) -> set[tuple[int, str, str]]:
    """The table's chunks that have landed: number, snapshot, and the transaction that wrote so."""
    return set(
        pair.ask_target(
            "SELECT c.no, c.snapshot, c.xmin::text FROM lockgate.chunks c "
            f"JOIN lockgate.progress p USING (feed, span) WHERE p.table_id = '{table}' AND c.done"
        )
    )


def until_warned(runner: FeedRunner, *words: str) -> str:
    """Wait until the feed's status is a warning that has all of these words; what it says."""

    def warned() -> str:
        status = runner.status()
        fits = status.state is FeedState.WARNING and all(word in status.error for word in words)
        return status.error if fits else ""

    return until(warned, SOON_S)


def until_failed(runner: FeedRunner) -> tuple[str, str]:
    """Wait until the feed has failed; its error, and what it says can be done."""
    until(lambda: runner.status().state is FeedState.FAILED, SOON_S)
    status = runner.status()
    return status.error, "; ".join(status.next_steps)


def until_normal(runner: FeedRunner) -> None:
    """Wait until there is nothing to complain of."""
    until(lambda: runner.status().state is FeedState.NORMAL and not runner.status().error, SOON_S)


class SmallDisk:
    """A file system of its own, so small that it fills."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def resize(self, size: str) -> None:
        """Give it more room."""
        self._mount("-o", f"remount,size={size}", str(self.path))

    def fill(self) -> None:
        """Leave no room at all."""
        with contextlib.suppress(OSError), (self.path / "filler").open("wb", buffering=0) as filler:
            block = bytes(4096)
            while True:
                filler.write(block)

    def clear(self) -> None:
        """Make room again."""
        (self.path / "filler").unlink()

    @staticmethod
    def _mount(*arguments: str) -> bool:
        mount = shutil.which("mount")
        if mount is None:
            return False
        return not subprocess.run([mount, *arguments], capture_output=True, check=False).returncode


@contextlib.contextmanager
def small_disk(path: Path, size: str) -> Iterator[SmallDisk]:
    """A disk of that size at `path`; the test is skipped where we may not mount."""
    path.mkdir(parents=True)
    disk = SmallDisk(path)
    if not disk._mount("-t", "tmpfs", "-o", f"size={size}", "lockgate-test", str(path)):
        pytest.skip("a disk that fills needs the right to mount (root)")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(path)], capture_output=True, check=False)


@contextlib.contextmanager
def tablespace(server: EmbeddedPostgres, path: Path) -> Iterator[None]:
    """The tablespace `small` there: it stands for the disk, so that the server itself goes on."""
    owner = server.directory.stat()
    os.chown(path, owner.st_uid, owner.st_gid)
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE TABLESPACE small LOCATION {}").format(sql.Literal(str(path)))
        )
        yield
        connection.execute("DROP TABLESPACE small")


def in_thread(work: "Sequence[str]", url: str) -> threading.Thread:
    """Execute statements beside the test: they may have to wait."""

    def run() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in work:
                connection.execute(statement)  # type: ignore[call-overload]

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
