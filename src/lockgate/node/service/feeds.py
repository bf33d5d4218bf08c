"""What people ask of feeds: recorded first, done by whoever is to do it, told when it is so."""

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.source import heartbeat
from lockgate.endpoints.postgres.source.slot import lsn_text
from lockgate.model.documents import Waited
from lockgate.model.errors import Conflict, LockgateError, NotFound, Transient, UsageError
from lockgate.model.events import MergeSpans, MoveSpan, PauseFeed, ResumeFeed, SplitSpan
from lockgate.model.feed_config import FeedConfig
from lockgate.model.feed_status import FeedPlan, FeedStatus
from lockgate.model.feeds import FeedState
from lockgate.model.ids import FeedId, SpanId
from lockgate.model.records import SpanRecord
from lockgate.model.spans import KeyRange
from lockgate.node.feed import setup
from lockgate.node.service import planning
from lockgate.node.service.asking import Verb
from lockgate.node.service.cluster import Cluster
from lockgate.node.service.contexts import Contexts, config_of
from lockgate.node.service.keeper import Keeper
from lockgate.node.service.positions import parse_lsn
from lockgate.node.service.statuses import Statuses
from lockgate.node.service.stores import Stores
from lockgate.store.feeds import FeedEntry

__all__ = ["FeedDesk"]

CREATE_S: Final = 30.0
REMOVE_S: Final = 30.0
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
        return planning.plan(config, self._contexts.ends(config), self._home)

    def create(self, config: FeedConfig, who: str) -> FeedStatus:
        """Record the feed and wait until it is set up. What can be known to fail is refused before
        anything is recorded."""
        found = self._stores.feeds.read(config.name)
        if found is None:
            planning.refuse_if_unfit(config, self._contexts.ends(config))
            found = self._stores.feeds.enter(setup.entry_of(config, self._home))
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
        return entry.start is not None and feed in self._cluster.records()

    def pause(self, feed: FeedId, who: str) -> FeedStatus:
        """Stop it, to be resumed."""
        self._live(feed)
        self._tell(lambda request: PauseFeed(request, feed), feed)
        self._stores.history.write(who, "feed pause", feed, outcome="done")
        return self._statuses.one(feed)

    def resume(self, feed: FeedId, who: str) -> FeedStatus:
        """Let a stopped or failed one run again, or be set up again."""
        entry = self._live(feed)
        if entry.error:
            self._stores.feeds.change(feed, lambda now: msgspec.structs.replace(now, error=""))
            self._keeper.knock(feed)
        if feed in self._cluster.records():
            self._tell(lambda request: ResumeFeed(request, feed), feed)
        self._stores.history.write(who, "feed resume", feed, outcome="done")
        return self._statuses.one(feed)

    def remove(self, feed: FeedId, who: str) -> None:
        """End it. Recorded at once; returns when it is gone, or after a while when an endpoint
        that cannot be reached is in the way: then it goes on by itself."""
        self._statuses.entry(feed)
        self._stores.feeds.change(feed, lambda now: msgspec.structs.replace(now, removing=True))
        self._stores.history.write(who, "feed remove", feed, outcome="recorded")
        self._keeper.knock(feed)
        self._wait(lambda: self._stores.feeds.read(feed) is None, REMOVE_S)

    def _tell(self, verb: Callable[[str], Verb], feed: FeedId) -> None:
        self._cluster.ask_coordinator(verb, feed)

    def _live(self, feed: FeedId) -> FeedEntry:
        entry = self._statuses.entry(feed)
        if entry.removing:
            raise Conflict("the feed is being removed", object_=feed, hint="create it anew later")
        return entry

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
        entry = self._live(feed)
        ends = self._contexts.ends(config_of(entry))
        if position:
            upto = parse_lsn(position)
        else:
            with connect(ends.source, purpose=f"wait {feed}", autocommit=True) as connection:
                upto = heartbeat.beat(connection, feed)
        with self._contexts.sink(feed) as sink:
            while True:
                stands = sink.least_position(feed)
                level = stands is not None and stands >= upto - 1 and sink.copies_over(feed)
                spent = time.monotonic() - began
                if level or spent >= timeout_s:
                    shown = lsn_text(stands or 0)
                    return Waited(level, lsn_text(upto), shown, round(spent, 2))
                self._check_runs(feed)
                time.sleep(min(POLL_S, timeout_s - spent))

    def _check_runs(self, feed: FeedId) -> None:
        """Nobody waits for a feed that does not go on."""
        record = self._cluster.records().get(feed)
        entry = self._statuses.entry(feed)
        state = FeedState.FAILED if entry.error else None if record is None else record.state
        if state in {FeedState.FAILED, FeedState.STOPPED, FeedState.FINISHED}:
            status = self._statuses.one(feed)
            raise Conflict(
                f"the feed does not go on: it is {state.value}",
                object_=feed,
                hint="; ".join(status.next_steps),
                cause=status.error or None,
            )

    # --- spans ------------------------------------------------------------------------------------

    def move_span(self, feed: FeedId, span: SpanId, node: str, who: str) -> FeedStatus:
        """Run a span elsewhere."""
        self._span(feed, span)
        if not any(row.node == node and row.alive for row in self._stores.members.all()):
            raise NotFound(
                "no node of this name is alive",
                object_=node,
                hint="`lockgate node list` shows which are",
            )
        return self._change(
            feed, "span move", f"{span} to {node}", who, lambda r: MoveSpan(r, feed, span, node)
        )

    def split_span(
        self, feed: FeedId, span: SpanId, points: Sequence[str], parts: int | None, who: str
    ) -> FeedStatus:
        """Cut a span at key hashes, or into equal parts."""
        record = self._span(feed, span)
        cuts = _cuts(record.span.range, points, parts)
        detail = f"{span} at {', '.join(cut.hex() for cut in cuts)}"
        return self._change(
            feed, "span split", detail, who, lambda r: SplitSpan(r, feed, span, cuts)
        )

    def merge_spans(self, feed: FeedId, spans: Sequence[str], who: str) -> FeedStatus:
        """Join neighbouring spans of one table."""
        found = sorted(
            (self._span(feed, span) for span in dict.fromkeys(spans)),
            key=lambda record: record.span.range.low,
        )
        if len(found) < 2:
            raise UsageError("a merge takes two spans or more", object_=feed, hint="name them")
        for one, other in itertools.pairwise(found):
            if one.span.table != other.span.table or not one.span.range.touches(other.span.range):
                raise Conflict(
                    "only neighbouring spans of one table can be merged",
                    object_=f"{one.id}, {other.id}",
                    hint=f"`lockgate feed tables {feed}` shows which lie side by side",
                )
        ids = tuple(record.id for record in found)
        return self._change(
            feed, "span merge", ", ".join(ids), who, lambda r: MergeSpans(r, feed, ids)
        )

    def _span(self, feed: FeedId, span: SpanId) -> SpanRecord:
        self._live(feed)
        for record in self._statuses.spans(feed):
            if record.id == span:
                return record
        raise NotFound(
            "the feed has no span of this name",
            object_=span,
            hint=f"`lockgate feed tables {feed}` shows its spans",
        )

    def _change(
        self, feed: FeedId, verb: str, detail: str, who: str, make: Callable[[str], Verb]
    ) -> FeedStatus:
        """Have the owner do it; what takes longer goes on by itself, and the history says so."""
        self._check_runs(feed)
        try:
            done = self._cluster.ask_owner(make, feed)
        except LockgateError as error:
            outcome = "refused" if not isinstance(error, Transient) else "not answered"
            self._stores.history.write(who, verb, feed, detail, f"{outcome}: {error}")
            raise
        self._stores.history.write(who, verb, feed, detail, "done" if done else "under way")
        return self._statuses.one(feed)


