"""A node's telemetry in one hand: made before the node opens, asked at each scrape.

Each node has a registry of its own: several may live in one process, in tests.
"""

from prometheus_client import CollectorRegistry, generate_latest

from lockgate.node.telemetry.collector import NodeCollector, Sources
from lockgate.node.telemetry.feed import FeedWatches
from lockgate.node.telemetry.watch import ApiWatch, ProcessWatch

__all__ = ["Telemetry"]


class Telemetry:
    """Everything that watches one node."""

    def __init__(self, node: str) -> None:
        self._node = node
        self.feeds = FeedWatches(node)
        self.process = ProcessWatch(node, self.feeds)
        self.api = ApiWatch()
        self._registry = CollectorRegistry()
        self._collector: NodeCollector | None = None

    def look_at(self, sources: Sources) -> None:
        """From now on these are looked at."""
        self._collector = NodeCollector(self._node, self.feeds, self.process, self.api, sources)
        self._registry.register(self._collector)

    def text(self) -> bytes:
        """What is so now, in the text format of Prometheus."""
        return generate_latest(self._registry)

    def close(self) -> None:
        """Nobody asks any more."""
        if self._collector is not None:
            self._collector.close()
