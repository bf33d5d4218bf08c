"""Somebody who is at work beside everything else: a thread as a context.

It begins where the context does, and is told to end and waited for where that ends. What breaks it
breaks nobody else: it is kept, and raised when the context ends well.
"""

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

import psycopg

__all__ = ["Background"]


class Background(ABC):
    """Works until it is stopped, or breaks."""

    def __init__(
        self, name: str, *, again_s: float | None = None, ends_s: float | None = None
    ) -> None:
        """With `again_s`, a server that is away breaks nothing: the work begins anew after that
        time. `ends_s`: how long it is waited for; for ever, unless told."""
        self._again_s = again_s
        self._ends_s = ends_s
        self._stopped = threading.Event()
        self._bug: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

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
        self._thread.join(self._ends_s)
        if error is None:
            self.check()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def check(self) -> None:
        """Raises what broke it."""
        if self._bug is not None:
            raise self._bug

    @abstractmethod
    def _work(self) -> None:
        """Until `_stopped` is set; called again when it returns before that."""

    def _broke(self, bug: BaseException) -> None:
        """For who tells of it otherwise."""
        self._bug = bug

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._attempt()
        except BaseException as bug:
            self._broke(bug)

    def _attempt(self) -> None:
        try:
            self._work()
        except psycopg.OperationalError:
            if self._again_s is None:
                raise
            self._stopped.wait(self._again_s)
