"""What waits for a node's core: events in the order they came, and of what repeats only the newest.

A full heartbeat says everything again that the one before it said. When the core is slower than
they come, the older one that still waits is replaced where it stands: else they would pile up, and
answers about the lease behind them.
"""

import queue
import threading
from collections.abc import Hashable
from typing import Generic, TypeVar

from lockgate.model.messages import Heartbeat

__all__ = ["Intake"]

Item = TypeVar("Item")


class _Newest:
    """Stands in the queue for what came last under a key."""

    def __init__(self, key: Hashable) -> None:
        self.key = key


class Intake(Generic[Item]):
    """A queue for one reader; anybody may put."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Item | _Newest] = queue.SimpleQueue()
        self._newest: dict[Hashable, Item] = {}
        self._lock = threading.Lock()

    def put(self, item: Item) -> None:
        if not isinstance(item, Heartbeat) or not item.full:
            self._queue.put(item)
            return
        key = (item.feed, item.node)
        with self._lock:
            waits = key in self._newest
            self._newest[key] = item
        if not waits:
            self._queue.put(_Newest(key))

    def get(self, timeout_s: float) -> Item:
        """The next one. Raises queue.Empty when none comes in time."""
        item = self._queue.get(timeout=timeout_s)
        if isinstance(item, _Newest):
            with self._lock:
                return self._newest.pop(item.key)
        return item
