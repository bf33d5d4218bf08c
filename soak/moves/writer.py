"""An application that inserts, updates and deletes rows of its own, and keeps a ledger of it.

Every change names the version that it replaces. So a row that is not as it was acknowledged is seen
by the next change of it, and not covered up by that one. What was seen is told (`Ledger.wrong`),
and the key is left as it is, for the judge.

A guard's refusal is no error of the application: it asks where the table is and goes there.
"""

import itertools
import random
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, NamedTuple

import psycopg
from psycopg import sql

from soak.background import Background
from soak.moves.ledger import Acknowledged, Change, Kind, Ledger, Refused

__all__ = ["MOVED", "MOVING", "Where", "Writer", "either"]

MOVED: Final = "LK001"
MOVING: Final = "LK002"
NOT_OPEN: Final = "LK003"
GUARDS: Final = (MOVED, MOVING, NOT_OPEN)
_AGAIN_S: Final = 0.005
_ENDS_S: Final = 60.0
_NUMBERS: Final = itertools.count(1)

NEW_SHARE: Final = 0.3
DELETED_SHARE: Final = 0.3
"""Of the changes to rows that are there."""
RECENT: Final = 20
"""Keys that are changed again. So few that one is changed often, and so many that older states stay
as they are and are looked at in the end as well."""

Where = Callable[[str, str], str]
"""Where to write: the side that was tried last, and the code of its refusal (or nothing); the
answer is the side to try now."""


def either(sides: Sequence[str]) -> Where:
    """Knows of no routes: goes to the other side when one refuses."""

    def where(last: str, code: str) -> str:
        if not last:
            return sides[0]
        return sides[(sides.index(last) + 1) % len(sides)] if code else last

    return where


class _Owned(NamedTuple):
    """A key as it was acknowledged."""

    id: int
    last: Change


class _NotAsItWas(Exception):
    """The row that a change is for is not what the ledger says."""


class Writer(Background):
    """Makes changes one by one, each until it is in, at the side that takes it."""

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
        super().__init__("application", ends_s=_ENDS_S)
        self.ledger = ledger
        number = next(_NUMBERS)
        self.tag = f"{secrets.token_hex(4)}-{number}"
        """What its keys begin with, and no others."""
        self._urls = urls
        self._table = sql.Identifier(*table.split("."))
        self._where = where
        self._pause_s = pause_s
        self._rng = random.Random(number)
        self._recent: dict[str, _Owned] = {}
        self._sides: dict[str, psycopg.Connection] = {}
        self._written = 0

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        if self.alive:  # what it has on its way is in no ledger
            self.ledger.bugs.append("a writer does not come to its end")

    @property
    def written(self) -> int:
        return self._written

    def _work(self) -> None:
        try:
            for number in itertools.count(1):
                if self._stopped.wait(self._pause_s) or not self._one(self._next(number)):
                    return
                self._written += 1
        finally:
            for side in self._sides.values():
                side.close()

    def _broke(self, bug: BaseException) -> None:
        self.ledger.bugs.append(f"{type(bug).__name__}: {bug}")

    def _next(self, number: int) -> Change:
        """Of a new key, or of one of the last ones."""
        if not self._recent or self._rng.random() < NEW_SHARE:
            return Change(f"{self.tag} {number}", 1, Kind.INSERT)
        last = self._recent[self._rng.choice(list(self._recent))].last
        if last.kind is Kind.DELETE:
            kind = Kind.INSERT
        else:
            kind = Kind.DELETE if self._rng.random() < DELETED_SHARE else Kind.UPDATE
        return Change(last.key, last.version + 1, kind)

    def _one(self, change: Change) -> bool:
        """False: it is over before the change was in."""
        began, refused, side = time.time(), 0, self._where("", "")
        owned = self._recent.pop(change.key, None)
        while True:
            tried = time.time()
            try:
                id_ = self._made(side, change, owned)
            except _NotAsItWas as why:
                self.ledger.wrong.append(f"{side}: {change.kind.value} {change.note}: {why}")
                return True
            except psycopg.Error as error:
                code = error.sqlstate or ""
                if code not in GUARDS:
                    if not isinstance(error, psycopg.OperationalError):
                        raise
                    self.ledger.unknown.append(change)  # its key is left alone from now on
                    return not self._stopped.wait(0.1)
            else:
                self.ledger.changes.append(Acknowledged(change, side, began, time.time(), refused))
                self._remember(_Owned(id_, change))
                return True
            refused += 1
            self.ledger.refusals.append(Refused(tried, time.time(), side, code))
            side = self._where(side, code)
            if self._stopped.wait(_AGAIN_S):
                return False

    def _remember(self, owned: _Owned) -> None:
        self._recent[owned.last.key] = owned
        if len(self._recent) > RECENT:
            del self._recent[next(iter(self._recent))]

    def _made(self, side: str, change: Change, owned: _Owned | None) -> int:
        """Under which id the row is, or was."""
        if side not in self._sides or self._sides[side].closed:
            self._sides[side] = psycopg.connect(
                self._urls[side], autocommit=True, application_name="application"
            )
        values: tuple[int | str, ...] = (change.note,)
        if owned is None:
            text = "INSERT INTO {} (note) VALUES (%s) RETURNING id"
        elif change.kind is Kind.INSERT:
            text = "INSERT INTO {} (id, note) VALUES (%s, %s) RETURNING id"
            values = (owned.id, change.note)
        elif change.kind is Kind.UPDATE:
            text = "UPDATE {} SET note = %s WHERE id = %s AND note = %s RETURNING id"
            values = (change.note, owned.id, owned.last.note)
        else:
            text = "DELETE FROM {} WHERE id = %s AND note = %s RETURNING id"
            values = (owned.id, owned.last.note)
        try:
            query = sql.SQL(text).format(self._table)
            found = self._sides[side].execute(query, values).fetchone()
        except psycopg.errors.UniqueViolation as error:
            raise _NotAsItWas(f"a row is there: {error.diag.message_detail}") from None
        if found is None:
            raise _NotAsItWas("there is no row of the version before")
        return int(found[0])
