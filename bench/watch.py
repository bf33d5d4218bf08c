"""A stopwatch with named laps."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.figures import Figure


class Watch:
    """Adds up the seconds of each name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def lap(self, name: str) -> Iterator[None]:
        """The seconds of the block go to `name`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - began
            self.seconds[name] = self.seconds.get(name, 0.0) + spent

    def total(self) -> float:
        """All laps together."""
        return sum(self.seconds.values())

    def figures(self) -> tuple[Figure, ...]:
        """Each lap, in the order in which they first came."""
        return tuple(seconds(name, spent) for name, spent in self.seconds.items())


def seconds(name: str, value: float) -> Figure:
    """A figure in seconds, to the tenth of a millisecond: finer would be noise."""
    return Figure(name, round(value, 4), "s")
