"""What goes wrong in the lake's world, and how often."""

from random import Random

from lockgate.model.lake import LakeSettings
from lockgate.sim.keeping import KeeperFaults
from lockgate.sim.swarm import Draw

__all__ = ["LakeFaults", "draw_settings"]


def draw_settings(rng: Random) -> LakeSettings:
    """All of it short and small, and by chance: no law may rest on it."""
    return LakeSettings(
        workers=rng.choice((1, 2, 2, 3)),
        claimers=rng.choice((1, 2, 4)),
        drain_rows=rng.choice((5, 20)),
        drain_bytes=10_000,
        drain_ms=rng.choice((800, 1_500, 3_000)),
        share_rows_min=10,
        compact_files=rng.choice((2, 4)),
        vacuum_ms=rng.choice((2_000, 5_000)),
        retention_ms=rng.choice((0, 300, 1_500)),
        held_ms=400,
        survey_ms=rng.choice((500, 900, 1_500)),
        survey_wait_ms=5_000,
        retry_ms=rng.choice((200, 400)),
        backoff_ms_min=300,
        backoff_ms_max=1_200,
    )


class LakeFaults(KeeperFaults):
    """The rates of one world."""

    # Work.
    work_failed: float
    work_slow: float
    held: float
    # The world, mean interval.
    broken_ms: int
    """A table that nothing can be done to for a while."""
    # What people and feeds do, mean interval.
    drain_ms: int
    drop_ms: int
    role_ms: int
    make_ms: int

    def __init__(self, rng: Random) -> None:
        super().__init__()
        draw = Draw(rng)
        self.failed = draw.rate(0.5, 0.02, 0.1)
        self.unknown_landed = draw.rate(0.5, 0.03, 0.1)
        self.unknown_lost = draw.rate(0.5, 0.03, 0.1)
        self.unknown_later = draw.rate(0.5, 0.03, 0.1)
        self.slow = draw.rate(0.6, 0.05, 0.2)
        self.repeat = draw.rate(0.6, 0.05, 0.2)
        self.work_failed = draw.rate(0.4, 0.03, 0.15)
        self.work_slow = draw.rate(0.6, 0.1, 0.3)
        self.zombie = draw.rate(0.8, 0.4, 0.9)
        self.held = draw.rate(0.4, 0.3)
        self.crash_ms = draw.every(0.6, 1_500, 4_000)
        self.twin_ms = draw.every(0.3, 4_000, 8_000)
        self.pause_ms = draw.every(0.4, 2_000, 5_000)
        self.broken_ms = draw.every(0.3, 2_000, 5_000)
        self.drain_ms = draw.every(0.8, 200, 500)
        self.drop_ms = draw.every(0.9, 250, 600)
        self.role_ms = draw.every(0.85, 1_500, 3_500)
        self.make_ms = draw.every(0.9, 400, 900)
