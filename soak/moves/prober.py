"""Who can write where: at both sides at once, all the time, in transactions that are rolled back.

A probe writes at one side and, while that transaction is open, at the other. A guard is put up
under a lock that waits for who writes: so a side that has let the first write in cannot close
before the probe is over. If the second is let in too, both sides were open at one moment.

The longest time in which no side let anybody in is measured from probe to probe: it is no shorter
than it was, and longer by as much as the prober itself had to wait.
"""

import contextlib
import time
from typing import Final

import psycopg
from psycopg import sql

from soak.background import Background

__all__ = ["Prober"]

_PAUSE_S: Final = 0.01
_AGAIN_S: Final = 0.1
_ENDS_S: Final = 60.0
_LOCK_MS: Final = 3_000


class Prober(Background):
    """Probes one table of a move at its two sides."""

    def __init__(self, source: str, target: str, table: str) -> None:
        super().__init__("prober", again_s=_AGAIN_S, ends_s=_ENDS_S)
        self._urls = (source, target)
        self._insert = sql.SQL("INSERT INTO {} (note) VALUES ('a probe')").format(
            sql.Identifier(*table.split("."))
        )
        self.probes = 0
        self.both_open: list[str] = []
        self.bug: BaseException | None = None
        self.open_side = ""
        self._turn = 0
        self._last_open = time.monotonic()
        self._longest_s = 0.0

    @property
    def longest_s(self) -> float:
        """For which nobody could write at either side, what lasts now included."""
        return max(self._longest_s, time.monotonic() - self._last_open)

    def _work(self) -> None:
        with contextlib.ExitStack() as stack:
            sides = [
                stack.enter_context(
                    contextlib.closing(
                        psycopg.connect(
                            url,
                            application_name="prober",
                            options=f"-c lock_timeout={_LOCK_MS}",
                        )
                    )
                )
                for url in self._urls
            ]
            while not self._stopped.wait(_PAUSE_S):
                self._turn += 1
                self._probe(sides, self._turn % 2)

    def _broke(self, bug: BaseException) -> None:
        self.bug = bug

    def _probe(self, sides: list[psycopg.Connection], first: int) -> None:
        began = time.monotonic()
        names = ("source", "target")
        order = (first, 1 - first)
        let_in = [names[at] for at in order if self._lets_in(sides[at])]
        for at in reversed(order):
            sides[at].rollback()
        self.probes += 1
        if len(let_in) == 2:
            self.both_open.append(f"both sides were open, {names[first]} asked first")
        if let_in:
            self._longest_s = max(self._longest_s, began - self._last_open)
            self._last_open = time.monotonic()
            self.open_side = let_in[0]

    def _lets_in(self, side: psycopg.Connection) -> bool:
        """The transaction stays open, whatever it says."""
        try:
            side.execute(self._insert)
        except psycopg.errors.UndefinedTable:
            return False
        except psycopg.errors.LockNotAvailable:
            return False
        except psycopg.Error as error:
            if (error.sqlstate or "").startswith("LK"):
                return False
            raise
        return True
