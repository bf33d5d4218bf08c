"""The console of a PgBouncer: hold a database's traffic, let it go on, read the file again.

    with Console(url, patience_s=5) as console:
        console.pause("shop")      returns when nobody is inside of a transaction any more
        console.reload()
        console.resume("shop")     no error when it was not held

It speaks PostgreSQL's protocol, but is none: it takes no settings of a session, no parameters, and
has no `statement_timeout`. So this waits for answers itself, with one deadline for all of them.
"""

import select
import time
from types import TracebackType
from typing import Final, NamedTuple, Self

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo

from lockgate.endpoints.postgres.faults import connect_fault
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import EndpointBusy, EndpointRefused, EndpointUnavailable, ObjectMissing

__all__ = ["Console", "Pooled"]

_CONNECT_S_LEAST: Final = 2
"""libpq takes no less."""


class Pooled(NamedTuple):
    """A database, as PgBouncer has it at the moment."""

    host: str
    port: str
    database: str
    paused: bool


class Console:
    """One session. Everything that is asked in it ends within `patience_s` from its start."""

    def __init__(self, url: PostgresUrl, patience_s: float) -> None:
        self._url = url
        self._deadline = time.monotonic() + patience_s
        parameters = url.parameters()
        parameters["connect_timeout"] = str(max(_CONNECT_S_LEAST, int(patience_s)))
        try:
            self._session = psycopg.connect(make_conninfo(**parameters), autocommit=True)
        except psycopg.Error as error:
            failed = connect_fault(
                error,
                object_=url.label,
                operation="connect to PgBouncer",
                secrets=[parameters.get("password", "")],
            )
        else:
            return
        # Outside the handler: the driver's error, which nobody masked, is not carried along.
        raise failed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._session.close()

    def show(self, database: str) -> Pooled:
        """How it is; ObjectMissing when PgBouncer does not know it."""
        for row in self._asked("SHOW DATABASES"):
            if row["name"] == database:
                paused = row["paused"] == "1"
                return Pooled(row["host"], row["port"], row["database"], paused)
        raise ObjectMissing(
            "PgBouncer has no database of this name",
            object_=database,
            hint=f"SHOW DATABASES at {self._url.label} lists those that it has",
        )

    def pause(self, database: str) -> None:
        """Hold the traffic: transactions that are open are waited for, what comes later waits."""
        self._asked(f"PAUSE {_quoted(database)}")

    def resume(self, database: str) -> None:
        """Let it go on, if it is held."""
        if self.show(database).paused:
            self._asked(f"RESUME {_quoted(database)}")

    def reload(self) -> None:
        """Have its files read again."""
        self._asked("RELOAD")

    # --- inside ---------------------------------------------------------------------------------

    def _asked(self, command: str) -> list[dict[str, str]]:
        session = self._session.pgconn
        rows: list[dict[str, str]] = []
        try:
            session.send_query(command.encode())
            while (result := self._result(command)) is not None:
                if result.status is pq.ExecStatus.FATAL_ERROR:
                    raise self._refused(command, result.get_error_message().strip())
                names = [(result.fname(n) or b"").decode() for n in range(result.nfields)]
                for row in range(result.ntuples):
                    values = (result.get_value(row, n) for n in range(result.nfields))
                    texts = [(value or b"").decode("utf-8", "replace") for value in values]
                    rows.append(dict(zip(names, texts, strict=True)))
        except psycopg.Error as error:
            raise EndpointUnavailable(
                "the connection to PgBouncer was lost",
                object_=self._url.label,
                hint="see that it runs, and its log",
                operation=command,
                cause=error,
            ) from None
        return rows

    def _result(self, command: str) -> pq.abc.PGresult | None:
        session = self._session.pgconn
        ready = select.poll()
        ready.register(session.socket, select.POLLIN)
        while session.is_busy():
            left_ms = int((self._deadline - time.monotonic()) * 1000)
            if left_ms <= 0 or not ready.poll(left_ms):
                raise EndpointBusy(
                    "PgBouncer did not get it done in time",
                    object_=self._url.label,
                    hint="transactions that are open, or with pool_mode=session connections, are "
                    "waited for: SHOW CLIENTS lists them; or give the hook a longer timeout_s",
                    operation=command,
                )
            session.consume_input()
        return session.get_result()

    def _refused(self, command: str, why: str) -> EndpointRefused:
        return EndpointRefused(
            "PgBouncer refused",
            object_=self._url.label,
            hint="see that the user is one of its admin_users",
            operation=command,
            cause=why,
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
