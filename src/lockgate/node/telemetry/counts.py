"""Counts that many threads add to: cheap to add, taken whole when somebody looks."""

import threading
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, TypeVar

__all__ = ["CALL_SECONDS", "ROUND_SECONDS", "Histogram", "Seen", "Tally"]

CALL_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""For what should take milliseconds."""
ROUND_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""For what takes a job of Spark."""

K = TypeVar("K")


class Tally(Generic[K]):
    """Counts by key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[K, float] = {}

    def add(self, key: K, count: float = 1) -> None:
        """So many more."""
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + count

    def snapshot(self) -> dict[K, float]:
        """All of them at one moment."""
        with self._lock:
            return dict(self._counts)


class Seen(NamedTuple):
    """A histogram at one moment."""

    buckets: list[tuple[str, float]]
    """Upper bounds as Prometheus writes them, each with how many were not above it."""
    sum: float


class Histogram:
    """How long things took."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._lock = threading.Lock()
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """One more."""
        at = bisect_left(self._bounds, value)
        with self._lock:
            self._counts[at] += 1
            self._sum += value

    def snapshot(self) -> Seen:
        """All of them at one moment."""
        with self._lock:
            counts, total = list(self._counts), self._sum
        buckets: list[tuple[str, float]] = []
        below = 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), counts, strict=True):
            below += count
            buckets.append((bound, below))
        return Seen(buckets, total)
