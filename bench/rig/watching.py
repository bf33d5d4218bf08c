"""Who looks at target, metastore and a node during a failover, many times a second.

A thread of its own for each, so that a slow answer of one does not make the others late.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import psycopg

from lockgate.client import Client
from lockgate.model.errors import LockgateError

__all__ = ["Beats", "FirstTime"]

EVERY_S: Final = 0.02


class FirstTime:
    """When a condition was true for the first time, since it is entered."""

    def __init__(self, condition: Callable[[], bool], every_s: float = EVERY_S) -> None:
        self._condition = condition
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.at: float | None = None
        """On the monotonic clock."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def wait(self, timeout_s: float) -> float:
        """When it was; raises after this time."""
        self._thread.join(timeout_s)
        if self.at is None:
            raise RuntimeError(f"not within {timeout_s:g} s")
        return self.at

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            with contextlib.suppress(LockgateError, psycopg.OperationalError):
                if self._condition():
                    self.at = time.monotonic()
                    return


class Beats:
    """A row in each table, in one transaction, twenty times a second; from start to stop."""

    def __init__(self, url: str, tables: tuple[str, ...]) -> None:
        self._url = url
        self._statement = "; ".join(f"INSERT INTO {table} VALUES (%(n)s)" for table in tables)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beats", daemon=True)
        self.last = 0
        """The greatest number that is committed."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with psycopg.connect(self._url, cursor_factory=psycopg.ClientCursor) as connection:
            while not self._stop.wait(0.05):
                connection.execute(self._statement, {"n": self.last + 1})
                connection.commit()
                self.last += 1


def checkpoint(client: Client, feed: str) -> int:
    """By `feed status`, as a number."""
    high, _, low = client.feeds.status(feed).checkpoint.partition("/")
    return (int(high or "0", 16) << 32) + int(low or "0", 16)
