"""Swarm for the lake's world: every seed draws its own mix of what goes wrong, and how often."""

from random import Random

from lockgate.model.lake import LakeSettings

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


class LakeFaults:
    """The rates of one world. Per event a probability; per world a mean interval in ms, or 0."""

    # What is asked of the store and of the lake, per question.
    failed: float
    unknown_landed: float
    unknown_lost: float
    unknown_later: float
    slow: float
    repeat: float
    # Work.
    work_failed: float
    work_slow: float
    zombie: float
    """Work under way outlives its keeper."""
    held: float
    # The world, mean interval.
    crash_ms: int
    twin_ms: int
    """A successor begins while the former keeper is still there."""
    pause_ms: int
    broken_ms: int
    """A table that nothing can be done to for a while."""
    # What people and feeds do, mean interval.
    drain_ms: int
    drop_ms: int
    role_ms: int
    make_ms: int

    __slots__ = (
        "broken_ms",
        "count",
        "crash_ms",
        "drain_ms",
        "drop_ms",
        "failed",
        "held",
        "make_ms",
        "pause_ms",
        "repeat",
        "role_ms",
        "slow",
        "twin_ms",
        "unknown_landed",
        "unknown_later",
        "unknown_lost",
        "work_failed",
        "work_slow",
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

        self.failed = rate(0.5, 0.02, 0.1)
        self.unknown_landed = rate(0.5, 0.03, 0.1)
        self.unknown_lost = rate(0.5, 0.03, 0.1)
        self.unknown_later = rate(0.5, 0.03, 0.1)
        self.slow = rate(0.6, 0.05, 0.2)
        self.repeat = rate(0.6, 0.05, 0.2)
        self.work_failed = rate(0.4, 0.03, 0.15)
        self.work_slow = rate(0.6, 0.1, 0.3)
        self.zombie = rate(0.8, 0.4, 0.9)
        self.held = rate(0.4, 0.3)
        self.crash_ms = every(0.6, 1_500, 4_000)
        self.twin_ms = every(0.3, 4_000, 8_000)
        self.pause_ms = every(0.4, 2_000, 5_000)
        self.broken_ms = every(0.3, 2_000, 5_000)
        self.drain_ms = every(0.8, 200, 500)
        self.drop_ms = every(0.9, 250, 600)
        self.role_ms = every(0.85, 1_500, 3_500)
        self.make_ms = every(0.9, 400, 900)

    def heal(self) -> None:
        """Nothing goes wrong any more, and nobody wants anything."""
        for name in self.__slots__:
            if name != "count":
                setattr(self, name, 0)
