"""What goes wrong in a world by itself: crashes, pauses, partitions, clocks, people, ghosts.

Each kind comes at random intervals around the mean that the seed has drawn for it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from lockgate.model.ids import NodeId, NodeRef, Token
from lockgate.model.messages import Bootstrap, Requests
from lockgate.model.records import SpanRecord, feed_scope
from lockgate.model.requests import Create
from lockgate.sim.node import SimNode
from lockgate.sim.probes import Probe

if TYPE_CHECKING:
    from lockgate.sim.world import World

LEGACY = NodeRef("legacy", 1)
"""An owner from before there were epochs."""

DOWN_MS = (100, 8_000)
GONE_MS = (20_000, 60_000)
PAUSE_MS = (300, 9_000)
HANG_MS = (1_000, 12_000)
PARTITION_MS = (500, 9_000)
OUTAGE_MS = (500, 6_000)
HOUR_MS = 3_600_000


class Mischief:
    """Makes things go wrong until the world is healed."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._loop = world.loop
        self._over = False

    def begin(self) -> None:
        """Start everything that the seed has drawn."""
        faults, people = self._world.faults, self._world.people
        self._every(faults.crash_ms, self._crash)
        self._every(faults.twin_ms, self._twin)
        self._every(faults.pause_ms, self._pause)
        self._every(faults.hang_ms, self._hang)
        self._every(faults.partition_ms, self._partition)
        self._every(faults.echo_ms, self._world.network.echo)
        self._every(faults.clock_jump_ms, self._jump)
        self._every(faults.clock_back_ms, self._put_back)
        self._every(faults.store_clock_jump_ms, self._jump_store)
        self._every(faults.store_outage_ms, self._outage)
        self._every(faults.store_cut_ms, self._cut_off)
        self._every(faults.sink_outage_ms, self._lose_sink)
        self._every(faults.legacy_ms, self._haunt)
        self._every(faults.feed_verb_ms, people.change_some_feed)
        self._every(faults.span_verb_ms, people.change_some_span)
        self._every(faults.drain_ms, people.drain)

    def end(self) -> None:
        """No more."""
        self._over = True

    def _every(self, mean_ms: int, action: Callable[[], None]) -> None:
        if mean_ms:
            delay = int(self._loop.rng.expovariate(1.0 / mean_ms)) + 1
            self._loop.after(delay, self._again, mean_ms, action)

    def _again(self, mean_ms: int, action: Callable[[], None]) -> None:
        if not self._over:
            action()
            self._every(mean_ms, action)

    # --- nodes ------------------------------------------------------------------------------

    def _some_node(self) -> SimNode:
        """Any node; more often than not one that matters."""
        world, rng = self._world, self._loop.rng
        important: list[NodeId] = []
        if world.metastore.store.leader is not None:
            important.append(world.metastore.store.leader.ref.node)
        for feed in world.sources:
            record = world.feed_record(feed)
            if record is not None and record.owner is not None:
                important.append(record.owner.node)
        if important and rng.random() < 0.5:
            return world.nodes[rng.choice(important)]
        return world.nodes[rng.choice(list(world.nodes))]

    def _crash(self) -> None:
        """Mostly one node; sometimes several at once, as when a rack loses power."""
        self._light_fuse(self._some_node())
        if self._loop.chance(0.15):
            for node in self._world.nodes.values():
                if self._loop.chance(0.6):
                    self._light_fuse(node)

    def _light_fuse(self, node: SimNode) -> None:
        """The node dies a few instructions from now, wherever that is."""
        if node.up and not node.fuse:
            node.fuse = self._loop.between(1, 30)
            node.fuse_pause_ms = 0
            self._loop.after(self._loop.between(50, 600), self._down, node, node.life)

    def _down(self, node: SimNode, life: int) -> None:
        """It is down by now, at the latest; up again after a while."""
        if node.life == life and not self._over:
            node.crash()
            gone = self._loop.chance(0.1)
            self._loop.after(self._loop.between(*(GONE_MS if gone else DOWN_MS)), node.boot)

    def _twin(self) -> None:
        """Somebody starts a node anew elsewhere, although its old process still lives."""
        old = self._some_node()
        if not old.up:
            return
        self._world.faults.count += 1
        self._world.probes.hit(Probe.TWO_PROCESSES)
        self._world.note(old.id, "gets a second process", "")
        old.fuse = 0
        if self._loop.chance(0.7):
            old.pause(self._loop.between(*PAUSE_MS))
        self._world.replace(old)
        self._loop.after(self._loop.between(2_000, 15_000), old.crash)

    def _pause(self) -> None:
        """Here and now, or in the middle of something."""
        node = self._some_node()
        duration = self._loop.between(*PAUSE_MS)
        if node.fuse or self._loop.chance(0.5):
            node.pause(duration)
        elif node.up:
            node.fuse = self._loop.between(1, 20)
            node.fuse_pause_ms = duration

    def _hang(self) -> None:
        self._some_node().hang(self._loop.between(*HANG_MS))

    def _partition(self) -> None:
        """Cut some nodes off from the others, both ways or one way."""
        rng = self._loop.rng
        names = list(self._world.nodes)
        some = rng.sample(names, self._loop.between(1, len(names) - 1))
        others = [name for name in names if name not in some]
        links = [(left, right) for left in some for right in others]
        if rng.random() < 0.6:
            links += [(right, left) for left, right in links]
        self._world.note("network", "cuts", str(links))
        self._world.network.partition(links, self._loop.between(*PARTITION_MS))

    def _jump(self) -> None:
        """A node's clock jumps, forth or back."""
        node = self._some_node()
        by = self._loop.between(-5_000, 8_000)
        self._world.faults.count += 1
        self._world.note(node.id, "clock jumps", by)
        node.offset += by

    def _put_back(self) -> None:
        """A node's clock is put back by an hour: whoever waits for a time must not wait so long."""
        node = self._some_node()
        self._world.faults.count += 1
        self._world.note(node.id, "clock is put back", HOUR_MS)
        if node.up:
            self._world.probes.hit(Probe.CLOCK_PUT_BACK)
        node.offset -= HOUR_MS

    # --- the metastore ----------------------------------------------------------------------

    def _jump_store(self) -> None:
        by = self._loop.between(-3_000, 6_000)
        self._world.faults.count += 1
        self._world.note("metastore", "clock jumps", by)
        self._world.metastore.clock_offset += by

    def _outage(self) -> None:
        self._world.faults.count += 1
        self._world.note("metastore", "is down", "")
        self._world.metastore.down = True
        self._loop.after(self._loop.between(*OUTAGE_MS), self._outage_over)

    def _outage_over(self) -> None:
        self._world.metastore.down = False

    def _cut_off(self) -> None:
        """One node alone cannot reach the metastore; the others hear it as before."""
        node = self._some_node().id
        self._world.faults.count += 1
        self._world.probes.hit(Probe.METASTORE_CUT_OFF)
        self._world.note(node, "is cut off from the metastore", "")
        self._world.metastore.cut.add(node)
        self._loop.after(self._loop.between(*OUTAGE_MS), self._world.metastore.cut.discard, node)

    # --- the sink ---------------------------------------------------------------------------

    def _lose_sink(self) -> None:
        """Nobody reaches the sink for a while."""
        self._world.faults.count += 1
        self._world.note("sink", "is down", "")
        self._world.sink.down = True
        self._loop.after(self._loop.between(*OUTAGE_MS), self._sink_back)

    def _sink_back(self) -> None:
        self._world.sink.down = False

    # --- ghosts -----------------------------------------------------------------------------

    def _haunt(self) -> None:
        """An unfenced owner bootstraps and asks for a dispatcher of a span that exists."""
        world, rng = self._world, self._loop.rng
        feed = rng.choice(list(world.sources))
        node = self._some_node()
        incarnation = world.checkers.durable.incarnations.get(node.id)
        if incarnation is None:
            return
        world.faults.count += 1
        items = [
            Create(record.span, Token(0, self._loop.between(1, 99), incarnation))
            for record in world.metastore.store.records(feed_scope(feed)).values()
            if isinstance(record, SpanRecord)
        ]
        self._loop.after(1, node.hear, Bootstrap(feed, 0, LEGACY))
        if items:
            request = Requests(feed, 0, LEGACY, incarnation, (rng.choice(items),))
            self._loop.after(self._loop.between(50, 1_500), node.hear, request)
