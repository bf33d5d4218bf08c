"""Feeds' endpoints and contexts, from what is written in the book."""

from collections.abc import Collection
from contextlib import AbstractContextManager

from lockgate.endpoints.postgres.check import same_database
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import LockgateError, ObjectMissing
from lockgate.model.feed_config import FeedConfig, config_from_json, is_url
from lockgate.model.ids import FeedId, TableId
from lockgate.model.secret import Secret
from lockgate.node.feed.context import FeedContext, SparkHandle
from lockgate.node.feed.ends import Ends, Url, parse_source, parse_url
from lockgate.node.feed.gates import Gate, opened_gate
from lockgate.node.service.forcing import GIVEN_UP, left_at_target
from lockgate.node.service.stores import Stores
from lockgate.node.telemetry.feed import FeedWatches
from lockgate.store.changelog import SegmentFiles
from lockgate.store.endpoints import EndpointEntry
from lockgate.store.feeds import FeedEntry, filled
from lockgate.store.moves import MoveEntry

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
        home: str,
        watches: FeedWatches | None = None,
    ) -> None:
        """`home` is the name of this installation, by which it is known at endpoints."""
        self.home = home
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
            self.home,
            self._watches.of(feed),
        )

    def gate(self, feed: FeedId) -> AbstractContextManager[Gate]:
        """The feed's fence at its target."""
        config = config_of(self.entry(feed))
        return opened_gate(self.ends(config).target, config, self.home)

    def give_up_target(self, feed: FeedId, error: LockgateError) -> bool:
        """Whether a removal by force goes on without a target, or a table of it, that answers like
        this. What stays there is in the book then."""
        entry = self.entry(feed)
        if not entry.removing or not entry.forced or not isinstance(error, GIVEN_UP):
            return False
        target = self.ends(config_of(entry)).target
        self._stores.feeds.leave(entry, left_at_target(entry, target, error))
        return True

    def ends(self, config: FeedConfig) -> Ends:
        """Where a feed goes from and to."""
        return self.between(config)[0]

    def between(self, config: FeedConfig) -> tuple[Ends, tuple[EndpointEntry, ...]]:
        """Where a feed goes from and to, and the endpoints' entries by which that was found."""
        source, target = self._endpoint(config.source), self._endpoint(config.target)
        ends = Ends(
            parse_source(config.source if source is None else source.url),
            parse_url(config.target if target is None else target.url),
        )
        return ends, tuple(each for each in (source, target) if each is not None)

    def address(self, written: Secret) -> Url:
        """Where an endpoint is that is no end of a feed: either may be a lake."""
        found = self._endpoint(written)
        return parse_url(written if found is None else found.url)

    def moves_at(self, place: Url, tables: Collection[TableId]) -> list[MoveEntry]:
        """Moves that are not over, have one of these tables, and have one of their ends there,
        whatever role and options their URLs name."""
        wanted = set(tables)
        moves = [entry for entry in self._stores.moves.all() if not entry.over]
        return [
            entry
            for entry in moves
            if not wanted.isdisjoint(entry.tables)
            and any(_leads_to(self.address(end), place) for end in _ends(entry))
        ]

    def feeds_at(
        self, place: Url, tables: Collection[TableId]
    ) -> list[tuple[FeedEntry, list[TableId]]]:
        """Feeds that end there in some of these tables, born or still to be set up, and in which;
        whatever role and options their URLs name."""
        found = [(entry, filled(entry, tables)) for entry in self._stores.feeds.all()]
        return [
            (entry, ends_in)
            for entry, ends_in in found
            if ends_in and _leads_to(self.address(config_of(entry).target), place)
        ]

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
                hint=f"add it: lockgate endpoint add {text} postgres://… or delta:/…",
            )
        return found


def _leads_to(end: Url, place: Url) -> bool:
    """Both are one database. Where one does not answer, only what is written can tell."""
    if end == place or not isinstance(end, PostgresUrl) or not isinstance(place, PostgresUrl):
        return end == place
    try:
        return same_database(end, place)
    except LockgateError:
        return False


def _ends(entry: MoveEntry) -> tuple[Secret, Secret]:
    return Secret(entry.config.source), Secret(entry.config.target)
