"""What goes wrong in a move's world, and how often."""

from random import Random

from lockgate.model.moves import MoveSettings
from lockgate.sim.keeping import KeeperFaults
from lockgate.sim.swarm import Draw

__all__ = ["MoveFaults", "draw_settings"]


def draw_settings(rng: Random) -> MoveSettings:
    """All of it short, and by chance: no law may rest on it."""
    return MoveSettings(
        retry_ms=rng.choice((60, 150)),
        backoff_ms_min=rng.choice((30, 100)),
        backoff_ms_max=rng.choice((400, 1_000)),
        backoff_ms_held_up=rng.choice((60, 200)),
    )


class MoveFaults(KeeperFaults):
    """The rates of one world."""

    # Steps.
    step_failed: float
    step_unknown: float
    """It is done, and nobody is told."""
    step_slow: float
    refused: float
    """Somebody has to act first."""
    hook_hangs: float
    hook_failed: float
    # Feeds and writers.
    apply_slow: float
    apply_failed: float
    hold_slow: float
    """Who is inside at the sink is waited for."""
    write_slow: float
    # The world, mean interval.
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

    def __init__(self, rng: Random) -> None:
        super().__init__()
        draw = Draw(rng)
        self.failed = draw.rate(0.4, 0.02, 0.1)
        self.unknown_landed = draw.rate(0.4, 0.03, 0.1)
        self.unknown_lost = draw.rate(0.3, 0.03, 0.1)
        self.unknown_later = draw.rate(0.3, 0.03, 0.1)
        self.slow = draw.rate(0.4, 0.05, 0.15)
        self.repeat = draw.rate(0.5, 0.05, 0.2)
        self.step_failed = draw.rate(0.4, 0.02, 0.08)
        self.step_unknown = draw.rate(0.5, 0.03, 0.1)
        self.step_slow = draw.rate(0.4, 0.03, 0.1)
        self.refused = draw.rate(0.4, 0.03, 0.1)
        self.hook_hangs = draw.rate(0.3, 0.05, 0.2)
        self.hook_failed = draw.rate(0.3, 0.05, 0.2)
        self.zombie = draw.rate(0.8, 0.4, 0.9)
        self.apply_slow = draw.rate(0.5, 0.03, 0.15)
        self.apply_failed = draw.rate(0.3, 0.05, 0.2)
        self.hold_slow = draw.rate(0.4, 0.1, 0.6)
        self.write_slow = draw.rate(0.4, 0.01, 0.05)
        self.crash_ms = draw.every(0.6, 700, 2_500)
        self.twin_ms = draw.every(0.35, 1_500, 4_000)
        self.pause_ms = draw.every(0.35, 1_500, 4_000)
        self.away_ms = draw.every(0.3, 2_000, 4_000)
        self.failover_ms = draw.every(0.5, 400, 1_500)
        self.compare_ms = draw.every(0.3, 500, 2_000)
        self.dead_ms = draw.every(0.25, 3_000, 6_000)
        self.ask_ms = draw.every(1.0, 150, 400, 800)
        self.lose_ms = draw.every(0.2, 3_000, 6_000)
        self.lies = draw.rate(0.4, 0.3, 0.7)
