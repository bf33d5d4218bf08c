"""What the process itself uses, from the operating system, with no library for it."""

import resource
import sys
import threading
import time
from pathlib import Path
from typing import Final

__all__ = ["cpu_seconds", "resident_bytes", "threads"]

_STATM: Final = Path("/proc/self/statm")


def cpu_seconds() -> float:
    """Used since the process began, by all its threads."""
    return time.process_time()


def resident_bytes() -> float:
    """In memory now; where the system does not say so, the most that it ever was."""
    try:
        pages = int(_STATM.read_text("ascii").split()[1])
        return float(pages * resource.getpagesize())
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return float(most if sys.platform == "darwin" else most * 1024)


def threads() -> float:
    """Python's."""
    return float(threading.active_count())
