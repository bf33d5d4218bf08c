"""Places to work at: so many at once, and whoever only waits for somebody else gives his back."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Places"]


class Places:
    """A number of them."""

    def __init__(self, many: int) -> None:
        self._free = threading.Semaphore(many)

    @contextmanager
    def one(self) -> Iterator[Callable[[], None]]:
        """Wait for a place, and have it. What it answers gives the place back before the end: it is
        not waited for once more, so little should be left to be done by then."""
        self._free.acquire()
        lock, mine = threading.Lock(), [True]

        def give_back() -> None:
            with lock:
                if mine:
                    mine.clear()
                    self._free.release()

        try:
            yield give_back
        finally:
            give_back()
