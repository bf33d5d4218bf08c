"""An application that writes, and keeps a ledger of its own: what was acknowledged, and when.

The ledger is outside of both databases. A row is in it when its commit was acknowledged; whether a
commit is there whose answer was lost, only the databases know (`unknown`): such a row may be there,
once, or not.

A guard's refusal is no error of the application: it asks where the table is and goes there.
"""

import itertools
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self

import psycopg
from psycopg import sql

__all__ = ["Acknowledged", "Ledger", "Refused", "Writer", "either", "missing_or_doubled"]

MOVED: Final = "LK001"
MOVING: Final = "LK002"
NOT_OPEN: Final = "LK003"
GUARDS: Final = (MOVED, MOVING, NOT_OPEN)
_AGAIN_S: Final = 0.005
_NUMBERS: Final = itertools.count(1)

Where = Callable[[str, str], str]
"""Where to write: the side that was tried last, and the code of its refusal (or nothing); the
answer is the side to try now."""


class Refused(NamedTuple):
    """A guard did not let a writer in. Times are seconds since 1970."""

    began: float
    at: float
    side: str
    code: str


class Acknowledged(NamedTuple):
    """A row that is there."""

    note: str
    side: str
    began: float
    ended: float
    refused: int
    """How often it was refused before."""


class Ledger:
    """What all writers of a table were told."""

    def __init__(self) -> None:
        self.rows: list[Acknowledged] = []
        self.refusals: list[Refused] = []
        self.unknown: list[str] = []
        self.bugs: list[str] = []
        """Errors that no guard has raised."""

    def waits_s(self) -> list[float]:
        """How long rows took that were refused first."""
        return [row.ended - row.began for row in self.rows if row.refused]


def either(sides: Sequence[str]) -> Where:
    """Knows of no routes: goes to the other side when one refuses."""

    def where(last: str, code: str) -> str:
        if not last:
            return sides[0]
        return sides[(sides.index(last) + 1) % len(sides)] if code else last

    return where


class Writer:
    """Inserts rows one by one, each until it is in, at the side that takes it."""

    def __init__(
        self,
        ledger: Ledger,
        urls: Mapping[str, str],
        table: str,
        where: Where,
        *,
        pause_s: float = 0.002,
    ) -> None:
        """`urls` of the sides, by the names that `where` answers."""
        self.ledger = ledger
        self.tag = f"{secrets.token_hex(4)}-{next(_NUMBERS)}"
        """What its rows begin with, and no others."""
        self._urls = urls
        self._insert = sql.SQL("INSERT INTO {} (note) VALUES (%s)").format(
            sql.Identifier(*table.split("."))
        )
        self._where = where
        self._pause_s = pause_s
        self._sides: dict[str, psycopg.Connection] = {}
        self._stopped = threading.Event()
        self._written = 0
        self._thread = threading.Thread(target=self._run, name="application", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._thread.join(60.0)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def written(self) -> int:
        return self._written

    def _run(self) -> None:
        try:
            for number in itertools.count(1):
                if self._stopped.wait(self._pause_s) or not self._one(f"{self.tag} {number}"):
                    return
                self._written += 1
        except Exception as bug:
            self.ledger.bugs.append(f"{type(bug).__name__}: {bug}")
        finally:
            for side in self._sides.values():
                side.close()

    def _one(self, note: str) -> bool:
        """False: it is over before the row was in."""
        began, refused, side = time.time(), 0, self._where("", "")
        while True:
            tried = time.time()
            code = self._tried(side, note)
            if not code:
                done = Acknowledged(note, side, began, time.time(), refused)
                self.ledger.rows.append(done)
                return True
            if code not in GUARDS:  # the connection is gone: nobody knows; the next row is another
                self.ledger.unknown.append(note)
                return not self._stopped.wait(0.1)
            refused += 1
            self.ledger.refusals.append(Refused(tried, time.time(), side, code))
            side = self._where(side, code)
            if self._stopped.wait(_AGAIN_S):
                return False

    def _tried(self, side: str, note: str) -> str:
        """Nothing when it is acknowledged, else why not."""
        try:
            if side not in self._sides or self._sides[side].closed:
                self._sides[side] = psycopg.connect(
                    self._urls[side], autocommit=True, application_name="application"
                )
            self._sides[side].execute(self._insert, (note,))
        except psycopg.OperationalError as error:
            return error.sqlstate or "away"
        except psycopg.Error as error:
            if error.sqlstate not in GUARDS:
                raise
            return error.sqlstate or ""
        return ""


def missing_or_doubled(url: str, table: str, ledger: Ledger, tags: Sequence[str]) -> list[str]:
    """What is wrong with the rows of some writers, at the side that has the traffic."""
    with psycopg.connect(url) as connection:
        statement = sql.SQL("SELECT note FROM {}").format(sql.Identifier(*table.split(".")))
        found = Counter(note for (note,) in connection.execute(statement))
    mine = {note: many for note, many in found.items() if note.startswith(tuple(tags))}
    acknowledged = {row.note for row in ledger.rows if row.note.startswith(tuple(tags))}
    missing = sorted(acknowledged - set(mine))
    doubled = sorted(note for note, many in mine.items() if many > 1)
    # A row whose answer is just on its way when the writer ends is nobody's mistake.
    strange = sorted(set(mine) - acknowledged - set(ledger.unknown))
    return [
        f"{len(notes)} rows {what}, {notes[0]} first"
        for what, notes in (("lost", missing), ("doubled", doubled), ("never written", strange))
        if notes
    ]
