"""The feeds of a move: ordinary ones, in the book of feeds, that go by the move's commands.

They are set up, run and removed by those who do that for every feed: the feeds' keeper, which is on
the same node, and the coordinator. What is asked of them here is fenced by the number of the move's
keeper wherever it is written: nobody enters or removes a feed for a keeper that is over. Pausing
is asked of the coordinator, which knows of births and not of moves: whoever slept stops no feed of
a later move, but may stop a later keeper's of the same one. So what has to stay where it is, is
held at the sink (`holding`), and paused only when it is to be removed.

People cannot call a feed as a move's is called. One of theirs may bear such a name all the same, of
a time when they could: to a move it is not there, but for the name, which is taken.
"""

from collections.abc import Callable
from typing import Final

import msgspec
import sqlalchemy as sa

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.source import heartbeat
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import Conflict, EndpointRefused, ObjectMissing, Transient
from lockgate.model.events import PauseFeed, ResumeFeed
from lockgate.model.feed_config import FeedConfig
from lockgate.model.feed_status import FeedStatus
from lockgate.model.feeds import FeedState
from lockgate.model.findings import Finding
from lockgate.model.ids import SEQ_MAX, FeedId, Token
from lockgate.model.positions import Position
from lockgate.model.records import FeedRecord
from lockgate.model.secret import Secret
from lockgate.model.tables import TableName, parse_table
from lockgate.node.feed import setup
from lockgate.node.feed.running import HINT
from lockgate.node.service.cluster import Cluster
from lockgate.node.service.contexts import Contexts, config_of
from lockgate.node.service.forcing import LEFT, SEPARATOR
from lockgate.node.service.keeper import Keeper
from lockgate.node.service.planning import obstacles
from lockgate.node.service.stores import Stores
from lockgate.store.endpoints import unchanged
from lockgate.store.feeds import FeedEntry
from lockgate.store.moves import MoveEntry, kept_by

__all__ = ["BROKEN_OFF", "MoveFeeds", "feed_config", "refuse_if_taken"]

HISTORY_LOOK: Final = 20
"""Entries about a feed since its removal began: there are two."""
BROKEN_OFF: Final = "its set-up was broken off, because the move is cancelled"
FLUSH_MS: Final = 50
"""Changes of a move's feed wait for others no longer than this: people wait for the last of them
while writes are blocked."""


def feed_config(
    entry: MoveEntry, feed: FeedId, source: str, target: str, *, copy: bool
) -> FeedConfig:
    """A feed between the two sides, of exactly the tables that are moved."""
    return FeedConfig(
        name=feed,
        source=Secret(source),
        target=Secret(target),
        tables=tuple(_pattern(parse_table(each)) for each in entry.tables),
        copy=copy,
        defer_indexes=entry.config.defer_indexes,
        flush_interval_ms=FLUSH_MS,
    )


def refuse_if_taken(found: FeedEntry | None) -> None:
    """Raise Conflict when what has the name that a move needs is a feed of people's."""
    if found is not None and not found.move:
        raise Conflict(
            "a feed of this name exists, and is not the move's",
            object_=found.feed,
            hint="remove that feed, and create it under another name; or give the move one",
        )


def _pattern(table: TableName) -> str:
    """One that matches this table and nothing else."""
    schema, name = (part.replace('"', '""') for part in (table.schema, table.name))
    return f'"{schema}"."{name}"'


