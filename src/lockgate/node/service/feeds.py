"""What people ask of feeds: recorded first, done by whoever is to do it, told when it is so."""

import contextlib
import time
from collections.abc import Callable
from typing import Final

import msgspec
import sqlalchemy as sa

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.source import heartbeat
from lockgate.endpoints.postgres.source.slot import lsn_text
from lockgate.model.documents import Waited
from lockgate.model.errors import Conflict, NotFound
from lockgate.model.events import PauseFeed, ResumeFeed
from lockgate.model.feed_config import FeedConfig
from lockgate.model.feed_status import FeedPlan, FeedStatus
from lockgate.model.feeds import FeedState
from lockgate.model.ids import FeedId
from lockgate.model.move_config import FEED_MARK
from lockgate.model.reading import unfit
from lockgate.node.feed import setup
from lockgate.node.link.wire import ResyncSpan
from lockgate.node.move.feeds import BROKEN_OFF
from lockgate.node.service import planning
from lockgate.node.service.apart import refuse_if_moved, refuse_set_up_if_moved
from lockgate.node.service.cluster import Cluster
from lockgate.node.service.contexts import Contexts, config_of
from lockgate.node.service.forcing import LEFT, struck_out
from lockgate.node.service.going import check_runs, live, own
from lockgate.node.service.keeper import Keeper
from lockgate.node.service.noting import BEGUN, noted
from lockgate.node.service.positions import parse_lsn
from lockgate.node.service.resync import RESYNC_S, span_to_resync
from lockgate.node.service.statuses import Statuses
from lockgate.node.service.stores import Stores
from lockgate.store.endpoints import unchanged
from lockgate.store.feeds import FeedEntry

__all__ = ["FeedDesk"]

CREATE_S: Final = 30.0
REMOVE_S: Final = 30.0
HISTORY_LOOK: Final = 20
POLL_S: Final = 0.1
PARTS_MAX: Final = 256


