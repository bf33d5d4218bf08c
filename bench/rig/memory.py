"""The memory of this process and of its descendants, sampled from a process of its own.

    python -m bench.rig.memory ROOT INTERVAL FILE          one line of JSON per sample

A sample is the memory of each kind of process: the driver (the root itself), Spark's Python
processes, Java. It is PSS, of `smaps_rollup`: a page that several processes share counts once in
the sum, while RSS would count it in each of the forked Python workers. Servers and helpers of the
benchmark are not counted. A process of its own, because a thread would wait for the very work that
it is to watch.
"""

import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec
import numpy as np

from bench.rig.processes import DRIVER, JAVA, WORKERS, descendants, kind_of

KIB: Final = 1024
MIB: Final = 2**20
PYTHON: Final = "python"
"""Driver and workers together."""
KINDS: Final = (DRIVER, WORKERS, PYTHON, JAVA)


class Sample(msgspec.Struct, frozen=True):
    """Bytes at one moment."""

    at: float
    """Seconds on the monotonic clock, which all processes share."""
    driver: int = 0
    workers: int = 0
    java: int = 0

    @property
    def python(self) -> int:
        """All Python processes."""
        return self.driver + self.workers

    def of(self, kind: str) -> int:
        """The bytes of one of the kinds."""
        value: int = getattr(self, kind)
        return value


class Memory:
    """Samples taken while the `with` block lasts, of this process and what it starts."""

    def __init__(self, directory: Path, interval_s: float = 0.1) -> None:
        self._file = directory / "memory.jsonl"
        self._interval_s = interval_s
        self.samples: list[Sample] = []

    def __enter__(self) -> Self:
        words = [str(os.getpid()), str(self._interval_s), str(self._file)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.rig.memory", *words], cwd=Path(__file__).parents[2]
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait()
        lines = self._file.read_bytes().splitlines() if self._file.exists() else []
        # The last line may have been cut off.
        with contextlib.suppress(msgspec.DecodeError):
            self.samples.extend(msgspec.json.decode(line, type=Sample) for line in lines)


def peak(samples: Sequence[Sample], kind: str) -> int:
    """The most that one kind of process had, in bytes."""
    return max((sample.of(kind) for sample in samples), default=0)


def growth(samples: Sequence[Sample], kind: str) -> float:
    """Bytes per minute, by a straight line through the second half of the samples."""
    half = samples[len(samples) // 2 :]
    if len(half) < 2:
        return 0.0
    minutes = np.array([sample.at for sample in half]) / 60
    values = np.array([sample.of(kind) for sample in half], dtype=float)
    return float(np.polyfit(minutes - minutes[0], values, 1)[0])


def longest_gap(samples: Sequence[Sample]) -> float:
    """The seconds in which a peak could hide."""
    times = [sample.at for sample in samples]
    return max((late - early for early, late in itertools.pairwise(times)), default=0.0)


# --- the sampling process -------------------------------------------------------------------------


def take(root: int, at: float) -> Sample:
    """One sample of a process and its descendants."""
    sums = {DRIVER: _pss(root), WORKERS: 0, JAVA: 0}
    for pid in descendants(root):
        kind = kind_of(pid)
        if kind is not None:
            sums[kind] += _pss(pid)
    return Sample(at, **sums)


def _pss(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * KIB
    return 0  # it has ended


def main(root: int, interval_s: float, file: Path) -> None:
    """Sample until somebody ends us, or the root is gone."""
    with file.open("wb", buffering=0) as out:
        due = time.monotonic()
        while os.getppid() == root:
            out.write(msgspec.json.encode(take(root, due)) + b"\n")
            due = max(due + interval_s, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3]))
