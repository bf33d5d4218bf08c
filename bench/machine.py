"""What the machine says of itself and of this process."""

import os
import platform
import resource
import sys
import time
from pathlib import Path

from bench.figures import Machine

KIB = 1024


def describe() -> Machine:
    """The machine of this process."""
    return Machine(
        cores=cores(),
        memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        platform=platform.platform(),
    )


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Others:
    """How many cores were busy with the work of others, from now on.

    That is all time the machine was busy less the time of this process and of its children that
    have ended. Unlike the load average it does not count the benchmark itself.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy, self._own = _busy_seconds(), _own_seconds()

    def cores(self) -> float | None:
        """The mean since the beginning; None where the system does not tell."""
        busy = _busy_seconds()
        if busy is None or self._busy is None:
            return None
        theirs = busy - self._busy - (_own_seconds() - self._own)
        return round(max(0.0, theirs) / (time.monotonic() - self._began), 2)


def _busy_seconds() -> float | None:
    """Of all cores since the machine started; stolen time is somebody's work too."""
    try:
        words = Path("/proc/stat").read_text("ascii").split(maxsplit=9)
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, words[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    usages = [resource.getrusage(kind) for kind in kinds]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def rss_peak_bytes() -> int:
    """The most memory this process ever had.

    Linux's VmHWM is of this program alone. `ru_maxrss` also counts what the parent had when it
    forked, so it is only the way out elsewhere.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text("ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * KIB
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * KIB
