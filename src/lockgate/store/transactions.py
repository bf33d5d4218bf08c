"""Transactions on the metastore's database, and what is known when one fails.

Whoever keeps something in the metastore (records, leases, the change log) works through here,
so the one question about a failure is asked in one place: had COMMIT been sent?

    begin ── lock ── compare ── write ── COMMIT ── answered
    └──────── certainly not there ─────┘└─ who knows ─┘

Before COMMIT, whatever fails has left nothing: the database rolls back what was never
committed. From COMMIT on, only a few errors say for certain that it was rolled back.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import msgspec
import psycopg
import sqlalchemy as sa

from lockgate.model.ids import Millis
from lockgate.store.faults import Fault, Kind, as_error
from lockgate.store.postgres import PostgresBackend
from lockgate.store.sqlite import SqliteBackend

__all__ = ["DRIVER_ERRORS", "Alive", "Backend", "Clock", "Failed", "Transactions"]

Backend = SqliteBackend | PostgresBackend

Alive = Callable[[], None]
"""To be called now and then in a long transaction, when the database has just answered."""

Clock = Callable[[sa.Connection], Millis]
"""The metastore's clock, read inside a transaction. Whoever writes a time takes it from here."""

DRIVER_ERRORS: Final = (
    sa.exc.DBAPIError,
    sa.exc.TimeoutError,
    sqlite3.Error,
    psycopg.Error,
    OSError,
)

_Result = TypeVar("_Result")


class Failed(Exception):
    """A transaction failed, and this is what is known about it."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.why)
        self.fault = fault


class Transactions:
    """Runs work in transactions of one database. Safe to use from many threads."""

    def __init__(self, backend: Backend, engine: sa.Engine | None = None) -> None:
        """`engine` is one of the backend's, if not the one for everybody."""
        self._backend = backend
        self._engine = engine or backend.engine

    @property
    def label(self) -> str:
        """The place of the database, for people: no credentials."""
        return self._backend.label

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    def now_ms(self, connection: sa.Connection) -> Millis:
        """The clock of the database."""
        return self._backend.now_ms(connection)

    def write(self, work: Callable[[sa.Connection, Alive], tuple[_Result, bool]]) -> _Result:
        """Run `work` in a transaction, and commit that if it says so. Raises `Failed`."""
        committing = False
        try:
            with self._connected() as (connection, alive):
                result, wanted = work(connection, alive)
                if wanted:
                    committing = True
                    self._commit(connection)
                return result
        except sa.exc.DataError:
            raise  # a value that the database cannot hold: a bug, and trying again mends no bug
        except DRIVER_ERRORS as error:
            raise Failed(self._backend.fault(error, committing=committing)) from error

    def read(self, work: Callable[[sa.Connection, Alive], _Result]) -> _Result:
        """Run `work` in a transaction that sees one moment. Raises `Failed`."""
        try:
            with self._connected() as (connection, alive):
                return work(self._backend.snapshot(connection), alive)
        except DRIVER_ERRORS as error:
            raise Failed(self._backend.fault(error, committing=False)) from error

    @contextlib.contextmanager
    def told(self, operation: str) -> Iterator[None]:
        """Whatever fails inside is told to people as an error of the metastore."""
        try:
            yield
        except Failed as failed:
            raise as_error(failed.fault, self.label, operation) from failed
        except msgspec.MsgspecError as error:
            damaged = Fault(Kind.DAMAGED, f"a row cannot be read: {error}", certain=True)
            raise as_error(damaged, self.label, operation) from error

    @contextlib.contextmanager
    def _connected(self) -> Iterator[tuple[sa.Connection, Alive]]:
        """A connection under a deadline. What was not committed is rolled back at the end.

        Giving the connection back raises nothing: it must not turn a commit into a failure.
        """
        connection = self._engine.connect()
        try:
            with self._backend.deadline(connection) as alive:
                try:
                    yield connection, alive
                finally:
                    with contextlib.suppress(*DRIVER_ERRORS):
                        connection.close()
        finally:
            with contextlib.suppress(*DRIVER_ERRORS):
                connection.close()

    def _commit(self, connection: sa.Connection) -> None:
        try:
            connection.commit()
        except BaseException:
            # Nobody knows what state this connection is in. The next transaction gets another.
            with contextlib.suppress(*DRIVER_ERRORS):
                connection.invalidate()
            raise
