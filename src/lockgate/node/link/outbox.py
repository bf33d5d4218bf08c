"""What waits for one peer, bounded in count and in bytes.

When there is no room, the oldest goes: the core repeats what had no effect, and what it says now
takes the place of what it said then. Nobody waits at either end of it but the peer's sender.
"""

import threading
import time
from collections import deque

from lockgate.model.value import Value
from lockgate.node.link.settings import LinkSettings

__all__ = ["Outbox", "Taken"]


class Taken(Value, frozen=True):
    """What the sender takes out at once."""

    messages: list[bytes]
    """In the order in which they were put in."""
    dropped: int
    """How many had to go for lack of room since the last time."""
    oversize: int
    """The size in bytes of one that no peer would take, if there was one since the last time."""


class Outbox:
    """A queue that forgets at its old end; from any thread."""

    def __init__(self, settings: LinkSettings) -> None:
        self._settings = settings
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._dropped = 0
        self._oversize = 0
        self._put_at = time.monotonic()
        self._closed = False

    def put(self, message: bytes) -> int:
        """Add at the new end; how many messages were dropped, perhaps this one."""
        limits = self._settings
        with self._changed:
            if self._closed:
                return 1
            self._put_at = time.monotonic()
            dropped = 0
            if len(message) > limits.message_bytes_max:
                dropped, self._oversize = 1, len(message)
            else:
                self._waiting.append(message)
                self._bytes += len(message)
                while len(self._waiting) > 1 and (
                    len(self._waiting) > limits.waiting_max
                    or self._bytes > limits.waiting_bytes_max
                ):
                    self._bytes -= len(self._waiting.popleft())
                    dropped += 1
            self._dropped += dropped
            self._changed.notify()
            return dropped

    def wait(self, timeout_s: float) -> bool:
        """Until there is something to take or to tell; False when there is not, in time."""
        with self._changed:
            self._changed.wait_for(self._news, timeout_s)
            return self._news() and not self._closed

    def take(self) -> Taken:
        """The oldest messages, as many as travel together."""
        with self._changed:
            messages: list[bytes] = []
            size = 0
            while self._waiting:
                size += len(self._waiting[0])
                if messages and size > self._settings.batch_bytes_max:
                    break
                messages.append(self._waiting.popleft())
            self._bytes -= sum(map(len, messages))
            taken = Taken(messages, self._dropped, self._oversize)
            self._dropped = self._oversize = 0
            return taken

    def quiet_s(self) -> float:
        """For how long nothing was put in."""
        with self._changed:
            return time.monotonic() - self._put_at

    def clear(self) -> int:
        """Forget everything; how many messages that were."""
        with self._changed:
            cleared = len(self._waiting)
            self._waiting.clear()
            self._bytes = 0
            return cleared

    def close(self) -> int:
        """Take nothing more, wake the sender; how many messages are forgotten."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        return self.clear()

    def _news(self) -> bool:
        return bool(self._waiting or self._dropped or self._closed)
