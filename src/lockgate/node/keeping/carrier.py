"""What a keeper wants done, done by threads: each instruction is answered by an event."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

__all__ = ["Carrier"]

Event = TypeVar("Event")
What = TypeVar("What")


class Carrier(Generic[Event]):
    """The threads of one keeper. Orders are handed on and never waited for."""

    def __init__(self, pools: Iterable[ThreadPoolExecutor]) -> None:
        self._pools = tuple(pools)
        self._post: Callable[[Event], None] = lambda _: None
        self._over = threading.Event()
        self._running = 0
        self._idle = threading.Condition()

    def tell(self, post: Callable[[Event], None]) -> None:
        """Who is to hear of what came of it."""
        self._post = post

    @property
    def over(self) -> bool:
        """Nobody waits for anything of it any more."""
        return self._over.is_set()

    def end(self) -> None:
        """No more of it: what runs is stopped when it can be, and told to nobody."""
        self._over.set()
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)

    def join(self, timeout_s: float) -> bool:
        """Wait until nothing runs any more; False when that takes too long."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._running, timeout_s)

    def submit(self, pool: ThreadPoolExecutor, do: Callable[[What], Event], what: What) -> None:
        """Have it done by a thread of the pool; its event follows.

        A keeper may still want something while it is ended: nobody does it."""
        try:
            pool.submit(self._told, do, what)
        except RuntimeError:
            if not self.over:
                raise

    def _told(self, do: Callable[[What], Event], what: What) -> None:
        with self._idle:
            if self.over:
                return
            self._running += 1
        try:
            event = do(what)
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()
        if not self.over:
            self._post(event)
