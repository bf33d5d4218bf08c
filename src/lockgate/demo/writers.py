"""The shop's applications: they write all the time, at the side that has the traffic.

Each looks up in the routes, kept in memory, where to write. A guard refuses who is late: `is moving
to` is tried again in a moment, `has moved to` names the new home, and it is gone to at once. Every
transaction is repeated until it is acknowledged, and how long that took is what people would feel.
"""

import contextlib
import random
import threading
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

import psycopg

from lockgate.client.routes import RouteFollower, moved_to
from lockgate.demo.shop import shop_once

__all__ = ["Wait", "Writers"]

PAUSE_S: Final = 0.005
AGAIN_S: Final = 0.01
_AGAIN: Final = frozenset({"40P01", "40001"})
"""Two writers that met: PostgreSQL lets one of them repeat."""


class Wait(NamedTuple):
    """One transaction: when it was acknowledged, and how long after it was first tried."""

    ended: float
    seconds: float


class Writers:
    """Writers in threads. Every transaction that was acknowledged is known, by its guest."""

    def __init__(self, homes: Mapping[str, str], table: str, at: str, count: int = 3) -> None:
        """`homes`: the URLs of endpoints; `table`: the one whose route is followed; `at`: where it
        is as long as nobody has a route for it."""
        self._homes = homes
        self._table = table
        self._known = at
        self._follower: RouteFollower | None = None
        self.guests: list[str] = []
        self.rows = 0
        self.refused = 0
        """How often a guard said no."""
        self.told: str = ""
        """What the last one of those said that named a new home."""
        self.errors: list[str] = []
        """What no writer should meet. Who met it writes no more."""
        self._waits: list[list[Wait]] = [[] for _ in range(count)]
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True)
            for number in range(count)
        ]

    def start(self) -> None:
        """Begin to write."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End after the transaction under way."""
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def follow(self, follower: RouteFollower | None) -> None:
        """Go by these routes from now on; None: nobody can be asked, go on where it was."""
        self._follower = follower

    def wrote_all(self, timeout_s: float) -> bool:
        """Wait until every writer has been acknowledged one transaction more."""
        before = [len(waits) for waits in self._waits]
        deadline = time.monotonic() + timeout_s
        while any(len(waits) <= old for waits, old in zip(self._waits, before, strict=True)):
            if self.errors or time.monotonic() > deadline:
                return False
            time.sleep(AGAIN_S)
        return True

    def longest(self, began: float, ended: float) -> list[float]:
        """Of each writer, how long the slowest transaction took that was under way then."""
        with self._lock:
            return [
                max(
                    (
                        one.seconds
                        for one in waits
                        if one.ended >= began and one.ended - one.seconds <= ended
                    ),
                    default=0.0,
                )
                for waits in self._waits
            ]

    # --- one writer -----------------------------------------------------------------------------

    def _run(self, number: int) -> None:
        try:
            with contextlib.ExitStack() as stack:
                sides = {
                    name: stack.enter_context(psycopg.connect(url, autocommit=True))
                    for name, url in self._homes.items()
                }
                self._write(number, sides)
        except Exception as error:
            self.errors.append(f"{type(error).__name__}: {error}")

    def _write(self, number: int, sides: dict[str, psycopg.Connection]) -> None:
        rng, serial, hint = random.Random(number), 0, ""
        while not self._stop.wait(PAUSE_S):
            serial += 1
            guest = f"guest {number}-{serial}"
            began, rows = time.monotonic(), 0
            while not rows:
                home, hint = hint or self._home(), ""
                try:
                    with sides[home].transaction():
                        rows = shop_once(sides[home], guest, rng)
                except psycopg.Error as error:
                    rows, hint = 0, self._refusal(error)
                    if self._stop.wait(0 if hint else AGAIN_S):
                        return
            ended = time.monotonic()
            with self._lock:
                self.guests.append(guest)
                self.rows += rows
                self._waits[number].append(Wait(ended, ended - began))

    def _home(self) -> str:
        if self._follower is not None:
            self._known = self._follower.table(self._table)
        return self._known

    def _refusal(self, error: psycopg.Error) -> str:
        """Where a guard says that the table is, if it does; what is not a guard's is raised."""
        if error.sqlstate in _AGAIN:
            return ""
        if not (error.sqlstate or "").startswith("LK"):
            raise error
        said = error.diag.message_primary or ""
        home = moved_to(said) or ""
        with self._lock:
            self.refused += 1
            self.told = said if home else self.told
        return home if home in self._homes else ""