class MoveFeeds:
    """What moves ask of feeds. On the coordinator's node."""

    def __init__(
        self,
        stores: Stores,
        contexts: Contexts,
        cluster: Cluster,
        keeper: Keeper,
        home: str,
        status: Callable[[FeedId], FeedStatus],
    ) -> None:
        """`status` is what people are told of a feed."""
        self._stores = stores
        self._status = status
        self._contexts = contexts
        self._cluster = cluster
        self._keeper = keeper
        self._home = home

    # --- looking ----------------------------------------------------------------------------------

    def entry(self, feed: FeedId) -> FeedEntry | None:
        """A move's feed. By its name it is known which one's: no move's has the mark in it."""
        found = self._stores.feeds.read(feed)
        return found if found is not None and found.move else None

    def refuse_if_taken(self, feed: FeedId) -> None:
        """Raise Conflict when a feed of people's has this name, which the move needs."""
        refuse_if_taken(self._stores.feeds.read(feed))

    def require_newest(self, move: MoveEntry, keeper: int) -> None:
        """Raises StaleOwner when a later keeper works for the move, or it is gone."""
        self._stores.moves.require_newest(move.move, move.birth, keeper)

    def publications(self, *feeds: FeedId) -> list[str]:
        """What carries their tables at their sources."""
        found = [self.entry(feed) for feed in feeds if feed]
        return [entry.publication for entry in found if entry is not None]

    def record(self, feed: FeedId) -> FeedRecord | None:
        """As the coordinator has it; None too for one that is removed."""
        found = self._cluster.records().get(feed)
        return None if found is None or found.state is FeedState.REMOVED else found

    def is_set_up(self, feed: FeedId) -> bool:
        """Slot, publication and fence are there. Raises what keeps them from being so."""
        entry = self.entry(feed)
        if entry is None:
            raise ObjectMissing(
                "the feed of the move is gone", object_=feed, hint="cancel the move, create it anew"
            )
        if entry.error:
            what, _, hint = entry.error.partition(HINT)
            raise EndpointRefused(what, object_=feed, hint=hint or "mend it, then ask again")
        worry = self._keeper.worries().get(feed)
        if entry.start is None and worry is not None:
            raise Transient(worry.what, object_=feed, hint=worry.hint)
        return entry.start is not None

    def is_made(self, feed: FeedId) -> bool:
        """It is set up, and the coordinator knows it."""
        return self.is_set_up(feed) and self.record(feed) is not None

    def trouble(self, feed: FeedId) -> str:
        """Why the feed does not run; empty when it does."""
        entry, record = self.entry(feed), self.record(feed)
        if entry is None or record is None or entry.start is None:
            return "the feed is still being set up"
        if entry.removing:
            return "the feed is being removed"
        if record.state not in (FeedState.NORMAL, FeedState.WARNING):
            why = record.error.partition(HINT)[0]
            return f"the feed is {record.state.value}" + (f": {why}" if why else "")
        return ""

    def error(self, feed: FeedId) -> str:
        """What keeps the feed, whether it tries again or not; empty when nothing does."""
        return "" if self.entry(feed) is None else self._status(feed).error

    def refuse_if_failed(self, feed: FeedId) -> None:
        """Raise Conflict when the feed applies nothing more until somebody acts."""
        record = self.record(feed)
        if record is not None and record.state is FeedState.FAILED:
            hint = f"see `lockgate feed status {feed}` for what is to be done"
            raise Conflict(self.trouble(feed), object_=feed, hint=hint)

    def sink(self, feed: FeedId) -> PostgresSink:
        """Where the feed ends. To be used as a context."""
        target = self._contexts.ends(config_of(self._contexts.entry(feed))).target
        assert isinstance(target, PostgresUrl), "moves go between databases"
        return PostgresSink(target)

    def beat(self, feed: FeedId) -> Position:
        """A position of now in the log of the feed's source, behind all that was committed."""
        source = self._contexts.ends(config_of(self._contexts.entry(feed))).source
        with connect(source, purpose=f"beat {feed}", autocommit=True) as connection:
            return heartbeat.beat(connection, feed)

    def obstacles(self, config: FeedConfig) -> list[Finding]:
        """Tables at the end of a feed that is not made yet which could not take its rows."""
        ends = self._contexts.ends(config)
        assert isinstance(ends.target, PostgresUrl), "moves go between databases"
        with connect(ends.source, purpose=f"plan {config.name}", autocommit=True) as connection:
            chosen = setup.choose(connection, config)
        return obstacles(config, ends.target, chosen)

    # --- doing ------------------------------------------------------------------------------------

    def have(self, move: MoveEntry, keeper: int, config: FeedConfig) -> FeedEntry:
        """The feed in the book, under this keeper's number. Its set-up follows."""
        _, between = self._contexts.between(config)
        check = _both(kept_by(move.move, move.birth, keeper), unchanged(between))

        def make(birth: int) -> FeedEntry:
            made = setup.entry_of(config, self._home, birth)
            return msgspec.structs.replace(made, move=move.move)

        found = self._stores.feeds.enter(config.name, make, check)
        refuse_if_taken(found)
        if found.removing:
            raise Transient(
                "an earlier feed of this name is still being removed",
                object_=config.name,
                hint="it is tried again",
            )
        if found.error:
            found = self._stores.feeds.change(
                config.name,
                lambda now: msgspec.structs.replace(now, error=""),
                kept_by(move.move, move.birth, keeper),
            )
        self._keeper.knock(config.name)
        return found

    def knock(self, feed: FeedId) -> None:
        self._keeper.knock(feed)

    def pause(self, move: MoveEntry, keeper: int, feed: FeedId) -> None:
        """Have it recorded that the feed is stopped, and every token of it void at its sink: from
        now on nobody applies anything, whoever wakes up."""
        birth = self._birth(move, keeper, feed)
        self._cluster.ask_coordinator(lambda request: PauseFeed(request, feed, birth), feed)
        record = self.record(feed)
        stopped = record is not None and record.state is FeedState.STOPPED
        if record is None or record.spec.birth != birth or not stopped:
            raise Transient(
                "the feed does not stop",
                object_=feed,
                hint="it is tried again",
            )
        with self.sink(feed) as sink:
            if not sink.close(feed, Token(record.epoch, SEQ_MAX, 0), forget=False):
                raise Transient(
                    "the feed was let go on at this moment",
                    object_=feed,
                    hint="it is tried again",
                )

    def resume(self, move: MoveEntry, keeper: int, feed: FeedId) -> None:
        """Let it go on, if it is there."""
        if self.record(feed) is not None:
            birth = self._birth(move, keeper, feed)
            self._cluster.ask_coordinator(lambda request: ResumeFeed(request, feed, birth), feed)

    def _birth(self, move: MoveEntry, keeper: int, feed: FeedId) -> int:
        """Which feed of that name is the move's, as long as this keeper is the newest. What is
        asked of that one comes too late for another, however long somebody sleeps in between."""
        check = kept_by(move.move, move.birth, keeper)
        return self._stores.feeds.change(feed, lambda entry: entry, check).birth

    def break_off(self, move: MoveEntry, keeper: int, feed: FeedId) -> FeedEntry | None:
        """Have it recorded, under this keeper's number, that a set-up comes no further which is not
        finished. Answers how far it came. None: there is no such feed."""

        def stay(now: FeedEntry) -> FeedEntry:
            if now.start is not None or now.removing or now.error == BROKEN_OFF:
                return now
            return msgspec.structs.replace(now.next_attempt(), error=BROKEN_OFF)

        return self._change(move, keeper, feed, stay)

    def end_attempts(self, entry: FeedEntry) -> None:
        """Have nobody make anything for the feed at its target who began its set-up before it was
        broken off: what is dropped there stays so, whoever wakes up."""
        setup.end_attempts(entry, self._contexts.ends(config_of(entry)).target)

    def begin_removal(
        self, move: MoveEntry, keeper: int, feed: FeedId, *, gives_up_sink: bool = False
    ) -> None:
        """Have it recorded that the feed is to be removed, under this keeper's number, if there is
        one. With `gives_up_sink` it goes also if nobody answers where it ends; its source is waited
        for all the same."""
        entry = self.entry(feed)
        by_force = {"forced": True, "keeps_source": True} if gives_up_sink else {}
        if entry is not None and gives_up_sink and not entry.forced:
            # Where the history is read from, for what this removal has left (`left_behind`).
            detail = f"by force, for the move {move.move}"
            self._stores.history.write("keeper", "feed remove", feed, detail, "recorded")
        self._change(
            move, keeper, feed, lambda now: msgspec.structs.replace(now, removing=True, **by_force)
        )
        self._keeper.knock(feed)

    def _change(
        self, move: MoveEntry, keeper: int, feed: FeedId, how: Callable[[FeedEntry], FeedEntry]
    ) -> FeedEntry | None:
        """The move's feed as it is then, under this keeper's number. None: there is none."""
        if self.entry(feed) is None:
            return None
        return self._stores.feeds.change(feed, how, kept_by(move.move, move.birth, keeper))

    def left_behind(self, feed: FeedId) -> tuple[str, ...]:
        """What the last removal of the feed by force has left where it ended. It is in the history
        before the feed is gone, so whoever comes after a keeper that was lost finds it too."""
        for said in self._stores.history.read(feed, None, HISTORY_LOOK):
            if said.verb == "feed remove" and said.outcome == LEFT:
                return tuple(said.detail.split(SEPARATOR))
            if said.verb == "feed remove" and said.outcome == "recorded":
                break
        return ()

    def is_gone(self, feed: FeedId) -> bool:
        """Nothing of it is left: slot, publication, rows at the sink, entry."""
        return self.entry(feed) is None


def _both(
    first: Callable[[sa.Connection], None], second: Callable[[sa.Connection], None]
) -> Callable[[sa.Connection], None]:
    def check(connection: sa.Connection) -> None:
        first(connection)
        second(connection)

    return check
