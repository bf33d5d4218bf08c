"""How far the feeds are, by the target itself, and how long they stood still at most."""

import threading
import time
from collections.abc import Callable
from typing import Final

import psycopg

from soak.matrix.watcher import read_rows

__all__ = ["Progress"]

EVERY_S: Final = 0.25
AGAIN_S: Final = 0.5


class Progress:
    """A thread that looks at the checkpoint of each feed: the least position of its rows."""

    def __init__(self, url: str, feeds: tuple[str, ...], still: Callable[[], set[str]]) -> None:
        """`still`: the feeds that people have paused. Their time does not count."""
        self._url = url
        self._still = still
        self._feeds = feeds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._since = dict.fromkeys(feeds, time.monotonic())
        self.positions = dict.fromkeys(feeds, 0)
        self.longest_s = dict.fromkeys(feeds, 0.0)
        """Without progress, of each feed."""

    def start(self) -> None:
        self._since = dict.fromkeys(self._feeds, time.monotonic())
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with psycopg.connect(self._url, autocommit=True, connect_timeout=5) as connection:
                    while not self._stop.wait(EVERY_S):
                        self._look(connection)
            except psycopg.OperationalError:
                self._stop.wait(AGAIN_S)

    def _look(self, connection: psycopg.Connection) -> None:
        rows = read_rows(connection)
        now = time.monotonic()
        still = self._still()
        for feed in self._feeds:
            least = min((row.position for row in rows if row.feed == feed), default=0)
            self.longest_s[feed] = max(self.longest_s[feed], now - self._since[feed])
            if least > self.positions[feed] or feed in still:
                self._since[feed] = now
            self.positions[feed] = least
