"""The metastore in a SQLite file: the default, for the nodes of one machine.

Write-ahead log with `synchronous=FULL`: an acknowledged commit survives a power cut, and
readers do not wait for writers. Every writing transaction begins IMMEDIATE, with the write
lock in hand, so it can never fail halfway because somebody else wrote. The clock is that of
the machine that holds the file, which is the machine of all who use it.
"""

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa

from lockgate.model.ids import Millis
from lockgate.store.faults import Fault, Kind, Unfit
from lockgate.store.location import SqliteLocation
from lockgate.store.pools import PEOPLE
from lockgate.store.tables import schema_version

__all__ = ["SqliteBackend"]

_READS: Final = "lockgate_reads"
"""Execution option of a connection that will only read."""

_ALMOST_FULL_BYTES: Final = 64 * 1024
"""With less than this left, a failed write of any sort is put down to a full disk."""

_KINDS: Final = {
    sqlite3.SQLITE_BUSY: Kind.BUSY,
    sqlite3.SQLITE_LOCKED: Kind.BUSY,
    sqlite3.SQLITE_FULL: Kind.FULL,
    sqlite3.SQLITE_IOERR: Kind.IO,
    sqlite3.SQLITE_PERM: Kind.DENIED,
    sqlite3.SQLITE_AUTH: Kind.DENIED,
    sqlite3.SQLITE_READONLY: Kind.DENIED,
    sqlite3.SQLITE_CANTOPEN: Kind.DENIED,
    sqlite3.SQLITE_CORRUPT: Kind.DAMAGED,
    sqlite3.SQLITE_NOTADB: Kind.DAMAGED,
    sqlite3.SQLITE_FORMAT: Kind.DAMAGED,
}

_NOT_COMMITTED: Final = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY}
)
"""A COMMIT that fails with one of these left nothing that counts.

The last frame of a transaction is what makes it count, and with SQLITE_FULL that frame was
not written. An I/O error is different: the frame may be in the log, and only its fsync, or
the log's index, have failed. Nobody sees it then, but if all processes die before the log is
written to again, recovery finds it and the transaction has happened after all.
"""


class SqliteBackend:
    """A file, through an engine for everybody, and others for those who must not wait for them."""

    def __init__(self, location: SqliteLocation, timeout_ms: int) -> None:
        self.label = location.label
        self._path = location.path
        self._timeout_s = timeout_ms / 1000
        self.engine = self.make_engine(*PEOPLE)

    def make_engine(self, kept: int, spare: int) -> sa.Engine:
        """One with a pool of its own: connections that are kept, and more when all are taken."""
        engine = sa.create_engine(
            sa.URL.create("sqlite+pysqlite", database=str(self._path)),
            connect_args={"timeout": self._timeout_s, "isolation_level": None},
            pool_size=kept,
            max_overflow=spare,
            pool_timeout=self._timeout_s,
            hide_parameters=True,
        )
        sa.event.listen(engine, "connect", _on_connect)
        sa.event.listen(engine, "begin", _on_begin)
        return engine

    def settle(self) -> None:
        """Turn the write-ahead log on; it stays on for good."""
        with contextlib.suppress(OSError):
            # Made here, because SQLite would let everybody read it.
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        deadline = time.monotonic() + self._timeout_s
        with contextlib.closing(sqlite3.connect(self._path, timeout=self._timeout_s)) as raw:
            mode = ""
            while not mode:
                try:
                    [mode] = raw.execute("PRAGMA journal_mode = WAL").fetchone()
                except sqlite3.OperationalError as error:
                    # SQLite does not wait here by itself when two turn it on at once.
                    if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                        raise
                    time.sleep(0.01)
        if mode != "wal":
            raise Unfit(f"the file system allows no write-ahead log: journal_mode is {mode}")

    def lock(self, connection: sa.Connection) -> bool:
        """Let one opener in at a time, until the transaction ends. True if a metastore is there.

        Raises `Unfit` when something else is.
        """
        tables = sa.inspect(connection).get_table_names()
        if schema_version.name in tables:
            return True
        if tables:
            raise Unfit("a database with other tables in it")
        return False

    def now_ms(self, connection: sa.Connection) -> Millis:  # noqa: ARG002
        """The clock of this machine."""
        return time.time_ns() // 1_000_000

    def snapshot(self, connection: sa.Connection) -> sa.Connection:
        """The connection, whose next transaction reads one moment and locks nobody out."""
        return connection.execution_options(**{_READS: True})

    @contextmanager
    def deadline(self, connection: sa.Connection) -> Iterator[Callable[[], None]]:  # noqa: ARG002
        """Nothing to guard: there is no server to be lost, and waiting for a lock is bounded."""
        yield lambda: None

    def fault(self, error: Exception, *, committing: bool) -> Fault:
        """What an error of the driver, or of SQLAlchemy's around it, means."""
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        code = _code(cause)
        kind = _KINDS.get(code, Kind.OTHER)
        if isinstance(error, sa.exc.TimeoutError):
            kind = Kind.BUSY
        if kind in {Kind.IO, Kind.DENIED} and self._bytes_free() < _ALMOST_FULL_BYTES:
            kind = Kind.FULL
        why = str(cause)
        if kind is Kind.FULL:
            why = f"no space left where the metastore lies ({why})"
        return Fault(kind, why, certain=not committing or code in _NOT_COMMITTED)

    def _bytes_free(self) -> int:
        try:
            return shutil.disk_usage(self._path.parent).free
        except OSError:
            return _ALMOST_FULL_BYTES


def _code(error: BaseException | None) -> int:
    """SQLite's primary result code; 0 when the error is not SQLite's."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _on_connect(raw: sqlite3.Connection, _: Any) -> None:
    raw.execute("PRAGMA synchronous = FULL")


def _on_begin(connection: sa.Connection) -> None:
    reads = connection.get_execution_options().get(_READS, False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")
