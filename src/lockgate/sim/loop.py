"""The discrete-event loop: simulated time, and one heap of what happens when.

Two things due at one moment happen in the order in which they were asked for, so a run is a
function of its seed.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

from lockgate.model.ids import Millis

Action = Callable[..., None]


class Loop:
    """Simulated time and chance: the only sources of either in a simulated world."""

    __slots__ = ("_heap", "_order", "now", "rng")

    def __init__(self, seed: int) -> None:
        self.now: Millis = 0
        self.rng = Random(seed)
        self._heap: list[tuple[Millis, int, Action, tuple[Any, ...]]] = []
        self._order = 0

    def after(self, delay: int, action: Action, *args: Any) -> None:
        """Have `action(*args)` called this many milliseconds from now."""
        self._order += 1
        heappush(self._heap, (self.now + delay, self._order, action, args))

    def run(self, until: Millis) -> None:
        """Let everything happen that is due up to and including `until`."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, action, args = heappop(heap)
            action(*args)
        self.now = until

    def chance(self, probability: float) -> bool:
        """True as often as `probability` says. Nothing is drawn when it says never."""
        return probability > 0.0 and self.rng.random() < probability

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`."""
        return low + int(self.rng.random() * (high - low + 1))
