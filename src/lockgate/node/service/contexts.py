"""Feeds' endpoints and contexts, from what is written in the book."""

from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import LockgateError, ObjectMissing
from lockgate.model.feed_config import FeedConfig, config_from_json, is_url
from lockgate.model.ids import FeedId
from lockgate.model.secret import Secret
from lockgate.node.feed.context import FeedContext, SparkHandle
from lockgate.node.feed.setup import Ends
from lockgate.node.service.forcing import GONE, left_at_target
from lockgate.node.service.stores import Stores
from lockgate.node.telemetry.feed import FeedWatches
from lockgate.store.changelog import SegmentFiles
from lockgate.store.endpoints import EndpointEntry
from lockgate.store.feeds import FeedEntry

__all__ = ["Contexts", "config_of"]


def config_of(entry: FeedEntry) -> FeedConfig:
    """What the feed was asked to be."""
    return config_from_json(bytes(entry.config))


class Contexts:
    """How this node gets at a feed. Every call reads the book: passwords and places may change."""

    def __init__(
        self,
        stores: Stores,
        files: SegmentFiles,
        spark: SparkHandle,
        watches: FeedWatches | None = None,
    ) -> None:
        self._stores = stores
        self._watches = watches or FeedWatches("")
        self._files = files
        self._spark = spark

    def entry(self, feed: FeedId) -> FeedEntry:
        """The feed's entry. Raises ObjectMissing when there is none."""
        entry = self._stores.feeds.read(feed)
        if entry is None:
            raise ObjectMissing(
                "the feed is not in the book",
                object_=feed,
                hint="it was removed; create it anew",
            )
        return entry

    def open(self, feed: FeedId) -> FeedContext:
        """All that an engine of this feed works with."""
        entry = self.entry(feed)
        ends = self.ends(config_of(entry))
        stores = self._stores
        return FeedContext(
            entry,
            stores.feeds,
            stores.changelog,
            self._files,
            self._spark,
            ends,
            self._watches.of(feed),
        )

    def sink(self, feed: FeedId) -> PostgresSink:
        """The feed's fence at its target, to be used in a `with`."""
        return PostgresSink(self.ends(config_of(self.entry(feed))).target)

    def give_up_target(self, feed: FeedId, error: LockgateError) -> bool:
        """Whether a removal by force goes on without a target that answers like this. What stays
        there is in the book then."""
        entry = self.entry(feed)
        if not entry.removing or not entry.forced or not isinstance(error, GONE):
            return False
        self._stores.feeds.leave(entry, left_at_target(entry, self.ends(config_of(entry)).target))
        return True

    def ends(self, config: FeedConfig) -> Ends:
        """Where a feed goes from and to."""
        return self.between(config)[0]

    def between(self, config: FeedConfig) -> tuple[Ends, tuple[EndpointEntry, ...]]:
        """Where a feed goes from and to, and the endpoints' entries by which that was found."""
        source, target = self._endpoint(config.source), self._endpoint(config.target)
        ends = Ends(
            PostgresUrl.parse(config.source if source is None else source.url),
            PostgresUrl.parse(config.target if target is None else target.url),
        )
        return ends, tuple(each for each in (source, target) if each is not None)

    def _endpoint(self, written: Secret) -> EndpointEntry | None:
        """The endpoint of this name; None for a URL."""
        if is_url(written):
            return None
        text = written.reveal()
        found = self._stores.endpoints.read(text)
        if found is None:
            raise ObjectMissing(
                "there is no endpoint of this name",
                object_=text,
                hint=f"add it: lockgate endpoint add {text} postgres://…",
            )
        return found
