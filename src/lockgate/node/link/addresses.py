"""Where nodes are: a cache over the metastore's list of them.

    known and young        ► the answer at hand
    known and old          ► read again; while somebody else reads, the answer at hand
    unknown                ► read again, but not more often than every `_PAUSE_S`
    the read failed        ► the answers at hand stay, for another `max_age_s`

A metastore that hangs must not take the links down with it: of all senders, one waits for the
read, once per `max_age_s`, and the others go on with what is known.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from lockgate.model.errors import LockgateError
from lockgate.model.ids import NodeId

__all__ = ["Addresses"]

_log = logging.getLogger("lockgate.link")

_PAUSE_S: Final = 0.2


class Addresses:
    """Callable: the URL of a node, or None. May block in `read`; from any thread."""

    def __init__(self, read: Callable[[], Mapping[NodeId, str]], max_age_s: float = 5.0) -> None:
        self._read = read
        self._max_age_s = max_age_s
        self._pause_s = min(_PAUSE_S, max_age_s)
        self._reading = threading.Lock()
        self._known: Mapping[NodeId, str] = {}
        self._read_at: float | None = None
        self._failing = False

    def __call__(self, node: NodeId) -> str | None:
        if node in self._known:
            if self._older_than(self._max_age_s) and self._reading.acquire(blocking=False):
                self._look(self._max_age_s)
        elif self._older_than(self._pause_s):
            self._reading.acquire()
            self._look(self._pause_s)
        return self._known.get(node)

    def _look(self, age_s: float) -> None:
        """Read, unless somebody else just did; gives the lock back."""
        try:
            if self._older_than(age_s):
                self._refresh()
        finally:
            self._reading.release()

    def _refresh(self) -> None:
        try:
            self._known = dict(self._read())
            self._failing = False
        except Exception as error:  # whatever it is, old answers are better than none
            if not self._failing:
                # A driver's own words may hold the metastore's URL; Lockgate's do not.
                why = error if isinstance(error, LockgateError) else type(error).__name__
                _log.warning("the addresses of nodes cannot be read; known ones are kept: %s", why)
            self._failing = True
        self._read_at = time.monotonic()

    def _older_than(self, age_s: float) -> bool:
        read_at = self._read_at
        return read_at is None or time.monotonic() - read_at >= age_s