def _told(config: FeedConfig) -> str:
    return f"tables {', '.join(config.tables)}"


def _cuts(range_: KeyRange, points: Sequence[str], parts: int | None) -> tuple[bytes, ...]:
    """Where the range is cut. Keys are hashes of eight bytes (`sink.keys`)."""
    if bool(points) == (parts is not None):
        raise UsageError(
            "a split needs either points or a number of parts",
            object_="split",
            hint="use --parts N, or --at with key hashes in hex",
        )
    try:
        if parts is None:
            cuts = tuple(sorted(_hash(point) for point in points))
        else:
            cuts = _equal_cuts(range_, parts)
        range_.divided(cuts)
    except ValueError as error:
        raise UsageError("the span cannot be cut there", object_="split", hint=str(error)) from None
    return cuts


def _hash(point: str) -> bytes:
    cut = bytes.fromhex(point)
    if len(cut) != 8:
        raise ValueError("a key hash has 16 hex digits")
    return cut


def _equal_cuts(range_: KeyRange, parts: int) -> tuple[bytes, ...]:
    if not 2 <= parts <= PARTS_MAX:
        raise ValueError(f"take 2 to {PARTS_MAX} parts")
    low = int.from_bytes(range_.low.ljust(8, b"\0"))
    high = 2**64 if range_.high is None else int.from_bytes(range_.high)
    if high - low < parts:
        raise ValueError("the span is too small for so many parts")
    return tuple((low + (high - low) * n // parts).to_bytes(8) for n in range(1, parts))
