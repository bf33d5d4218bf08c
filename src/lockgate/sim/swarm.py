"""Swarm: every seed draws its own mix of what goes wrong, and how often.

A world where everything fails all the time tests little: nothing gets far enough to break in
the middle. So each fault is on in some seeds and off in others, and each seed that has it
draws its own rate. `heal` turns all of it off.
"""

from random import Random


class Draw:
    """Draws from a seed's source of chance."""

    __slots__ = ("_rng",)

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def rate(self, on: float, *rates: float) -> float:
        """One of these probabilities, or 0: it is on in that share of all seeds."""
        chosen = self._rng.choice(rates)
        return chosen if self._rng.random() < on else 0.0

    def every(self, on: float, *intervals: int) -> int:
        """One of these mean intervals in ms, or 0."""
        chosen = self._rng.choice(intervals)
        return chosen if self._rng.random() < on else 0


class Swarm:
    """The rates of one world. Per event a probability; per world a mean interval in ms, or 0.

    A class below this one draws them when it is made, and has nothing else.
    """

    def __init__(self) -> None:
        self.count = 0
        """Faults that happened."""

    def heal(self) -> None:
        """Nothing goes wrong any more, and nobody wants anything."""
        for name in vars(self).keys() - {"count"}:
            setattr(self, name, 0)
