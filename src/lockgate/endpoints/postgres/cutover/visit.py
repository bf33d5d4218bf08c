"""A verb's visit to a side: one connection, transactions under the move's row, patience.

    with visiting(url, mark, "block writes") as visit:
        visit.politely(10.0, lambda cursor: …)     tried again while tables are held by others

Whoever holds the row for longer than a grace is of Lockgate (nobody else knows it), and paused: the
server ends that session, as a claim at a sink has it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Final, TypeVar

import psycopg

from lockgate.endpoints.postgres.cutover.locks import Holder, NotHad, holders, lock
from lockgate.endpoints.postgres.cutover.relations import Relation, relations
from lockgate.endpoints.postgres.cutover.row import LIMITS, MoveMark, MoveRow, taken
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.sink.blockers import Relief
from lockgate.endpoints.postgres.sink.rows import Cursor
from lockgate.endpoints.postgres.sink.session import Sessions
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import EndpointBusy
from lockgate.model.secret import Secret
from lockgate.model.tables import TableName

__all__ = ["PATIENCE_S", "Visit", "clock_us", "visiting"]

T = TypeVar("T")

PATIENCE_S: Final = 10.0
"""How long a verb tries that was not told."""
_PAUSE_MIN_S: Final = 0.02
_PAUSE_MAX_S: Final = 0.25
_BUDGET_MIN_S: Final = 0.05
_BUDGET_MAX_S: Final = 0.5


class Visit:
    """Made by `visiting`."""

    def __init__(
        self, sessions: Sessions, connection: psycopg.Connection, mark: MoveMark, operation: str
    ) -> None:
        self.connection = connection
        self.mark = mark
        self.operation = operation
        self.label = sessions.label
        self._sessions = sessions
        self._deadlock_s: float | None = None
        self._tries = 0

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        """Committed at the end, rolled back by any exception. Errors come out as Lockgate's."""
        about = f"{self.mark}, {self.label}"
        try:
            with (
                faults(object_=about, operation=self.operation),
                self.connection.cursor() as cursor,
            ):
                yield cursor
            with faults(object_=about, operation=self.operation, committing=True):
                self.connection.commit()
        except BaseException:
            with suppress(psycopg.Error):
                self.connection.rollback()
            raise

    def row(self, cursor: Cursor, *, over: bool = False) -> MoveRow:
        """The move's row, locked under this keeper; with `over`, also of a move that is over."""
        with Relief(self._sessions, self.connection.info.backend_pid):
            return taken(cursor, self.mark, self.label, over=over)

    def locked(
        self,
        cursor: Cursor,
        tables: Sequence[TableName],
        mode: str,
        *,
        skip_missing: bool = False,
    ) -> list[Relation]:
        """The tables and their partitions, locked within what is polite; NotHad if not."""
        found = relations(cursor, tables, skip_missing=skip_missing)
        lock(cursor, found, mode, self.budget_s(cursor))
        # While it was waited for, a partition may have come, or a table have gone.
        if relations(cursor, tables, skip_missing=skip_missing) != found:
            raise NotHad(found, mode)
        return found

    def budget_s(self, cursor: Cursor) -> float:
        """How long locks may be waited for at once: a moment at first. Where writers take tables in
        an order that is not ours, waiting leads nowhere, and they wait too."""
        longest = min(_BUDGET_MAX_S, self._deadlock(cursor) / 2)
        return float(min(_BUDGET_MIN_S * 2**self._tries, longest))

    def politely(self, patience_s: float, attempt: Callable[[Cursor], T]) -> T:
        """What `attempt` answers, in a transaction that is tried again while it is `NotHad`.

        Raises EndpointBusy, which names who is in the way, when the patience is at its end.
        """
        until = time.monotonic() + patience_s
        pause_s = _PAUSE_MIN_S
        held: list[Holder] = []
        self._tries = 0
        while True:
            try:
                with self.transaction() as cursor:
                    return attempt(cursor)
            except NotHad as busy:
                with self.transaction() as cursor:
                    now = holders(cursor, busy.relations, busy.mode)
                held = now or held
                if time.monotonic() + pause_s >= until:
                    raise self._busy(busy, held) from busy
                if now and all(one.is_autovacuum for one in now):
                    self._press(busy, now[0])
            time.sleep(pause_s)
            self._tries += 1
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _press(self, busy: NotHad, holder: Holder) -> None:
        """Wait for one table alone, so long that an autovacuum gives way."""
        one = [each for each in busy.relations if each.table == holder.table]
        with suppress(NotHad), self.transaction() as cursor:
            lock(cursor, one, busy.mode, 1.5 * self._deadlock(cursor))

    def _deadlock(self, cursor: Cursor) -> float:
        if self._deadlock_s is None:
            row = cursor.execute(
                "SELECT setting::int / 1000.0::float8 FROM pg_settings "
                "WHERE name = 'deadlock_timeout'"
            ).fetchone()
            assert row is not None, "every server has this setting"
            self._deadlock_s = float(row[0])
        return self._deadlock_s

    def _busy(self, busy: NotHad, held: Sequence[Holder]) -> EndpointBusy:
        who = "; ".join(str(one) for one in held[:3]) or "others use the tables all the time"
        return EndpointBusy(
            f"the tables are not had: {who}",
            object_=f"{self.mark}, {self.label}",
            hint="nothing was changed; let that transaction end, or end its session "
            "(pg_terminate_backend; ROLLBACK PREPARED), and try again",
            operation=self.operation,
            cause=f"no {busy.mode} lock in time",
        )


@contextmanager
def visiting(url: PostgresUrl | str | Secret, mark: MoveMark, operation: str) -> Iterator[Visit]:
    """A connection to a side, which the server shows as `lockgate move <name>`."""
    sessions = Sessions(url, LIMITS)
    with closing(sessions.open(f"move {mark.move}")) as connection:
        yield Visit(sessions, connection, mark, operation)


def clock_us(cursor: Cursor) -> int:
    """The server's clock, in microseconds since 1970: now, not when the transaction began."""
    row = cursor.execute(
        "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::int8"
    ).fetchone()
    assert row is not None, "a query without FROM has a row"
    return int(row[0])
