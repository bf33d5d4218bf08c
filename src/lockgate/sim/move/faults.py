"""Swarm for a move's world: every seed draws its own mix of what goes wrong, and how often."""

from random import Random

from lockgate.model.moves import MoveSettings

__all__ = ["MoveFaults", "draw_settings"]


def draw_settings(rng: Random) -> MoveSettings:
    """All of it short, and by chance: no law may rest on it."""
    return MoveSettings(
        retry_ms=rng.choice((60, 150)),
        backoff_ms_min=rng.choice((30, 100)),
        backoff_ms_max=rng.choice((400, 1_000)),
        backoff_ms_held_up=rng.choice((60, 200)),
    )


class MoveFaults:
    """The rates of one world. Per event a probability; per world a mean interval in ms, or 0."""

    # The metastore, per record.
    failed: float
    unknown_landed: float
    unknown_lost: float
    unknown_later: float
    slow: float
    repeat: float
    # Steps.
    step_failed: float
    step_unknown: float
    """It is done, and nobody is told."""
    step_slow: float
    refused: float
    """Somebody has to act first."""
    hook_hangs: float
    hook_failed: float
    zombie: float
    """A step under way outlives its keeper."""
    # Feeds and writers.
    apply_slow: float
    apply_failed: float
    write_slow: float
    # The world, mean interval.
    crash_ms: int
    twin_ms: int
    """A successor begins while the former keeper is still there."""
    pause_ms: int
    away_ms: int
    """A server that does not answer for a while."""
    failover_ms: int
    """A feed gets another owner."""
    compare_ms: int
    """Somebody compares both sides, and holds a feed for it."""
    dead_ms: int
    """Nobody keeps the move for a long time."""
    lose_ms: int
    """A side that does not have the traffic is gone for ever."""
    lies: float
    """Per request that ends the move: a side is said to be lost, whether it is or not."""
    ask_ms: int

    __slots__ = (
        "apply_failed",
        "apply_slow",
        "ask_ms",
        "away_ms",
        "compare_ms",
        "count",
        "crash_ms",
        "dead_ms",
        "failed",
        "failover_ms",
        "hook_failed",
        "hook_hangs",
        "lies",
        "lose_ms",
        "pause_ms",
        "refused",
        "repeat",
        "slow",
        "step_failed",
        "step_slow",
        "step_unknown",
        "twin_ms",
        "unknown_landed",
        "unknown_later",
        "unknown_lost",
        "write_slow",
        "zombie",
    )

    def __init__(self, rng: Random) -> None:
        self.count = 0
        """Faults that happened."""

        def rate(on: float, *rates: float) -> float:
            chosen = rng.choice(rates)
            return chosen if rng.random() < on else 0.0

        def every(on: float, *intervals: int) -> int:
            chosen = rng.choice(intervals)
            return chosen if rng.random() < on else 0

        self.failed = rate(0.4, 0.02, 0.1)
        self.unknown_landed = rate(0.4, 0.03, 0.1)
        self.unknown_lost = rate(0.3, 0.03, 0.1)
        self.unknown_later = rate(0.3, 0.03, 0.1)
        self.slow = rate(0.4, 0.05, 0.15)
        self.repeat = rate(0.5, 0.05, 0.2)
        self.step_failed = rate(0.4, 0.02, 0.08)
        self.step_unknown = rate(0.5, 0.03, 0.1)
        self.step_slow = rate(0.4, 0.03, 0.1)
        self.refused = rate(0.4, 0.03, 0.1)
        self.hook_hangs = rate(0.3, 0.05, 0.2)
        self.hook_failed = rate(0.3, 0.05, 0.2)
        self.zombie = rate(0.8, 0.4, 0.9)
        self.apply_slow = rate(0.5, 0.03, 0.15)
        self.apply_failed = rate(0.3, 0.05, 0.2)
        self.write_slow = rate(0.4, 0.01, 0.05)
        self.crash_ms = every(0.6, 700, 2_500)
        self.twin_ms = every(0.35, 1_500, 4_000)
        self.pause_ms = every(0.35, 1_500, 4_000)
        self.away_ms = every(0.3, 2_000, 4_000)
        self.failover_ms = every(0.5, 400, 1_500)
        self.compare_ms = every(0.3, 500, 2_000)
        self.dead_ms = every(0.25, 3_000, 6_000)
        self.ask_ms = every(1.0, 150, 400, 800)
        self.lose_ms = every(0.2, 3_000, 6_000)
        self.lies = rate(0.4, 0.3, 0.7)

    def heal(self) -> None:
        """Nothing goes wrong any more, and nobody wants anything."""
        for name in self.__slots__:
            if name != "count":
                setattr(self, name, 0)
