"""The metastore in PostgreSQL: for nodes on several machines. The clock is the server's.

A lost server must not hang a node for ever, however it is lost. Waiting is bounded three
times: by the server (statement and idle timeouts, which also free the locks of a client that
was paused in mid-transaction), by the kernel (keepalives), and, because a server that is
stopped or cut off answers to neither, by a deadline of our own that shuts the socket.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg
import sqlalchemy as sa

from lockgate.model.ids import Millis
from lockgate.model.secret import MASK
from lockgate.store.faults import Fault, Kind, Unfit
from lockgate.store.location import PostgresLocation
from lockgate.store.pools import PEOPLE
from lockgate.store.tables import SCHEMA, schema_version

__all__ = ["PostgresBackend"]

_MIGRATION_LOCK: Final = 0x10C6_6A7E
"""Of pg_advisory_xact_lock: one opener at a time."""

_KINDS: Final = {
    "25006": Kind.DENIED,  # read-only: a standby
    "25P03": Kind.GONE,  # idle in transaction for too long: the server hung up
    "42501": Kind.DENIED,
    "53100": Kind.FULL,
    "55P03": Kind.BUSY,
    "57014": Kind.BUSY,  # statement timeout
    "58030": Kind.IO,
    "XX001": Kind.DAMAGED,
    "XX002": Kind.DAMAGED,
}
_KINDS_OF_CLASS: Final = {
    "08": Kind.GONE,
    "28": Kind.DENIED,
    "40": Kind.BUSY,
    "53": Kind.BUSY,
    "57": Kind.GONE,
}


class PostgresBackend:
    """A database, through an engine for everybody, and others for those who must not wait."""

    def __init__(self, location: PostgresLocation, timeout_ms: int) -> None:
        self.label = location.label
        self._password = location.password
        self._timeout_ms = timeout_ms
        self._url = location.url
        seconds = max(1, timeout_ms // 1000)
        defaults: dict[str, str | int] = {
            "application_name": "lockgate metastore",
            "connect_timeout": seconds,
            "keepalives_idle": seconds,
            "keepalives_interval": seconds,
            "keepalives_count": 2,
            "tcp_user_timeout": timeout_ms,
        }
        asked = location.url.query
        self._arguments = {name: value for name, value in defaults.items() if name not in asked}
        self.engine = self.make_engine(*PEOPLE)

    def make_engine(self, kept: int, spare: int) -> sa.Engine:
        """One with a pool of its own: connections that are kept, and more when all are taken."""
        arguments = dict(self._arguments)
        if self._password:
            arguments["password"] = self._password.reveal()
        engine = sa.create_engine(
            self._url,
            connect_args=arguments,
            execution_options={"schema_translate_map": {None: SCHEMA}},
            pool_size=kept,
            max_overflow=spare,
            pool_timeout=self._timeout_ms / 1000,
            hide_parameters=True,
        )
        sa.event.listen(engine, "connect", self._on_connect)
        return engine

    def _on_connect(self, raw: Any, _: Any) -> None:
        # Half of our own deadline: the server's word says more than a shut socket.
        timeout_ms = max(1, self._timeout_ms // 2)
        with raw.cursor() as cursor:
            for name in ("statement_timeout", "idle_in_transaction_session_timeout"):
                cursor.execute("SELECT set_config(%s, %s, false)", (name, str(timeout_ms)))
        raw.commit()

    def settle(self) -> None:
        """Nothing needs settling before the first transaction."""

    def lock(self, connection: sa.Connection) -> bool:
        """Let one opener in at a time, until the transaction ends. True if a metastore is there.

        Raises `Unfit` when something else is. Makes the schema, which migrations rely on.
        """
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
        inspector = sa.inspect(connection)
        if not inspector.has_schema(SCHEMA):
            connection.execute(sa.schema.CreateSchema(SCHEMA))
            return False
        tables = set(inspector.get_table_names(schema=SCHEMA))
        if schema_version.name in tables:
            return True
        # A target keeps tables of its own in this schema; only these names must be free.
        if tables & {table.name for table in schema_version.metadata.tables.values()}:
            raise Unfit(f"the schema {SCHEMA} holds tables of a metastore, but no version")
        return False

    def now_ms(self, connection: sa.Connection) -> Millis:
        """The server's clock, not the transaction's: it moves on while we wait for a lock."""
        seconds = sa.extract("epoch", sa.func.clock_timestamp())
        return int(connection.execute(sa.select(sa.func.floor(seconds * 1000))).scalar_one())

    def snapshot(self, connection: sa.Connection) -> sa.Connection:
        """The connection, whose next transaction reads one moment and locks nobody out."""
        return connection.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )

    @contextmanager
    def deadline(self, connection: sa.Connection) -> Iterator[Callable[[], None]]:
        """Shut the connection's socket if nothing is heard for too long; what waits then fails.

        Yields a function to call whenever something was heard.
        """
        raw = connection.connection.driver_connection
        assert isinstance(raw, psycopg.Connection)
        with _Watch(raw.fileno(), self._timeout_ms / 1000) as watch:
            try:
                yield watch.heard
            except (sa.exc.DBAPIError, psycopg.Error) as error:
                if not watch.shut:
                    raise
                # The driver only saw the socket go. Say who shut it, and why.
                why = f"nothing was heard from the server for {self._timeout_ms} ms"
                raise psycopg.errors.ConnectionTimeout(why) from error

    def fault(self, error: Exception, *, committing: bool) -> Fault:
        """What an error of the driver, or of SQLAlchemy's around it, means."""
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        state = getattr(cause, "sqlstate", None) or ""
        if isinstance(error, sa.exc.TimeoutError):
            kind = Kind.BUSY
        elif not state:
            kind = Kind.GONE if isinstance(cause, psycopg.OperationalError) else Kind.OTHER
        else:
            kind = _KINDS.get(state) or _KINDS_OF_CLASS.get(state[:2], Kind.OTHER)
        return Fault(kind, self._masked(str(cause)), certain=not committing or _aborted(state))

    def _masked(self, why: str) -> str:
        secret = self._password.reveal()
        return why.replace(secret, MASK) if secret else why


def _aborted(state: str) -> bool:
    """True when a COMMIT that failed with this state was rolled back for certain.

    The server says so for conflicts and broken constraints. Whatever else it says, or that it
    says nothing, may as well come from after the commit.
    """
    return state[:2] in {"23", "40"} and state != "40003"


class _Watch:
    """A thread that shuts a socket when it was not told in time that something was heard."""

    def __init__(self, fileno: int, timeout_s: float) -> None:
        # A descriptor of our own: should the connection be closed and its number be given to
        # somebody else meanwhile, we still mean the same socket.
        self._socket = socket.socket(fileno=os.dup(fileno))
        self._timeout_s = timeout_s
        self._until = time.monotonic() + timeout_s
        self._over = threading.Event()
        self.shut = False
        self._thread = threading.Thread(target=self._run, name="metastore deadline", daemon=True)

    def heard(self) -> None:
        self._until = time.monotonic() + self._timeout_s

    def __enter__(self) -> "_Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        while not self._over.wait(max(0.0, self._until - time.monotonic())):
            if time.monotonic() >= self._until:
                self.shut = True
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
                return
