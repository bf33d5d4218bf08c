"""Waiting for one socket.

By `poll`, never by `select`: that one knows only the first 1,024 descriptors of a process, and a
node with many feeds has more.
"""

import select
from typing import Protocol


class HasFileno(Protocol):
    def fileno(self) -> int: ...


def readable(socket: int | HasFileno, timeout_s: float) -> bool:
    """True when something has come, an end of the connection included."""
    return bool(_wait(socket, select.POLLIN, timeout_s))


def wait_writable(socket: int | HasFileno, timeout_s: float | None) -> None:
    """Return when it takes bytes, or when it will never take any again."""
    _wait(socket, select.POLLOUT, timeout_s)


def wait_either(socket: int | HasFileno, timeout_s: float) -> bool:
    """Return when it takes bytes or has some; true when it has some."""
    return bool(_wait(socket, select.POLLIN | select.POLLOUT, timeout_s) & ~select.POLLOUT)


def _wait(socket: int | HasFileno, events: int, timeout_s: float | None) -> int:
    poll = select.poll()
    poll.register(socket, events)
    ready = poll.poll(None if timeout_s is None else round(timeout_s * 1000))
    return ready[0][1] if ready else 0
