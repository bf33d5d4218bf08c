"""Swarm: every seed draws its own mix of what goes wrong, and how often.

A world where everything fails all the time tests little: nothing gets far enough to break in
the middle. So each fault is on in some seeds and off in others, and each seed that has it
draws its own rate. `heal` turns all of it off.
"""

from random import Random


class Faults:
    """The rates of one world. Per event a probability; per world a mean interval in ms, or 0."""

    # The network, per message.
    loss: float
    repeat: float
    repeat_late: float
    """Repeated much later, when the world has changed."""
    echo_ms: int
    """Mean interval at which some bootstrap of the past comes again."""
    slow: float
    # The metastore, per request.
    not_landed: float
    unknown_landed: float
    unknown_lost: float
    unknown_later: float
    load_failed: float
    late_question: float
    late_answer: float
    lease_failed: float
    # The sink and the executor, per transaction or step.
    sink_unknown: float
    sink_later: float
    sink_slow: float
    zombie: float
    """A task under way outlives its driver."""
    dispatcher_failed: float
    heat: float
    close_failed: float
    # Nodes and world, mean interval.
    crash_ms: int
    twin_ms: int
    """A second process of a node is started while the first one is still there."""
    pause_ms: int
    hang_ms: int
    partition_ms: int
    clock_jump_ms: int
    clock_back_ms: int
    """A node's clock is put back by an hour."""
    store_clock_jump_ms: int
    store_outage_ms: int
    store_cut_ms: int
    sink_outage_ms: int
    legacy_ms: int
    """An owner of epoch 0, from before there were epochs, tries its luck."""
    # People, mean interval.
    feed_verb_ms: int
    span_verb_ms: int
    drain_ms: int
    # How much there is to do.
    ddl_share: float
    until_share: float

    __slots__ = (
        "clock_back_ms",
        "clock_jump_ms",
        "close_failed",
        "count",
        "crash_ms",
        "ddl_share",
        "dispatcher_failed",
        "drain_ms",
        "echo_ms",
        "feed_verb_ms",
        "hang_ms",
        "heat",
        "late_answer",
        "late_question",
        "lease_failed",
        "legacy_ms",
        "load_failed",
        "loss",
        "not_landed",
        "partition_ms",
        "pause_ms",
        "repeat",
        "repeat_late",
        "sink_later",
        "sink_outage_ms",
        "sink_slow",
        "sink_unknown",
        "slow",
        "span_verb_ms",
        "store_clock_jump_ms",
        "store_cut_ms",
        "store_outage_ms",
        "twin_ms",
        "unknown_landed",
        "unknown_later",
        "unknown_lost",
        "until_share",
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

        self.loss = rate(0.6, 0.01, 0.05, 0.2)
        self.repeat = rate(0.5, 0.02, 0.1)
        self.repeat_late = rate(0.6, 0.02, 0.1)
        self.slow = rate(0.5, 0.02, 0.1)
        self.not_landed = rate(0.4, 0.02, 0.1)
        self.unknown_landed = rate(0.5, 0.02, 0.1)
        self.unknown_lost = rate(0.4, 0.02, 0.1)
        self.unknown_later = rate(0.5, 0.02, 0.1)
        self.load_failed = rate(0.3, 0.05, 0.3)
        self.late_question = rate(0.4, 0.02, 0.1)
        self.late_answer = rate(0.4, 0.02, 0.1)
        self.lease_failed = rate(0.4, 0.02, 0.1)
        self.sink_unknown = rate(0.4, 0.02, 0.08)
        self.sink_later = rate(0.5, 0.2, 0.5)
        self.sink_slow = rate(0.5, 0.02, 0.1)
        self.zombie = rate(0.7, 0.3, 0.9)
        self.dispatcher_failed = rate(0.25, 0.001, 0.01)
        self.heat = rate(0.7, 0.01, 0.03)
        self.close_failed = rate(0.4, 0.2, 0.5)
        self.crash_ms = every(0.7, 3_000, 6_000, 15_000)
        self.twin_ms = every(0.25, 8_000, 15_000)
        self.pause_ms = every(0.5, 5_000, 12_000)
        self.hang_ms = every(0.4, 8_000, 15_000)
        self.partition_ms = every(0.5, 5_000, 12_000)
        self.clock_jump_ms = every(0.3, 5_000, 12_000)
        self.clock_back_ms = every(0.25, 8_000, 20_000)
        self.store_clock_jump_ms = every(0.2, 12_000)
        self.store_outage_ms = every(0.2, 12_000)
        self.store_cut_ms = every(0.3, 6_000, 12_000)
        self.sink_outage_ms = every(0.3, 8_000, 15_000)
        self.legacy_ms = every(0.3, 3_000)
        self.feed_verb_ms = every(0.6, 4_000, 10_000)
        self.span_verb_ms = every(0.75, 250, 600, 2_000)
        self.echo_ms = every(0.4, 400, 1_500)
        self.drain_ms = every(0.35, 10_000, 20_000)
        self.ddl_share = rate(0.85, 0.005, 0.015, 0.04)
        self.until_share = rate(0.3, 0.1)

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        for name in self.__slots__:
            if name != "count":
                setattr(self, name, 0)