class FeedDesk:
    """The verbs of feeds, on any node."""

    def __init__(
        self,
        stores: Stores,
        contexts: Contexts,
        cluster: Cluster,
        statuses: Statuses,
        keeper: Keeper,
        home: str,
    ) -> None:
        """`home` is the name of this installation, by which its slots are known at sources."""
        self._stores = stores
        self._contexts = contexts
        self._cluster = cluster
        self._statuses = statuses
        self._keeper = keeper
        self._home = home

    # --- life -------------------------------------------------------------------------------------

    def plan(self, config: FeedConfig) -> FeedPlan:
        """What `create` would make."""
        birth = self._stores.feeds.next_birth()
        new = self._stores.feeds.read(config.name) is None
        if new:
            _refuse_if_reserved(config)
        ends = self._contexts.ends(config)
        planned = planning.plan(config, ends, self._home, birth, new=new)
        if new:
            targets = [each.target for each in planned.tables]
            refuse_if_moved(self._stores, self._contexts, ends.target, targets)
        return planned

    def create(self, config: FeedConfig, who: str) -> FeedStatus:
        """Record the feed and wait until it is set up. What can be known to fail is refused before
        anything is recorded."""
        found = self._stores.feeds.read(config.name)
        if found is None:
            _refuse_if_reserved(config)
            ends, between = self._contexts.between(config)
            targets = planning.refuse_if_unfit(config, ends, self._home)
            still = refuse_if_moved(self._stores, self._contexts, ends.target, targets)

            def check(connection: sa.Connection) -> None:
                unchanged(between)(connection)
                still(connection)

            found = self._stores.feeds.enter(
                config.name, lambda birth: setup.entry_of(config, self._home, birth), check
            )
            self._stores.history.write(who, "feed create", config.name, _told(config), "recorded")
        if config_of(found) != config:
            raise Conflict(
                "a feed of this name exists with another configuration",
                object_=config.name,
                hint="choose another name, or remove the existing feed first",
            )
        if found.removing:
            raise Conflict(
                "the feed of this name is being removed",
                object_=config.name,
                hint="ask again when `lockgate feed list` does not show it any more",
            )
        self._keeper.knock(config.name)
        self._wait(lambda: self._is_made(config.name), CREATE_S)
        return self._statuses.one(config.name)

    def _is_made(self, feed: FeedId) -> bool:
        entry = self._stores.feeds.read(feed)
        if entry is None or entry.error:
            return True
        return entry.start is not None and self._is_recorded(feed)

    def _is_recorded(self, feed: FeedId) -> bool:
        """The coordinator knows it; of a removed feed of the same name it still has a tombstone."""
        record = self._cluster.records().get(feed)
        return record is not None and record.state is not FeedState.REMOVED

    def pause(self, feed: FeedId, who: str) -> FeedStatus:
        """Stop it, to be resumed."""
        own(live(self._statuses, feed))
        if not self._is_recorded(feed):
            raise Conflict(
                "the feed is still being set up",
                object_=feed,
                hint=f"pause it when it runs; `lockgate feed status {feed}` says how far it is",
            )
        with noted(self._stores.history, who, "feed pause", feed):
            self._cluster.ask_coordinator(lambda request: PauseFeed(request, feed), feed)
        return self._statuses.one(feed)

    def resume(self, feed: FeedId, who: str) -> FeedStatus:
        """Let a stopped or failed one run again, or be set up again."""
        entry = live(self._statuses, feed)
        with noted(self._stores.history, who, "feed resume", feed):
            if entry.start is None and not entry.move:
                refuse_set_up_if_moved(self._stores, self._contexts, entry)
            if entry.error:
                self._stores.feeds.change(feed, _let_go)
                self._keeper.knock(feed)
            if self._is_recorded(feed):
                # What a move has stopped it drains, revokes or removes: nobody applies any more.
                of_move = bool(entry.move)
                self._cluster.ask_coordinator(
                    lambda request: ResumeFeed(request, feed, failed_only=of_move), feed
                )
        return self._statuses.one(feed)

    def remove(self, feed: FeedId, who: str, force: bool = False) -> FeedStatus | None:
        """End it. Recorded at once; returns None when it is gone, or after a while its status, when
        an endpoint that cannot be reached is in the way: then it goes on by itself. With `force`
        nothing is in the way: what stays behind there is in the notes of a status that says
        `removed`."""
        own(self._statuses.entry(feed))
        before = self._statuses.one(feed)
        entry = self._stores.feeds.change(
            feed,
            lambda now: msgspec.structs.replace(now, removing=True, forced=now.forced or force),
        )
        detail = "by force" if force else ""
        self._stores.history.write(who, "feed remove", feed, detail, "recorded")
        self._keeper.knock(feed)
        if not self._wait(lambda: self._is_gone(entry), REMOVE_S):
            with contextlib.suppress(NotFound):
                return self._statuses.one(feed)
        left = self._left_behind(feed, who) if entry.forced else ""
        return struck_out(before, left) if left else None

    def _is_gone(self, entry: FeedEntry) -> bool:
        """Also when there is another of its name by now."""
        found = self._stores.feeds.read(entry.feed)
        return found is None or found.birth != entry.birth

    def _left_behind(self, feed: FeedId, who: str) -> str:
        """What the history says since the removal was asked for."""
        for said in self._stores.history.read(feed, None, HISTORY_LOOK):
            if said.verb == "feed remove" and said.outcome == LEFT:
                return said.detail
            if (said.who, said.verb) == (who, "feed remove"):
                break
        return ""

    def _wait(self, done: Callable[[], bool], timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while not done():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    # --- waiting ----------------------------------------------------------------------------------

    def wait(self, feed: FeedId, timeout_s: float, position: str) -> Waited:
        """Until the sink itself says that everything up to the position is there."""
        began = time.monotonic()
        entry = live(self._statuses, feed)
        ends = self._contexts.ends(config_of(entry))
        if position:
            upto = parse_lsn(position)
        else:
            with connect(ends.source, purpose=f"wait {feed}", autocommit=True) as connection:
                upto = heartbeat.beat(connection, feed)
        with self._contexts.gate(feed) as gate:
            while True:
                stands = gate.least_position()
                level = stands is not None and stands >= upto - 1 and gate.copies_over()
                spent = time.monotonic() - began
                if level or spent >= timeout_s:
                    shown = lsn_text(stands or 0)
                    return Waited(level, lsn_text(upto), shown, round(spent, 2))
                check_runs(self._statuses, self._cluster, feed)
                time.sleep(min(POLL_S, timeout_s - spent))

    def resync(self, feed: FeedId, table: str, who: str) -> FeedStatus:
        """Copy one table anew."""
        own(live(self._statuses, feed))
        check_runs(self._statuses, self._cluster, feed)
        span, _ = span_to_resync(self._statuses, feed, table)
        with noted(self._stores.history, who, "feed resync", feed, table, BEGUN):
            self._cluster.ask_node(
                lambda request: ResyncSpan(request, feed, span),
                lambda: span_to_resync(self._statuses, feed, table)[1],
                table,
                RESYNC_S,
            )
        return self._statuses.one(feed)


def _let_go(now: FeedEntry) -> FeedEntry:
    """Without what kept it. What a cancel has broken off is kept so by the move, which drops what
    that set-up has made: nobody makes more of it."""
    if now.move and now.error == BROKEN_OFF:
        raise Conflict(
            f"the move {now.move} is being cancelled, and its feed is not set up any more",
            object_=now.feed,
            hint=f"wait until the move is cancelled: lockgate move status {now.move}",
        )
    return msgspec.structs.replace(now, error="")


def _refuse_if_reserved(config: FeedConfig) -> None:
    """Raise UsageError for a new feed that is called as a move's is, which that move may need."""
    if FEED_MARK in config.name:
        raise unfit(
            f"{config.name!r} is no name of a feed of yours: moves call theirs so",
            "name",
            "choose one without two - in a row",
        )


def _told(config: FeedConfig) -> str:
    return f"tables {', '.join(config.tables)}"
