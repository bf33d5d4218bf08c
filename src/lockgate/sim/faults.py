"""What goes wrong in the feeds' world, and how often."""

from random import Random

from lockgate.sim.swarm import Draw, Swarm


class Faults(Swarm):
    """The rates of one world."""

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

    def __init__(self, rng: Random) -> None:
        super().__init__()
        draw = Draw(rng)
        self.loss = draw.rate(0.6, 0.01, 0.05, 0.2)
        self.repeat = draw.rate(0.5, 0.02, 0.1)
        self.repeat_late = draw.rate(0.6, 0.02, 0.1)
        self.slow = draw.rate(0.5, 0.02, 0.1)
        self.not_landed = draw.rate(0.4, 0.02, 0.1)
        self.unknown_landed = draw.rate(0.5, 0.02, 0.1)
        self.unknown_lost = draw.rate(0.4, 0.02, 0.1)
        self.unknown_later = draw.rate(0.5, 0.02, 0.1)
        self.load_failed = draw.rate(0.3, 0.05, 0.3)
        self.late_question = draw.rate(0.4, 0.02, 0.1)
        self.late_answer = draw.rate(0.4, 0.02, 0.1)
        self.lease_failed = draw.rate(0.4, 0.02, 0.1)
        self.sink_unknown = draw.rate(0.4, 0.02, 0.08)
        self.sink_later = draw.rate(0.5, 0.2, 0.5)
        self.sink_slow = draw.rate(0.5, 0.02, 0.1)
        self.zombie = draw.rate(0.7, 0.3, 0.9)
        self.dispatcher_failed = draw.rate(0.25, 0.001, 0.01)
        self.heat = draw.rate(0.7, 0.01, 0.03)
        self.close_failed = draw.rate(0.4, 0.2, 0.5)
        self.crash_ms = draw.every(0.7, 3_000, 6_000, 15_000)
        self.twin_ms = draw.every(0.25, 8_000, 15_000)
        self.pause_ms = draw.every(0.5, 5_000, 12_000)
        self.hang_ms = draw.every(0.4, 8_000, 15_000)
        self.partition_ms = draw.every(0.5, 5_000, 12_000)
        self.clock_jump_ms = draw.every(0.3, 5_000, 12_000)
        self.clock_back_ms = draw.every(0.25, 8_000, 20_000)
        self.store_clock_jump_ms = draw.every(0.2, 12_000)
        self.store_outage_ms = draw.every(0.2, 12_000)
        self.store_cut_ms = draw.every(0.3, 6_000, 12_000)
        self.sink_outage_ms = draw.every(0.3, 8_000, 15_000)
        self.legacy_ms = draw.every(0.3, 3_000)
        self.feed_verb_ms = draw.every(0.6, 4_000, 10_000)
        self.span_verb_ms = draw.every(0.75, 250, 600, 2_000)
        self.echo_ms = draw.every(0.4, 400, 1_500)
        self.drain_ms = draw.every(0.35, 10_000, 20_000)
        self.ddl_share = draw.rate(0.85, 0.005, 0.015, 0.04)
        self.until_share = draw.rate(0.3, 0.1)
