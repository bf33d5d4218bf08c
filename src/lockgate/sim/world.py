"""One simulated world: nodes, network, metastore, sink, sources, people, and one seed.

    safety phase     faults on, the sources grow, people do things; every law, all the time
    liveness phase   faults off, everybody up, the sources stand still; within a bounded time
                     everything must be done

One loop and one source of chance: `any_world`.
"""

from collections.abc import Iterator
from random import Random

from lockgate.model.ids import FeedId, NodeId
from lockgate.model.messages import Message
from lockgate.model.records import FeedRecord
from lockgate.sim import settings
from lockgate.sim.any_world import AnyWorld
from lockgate.sim.checkers import Checkers
from lockgate.sim.closer import Closer
from lockgate.sim.faults import Faults
from lockgate.sim.handover import Running
from lockgate.sim.healed import Healed
from lockgate.sim.ledger import Ledger
from lockgate.sim.metastore import SimMetastore
from lockgate.sim.mischief import Mischief
from lockgate.sim.network import Network
from lockgate.sim.node import SimNode
from lockgate.sim.observer import Observer
from lockgate.sim.people import People, feed_record
from lockgate.sim.probes import Probes
from lockgate.sim.sink import Sink
from lockgate.sim.source import Source
from lockgate.sim.story import Story
from lockgate.sim.violation import Law, LawBroken, about_feed, about_node
from lockgate.store.memory import MemoryMetastore

QUIET_MS = 2_000
MESSAGES_PER_S_MAX = 40
"""Of each node, in a world where nothing happens but some last balancing."""
GROW_MS = (100, 500)


class World(AnyWorld):
    """Builds a world from a seed and runs it."""

    faults_ms = 40_000
    heal_ms_max = 60_000
    heal_step_ms = 500
    faults: Faults
    probes: Probes

    def __init__(self, seed: int, story: Story | None = None) -> None:
        super().__init__(seed, story)
        rng = self.loop.rng
        self.config = settings.draw(rng)
        self.tick_ms = self.config.timing.tick_ms
        self.lease_ms = self.config.timing.lease_ms
        self.faults = Faults(rng)
        self.probes = Probes()
        self.ledger = Ledger()
        self.sources: dict[FeedId, Source] = {
            f"feed{index}": Source(
                Random(rng.random()), self.loop.between(5, 8), self.faults.ddl_share
            )
            for index in range(2)
        }
        self.sink = Sink(self.source_of, self.ledger, self.probes)
        if story is not None:
            story.listen(self.loop, self.sink)
        self.observer = Observer(self.probes, self.sink, self._store)
        self.checkers = Checkers(self.loop, self.sink, self.ledger, self.observer, self._running)
        self.metastore = SimMetastore(
            self.loop, self.faults, self.probes, self.checkers, self.lease_ms
        )
        self.network = Network(self.loop, self.faults, self.probes, self._deliver)
        self.closer = Closer(self.loop, self.faults, self.probes, self.sink)
        self.people = People(self)
        self.nodes: dict[NodeId, SimNode] = {}
        for index in range(rng.choice((4, 4, 5, 5, 6))):
            self.nodes[f"n{index}"] = SimNode(self, f"n{index}")
        self.twins: list[SimNode] = []
        """Processes whose node was started anew elsewhere."""
        self.hung: set[NodeId] = set()
        self.mischief = Mischief(self)

    def _store(self) -> MemoryMetastore:
        return self.metastore.store

    def replace(self, old: SimNode) -> None:
        """Start another process under the name of `old`, which lives on."""
        old.replaced = True
        self.twins.append(old)
        new = self.nodes[old.id] = SimNode(self, old.id)
        new.life = old.life
        new.boot()

    def _running(self) -> Iterator[tuple[NodeId, Running]]:
        for node in (*self.nodes.values(), *self.twins):
            yield node.id, node.executor.running

    def source_of(self, feed: FeedId) -> Source:
        """The log that a feed replicates."""
        return self.sources[feed]

    def feed_record(self, feed: FeedId) -> FeedRecord | None:
        """The feed as the coordinator's records have it."""
        return feed_record(self, feed)

    # --- running ----------------------------------------------------------------------------

    def run(self) -> None:
        """Both phases. Raises `LawBroken`."""
        loop = self.loop
        for node in self.nodes.values():
            late = loop.chance(0.1)
            loop.after(loop.between(5_000, 25_000) if late else loop.between(0, 1_500), node.boot)
        for feed, source in self.sources.items():
            source.grow(loop.between(0, 40))
            loop.after(loop.between(500, 3_000), self.people.create, feed)
            self._grow(feed)
        self.people.begin()
        self.mischief.begin()
        loop.run(self.faults_ms)
        self._heal()
        self._run_until_live()
        self._once_more()
        self._run_until_live()

    def _grow(self, feed: FeedId) -> None:
        if not self.healed:
            self.sources[feed].grow(self.loop.between(0, 9))
            self.loop.after(self.loop.between(*GROW_MS), self._grow, feed)

    def _heal(self) -> None:
        """Everything works from here on."""
        self.healed = True
        self.mischief.end()
        self.faults.heal()
        self.network.heal()
        self.metastore.down = self.sink.down = False
        self.metastore.cut.clear()
        for twin in self.twins:
            twin.crash()
        for node in self.nodes.values():
            node.fuse = 0
            node.boot()
            node.resume(node.life)
            node.wake(node.life)

    def _once_more(self) -> None:
        """Standing still could be dead: something new must get through, and without a storm."""
        sent = self.network.sent
        self.loop.run(self.loop.now + QUIET_MS)
        sent = self.network.sent - sent
        if sent * 1_000 > MESSAGES_PER_S_MAX * QUIET_MS * len(self.nodes):
            what = f"{sent} messages in {QUIET_MS} ms with nothing to do"
            raise LawBroken(Law.LIVENESS, what, tuple(map(about_feed, self.sources)))
        for source in self.sources.values():
            source.grow(10)
            source.append_ddl()
            source.grow(10)

    def _settle(self) -> None:
        self.people.settle()

    def _missing(self) -> str:
        return Healed(self).missing() or ""

    def _everybody(self) -> tuple[str, ...]:
        return (*map(about_feed, self.sources), *map(about_node, self.nodes))

    # --- what happens -----------------------------------------------------------------------

    def _deliver(self, to: NodeId, message: Message) -> None:
        for twin in self.twins:
            if twin.id == to and twin.up and self.loop.chance(0.3):
                twin.hear(message)
                return
        node = self.nodes.get(to)
        if node is not None:
            node.hear(message)

    @property
    def messages(self) -> int:
        """Sent from node to node."""
        return self.network.sent
