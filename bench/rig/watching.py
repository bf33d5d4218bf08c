"""Who looks at target, metastore and a node during a failover, many times a second.

A thread of its own for each, so that a slow answer of one does not make the others late.
"""

import contextlib
import time
from collections.abc import Callable
from typing import Final

import psycopg

from lockgate.client import Client
from lockgate.model.errors import LockgateError
from soak.background import Background

__all__ = ["Beats", "FirstTime"]

EVERY_S: Final = 0.02


class FirstTime(Background):
    """When a condition was true for the first time, since it is entered."""

    def __init__(self, condition: Callable[[], bool], every_s: float = EVERY_S) -> None:
        super().__init__("condition")
        self._condition = condition
        self._every_s = every_s
        self.at: float | None = None
        """On the monotonic clock."""

    def wait(self, timeout_s: float) -> float:
        """When it was; raises after this time."""
        self._thread.join(timeout_s)
        self.check()
        if self.at is None:
            raise RuntimeError(f"not within {timeout_s:g} s")
        return self.at

    def _work(self) -> None:
        while not self._stopped.wait(self._every_s):
            with contextlib.suppress(LockgateError, psycopg.OperationalError):
                if self._condition():
                    self.at = time.monotonic()
                    self._stopped.set()


class Beats(Background):
    """A row in each table, in one transaction, twenty times a second; from start to stop."""

    def __init__(self, url: str, tables: tuple[str, ...]) -> None:
        super().__init__("beats")
        self._url = url
        self._statement = "; ".join(f"INSERT INTO {table} VALUES (%(n)s)" for table in tables)
        self.last = 0
        """The greatest number that is committed."""

    def _work(self) -> None:
        with psycopg.connect(self._url, cursor_factory=psycopg.ClientCursor) as connection:
            while not self._stopped.wait(0.05):
                connection.execute(self._statement, {"n": self.last + 1})
                connection.commit()
                self.last += 1


def checkpoint(client: Client, feed: str) -> int:
    """By `feed status`, as a number."""
    high, _, low = client.feeds.status(feed).checkpoint.partition("/")
    return (int(high or "0", 16) << 32) + int(low or "0", 16)
