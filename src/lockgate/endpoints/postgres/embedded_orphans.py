"""The processes that a server leaves behind whose parent was killed.

Each goes by itself when it sees that the parent is gone. One that waits for a lock which another
had when that went waits for ever, and for as long as it is there the server cannot be started
again. So they have a moment, and are ended then: as a machine that crashes ends all of them.
"""

import contextlib
import os
import select
import signal
import time
from pathlib import Path
from typing import Final

__all__ = ["Orphans"]

_MOMENT_S: Final = 5.0


class Orphans:
    """The children of a process that is about to be killed.

    They are held by handles and not by numbers, which may be others' by then. Whoever cannot be
    held so (it is Linux's, and a process has only so many) is left to himself.
    """

    def __init__(self, parent: int) -> None:
        self._handles: list[int] = []
        self._all = hasattr(os, "pidfd_open")
        for pid in _children(parent) if self._all else ():
            try:
                self._handles.append(os.pidfd_open(pid))
            except ProcessLookupError:
                continue
            except OSError:
                self._all = False

    def end(self, moment_s: float = _MOMENT_S) -> bool:
        """True: none of them is there any more."""
        deadline = time.monotonic() + moment_s
        for handle in self._handles:
            if not _is_gone(handle, max(0.0, deadline - time.monotonic())):
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                self._all &= _is_gone(handle, moment_s)
            os.close(handle)
        self._handles.clear()
        return self._all


def _children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            stat = (entry / "stat").read_text("utf-8", "replace")
            # The second field is a name in parentheses that may hold anything.
            if int(stat.rpartition(")")[2].split()[1]) == parent:
                found.append(int(entry.name))
    return found


def _is_gone(handle: int, within_s: float) -> bool:
    looking = select.poll()
    looking.register(handle, select.POLLIN)
    return bool(looking.poll(within_s * 1000))
