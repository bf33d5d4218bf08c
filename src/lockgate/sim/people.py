"""People: they create, pause, resume and remove feeds, move things about and drain nodes.

A person asks whoever is in charge at the moment, and asks again when nobody answers. Who asked
for something about a span waits for the process that took it: while that lives it has to
answer, be it that the feed is not its own any more. Of each feed it is known what was wished
for last; in the healed world the wishes must have come true.
"""

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from lockgate.model.events import (
    CreateFeed,
    DrainNode,
    FeedVerb,
    MergeSpans,
    MoveMaintainer,
    MoveSpan,
    PauseFeed,
    RemoveFeed,
    ResumeFeed,
    SpanVerb,
    SplitSpan,
)
from lockgate.model.feeds import FeedState, Goal
from lockgate.model.ids import FeedId, NodeId
from lockgate.model.instructions import Answer
from lockgate.model.records import (
    COORDINATOR,
    FeedRecord,
    RecordKey,
    SpanRecord,
    feed_scope,
)
from lockgate.model.spans import SpanSpec
from lockgate.sim.dispatcher import split_points
from lockgate.sim.violation import Law, LawBroken, about_feed, about_node

if TYPE_CHECKING:
    from lockgate.sim.node import SimNode
    from lockgate.sim.world import World

ASK_AGAIN_MS = 2_500
LOOK_MS = 700
INSIST_MS = 10_000
TRY_AGAIN = frozenset(
    {
        "not-coordinator",
        "coordinator-lost",
        "coordinator-starting",
        "not-owner",
        "not-running",
        "feed-busy",
        "feed-removing",
    }
)
"""Answers after which a person who means it asks again."""


class Asked(NamedTuple):
    """A verb on its way."""

    verb: FeedVerb | SpanVerb
    first_at: int
    asked_at: int
    taker: "tuple[SimNode, int] | None" = None
    """The process that was asked."""

    @property
    def is_taken(self) -> bool:
        """Whoever was asked about a span is still there, and owes an answer."""
        if self.taker is None or not isinstance(self.verb, SpanVerb):
            return False
        node, life = self.taker
        return node.up and node.life == life


class People:
    """Everybody who uses the world."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._loop = world.loop
        self._count = 0
        self._asked: dict[str, Asked] = {}
        self._busy: dict[FeedId, str] = {}
        """Feeds with a verb that has no final answer yet."""
        self._argued: dict[FeedId, int] = {}
        """When people last wanted two things of a feed at once."""
        self.wished: dict[FeedId, Goal] = {}

    def begin(self) -> None:
        """Look after what was asked, from now on."""
        self._loop.after(LOOK_MS, self._look)

    def _look(self) -> None:
        self._loop.after(LOOK_MS, self._look)
        now = self._loop.now
        for request, asked in list(self._asked.items()):
            if now - asked.asked_at >= ASK_AGAIN_MS and not asked.is_taken:
                self._note_argument(asked.verb)
                self._asked[request] = asked._replace(asked_at=now, taker=self._say(asked.verb))

    def _note_argument(self, verb: FeedVerb | SpanVerb) -> None:
        """An old wish that is repeated while a newer one is open may become the last word."""
        if not isinstance(verb, CreateFeed | PauseFeed | ResumeFeed | RemoveFeed):
            return
        if self._busy.get(verb.feed, verb.request) != verb.request:
            self._argued[verb.feed] = self._loop.now

    def waiting(self) -> list[str]:
        """Verbs about feeds and spans without an answer."""
        spans = [
            request for request, asked in self._asked.items() if isinstance(asked.verb, SpanVerb)
        ]
        return [*self._busy.values(), *spans]

    # --- asking and hearing -----------------------------------------------------------------

    def _request(self) -> str:
        self._count += 1
        return f"r{self._count}"

    def _ask(self, verb: FeedVerb | SpanVerb) -> None:
        if isinstance(verb, CreateFeed | PauseFeed | ResumeFeed | RemoveFeed):
            if verb.feed in self._busy:
                self._argued[verb.feed] = self._loop.now
            self._busy[verb.feed] = verb.request
        taker = self._say(verb)
        self._asked[verb.request] = Asked(verb, self._loop.now, self._loop.now, taker)

    def _say(self, verb: FeedVerb | SpanVerb) -> "tuple[SimNode, int]":
        """Tell the node in charge; now and then the wrong one."""
        world = self._world
        node = None
        if isinstance(verb, SpanVerb):
            record = world.feed_record(verb.feed)
            node = record.owner.node if record is not None and record.owner is not None else None
        elif world.metastore.store.leader is not None:
            node = world.metastore.store.leader.ref.node
        if node is None or self._loop.chance(0.03):
            node = self._loop.rng.choice(list(world.nodes))
        world.note("people", f"ask {node}", verb)
        target = world.nodes[node]
        self._loop.after(5, target.deliver, target.life, verb)
        return target, target.life

    def answered(self, answer: Answer) -> None:
        """A node answers."""
        asked = self._asked.get(answer.request)
        self._world.note("people", "hear", answer)
        if asked is None:
            return
        if answer.code in TRY_AGAIN and self._insists(asked):
            self._asked[answer.request] = asked._replace(taker=None)
            return
        del self._asked[answer.request]
        verb = asked.verb
        if not isinstance(verb, DrainNode) and self._busy.get(verb.feed) == verb.request:
            del self._busy[verb.feed]
        if not answer.code:
            self._believed(verb, asked.first_at)

    def _insists(self, asked: Asked) -> bool:
        """About spans, people lose interest after a while."""
        return not isinstance(asked.verb, SpanVerb) or self._loop.now - asked.first_at < INSIST_MS

    def _believed(self, verb: FeedVerb | SpanVerb, since: int) -> None:
        """Done, they say; then it must be durable."""
        durable = self._world.checkers.durable
        if isinstance(verb, DrainNode):
            if durable.drains.get(verb.node, -1) < since and not self._is_draining(verb.node):
                what = f"the drain of {verb.node} was confirmed and is not recorded"
                raise LawBroken(Law.RECORD, what, (about_node(verb.node),))
            return
        goal = GOAL_OF.get(type(verb))
        if goal is None or isinstance(verb, SpanVerb | MoveMaintainer):
            return
        if self._argued.get(verb.feed, -1) >= since:
            return  # Two wishes may become durable as one batch, which has only the later.
        record = self._world.feed_record(verb.feed)
        written = durable.feed(verb.feed).goals.get(goal, -1)
        if record is not None and (
            record.state is FeedState.WARNING
            or (isinstance(verb, CreateFeed) and record.state is not FeedState.REMOVED)
        ):
            return  # To create what exists changes nothing; in trouble, a feed rests now and then.
        if written < since and (record is None or record.goal is not goal):
            what = f"{verb} was confirmed and is not recorded: {record}"
            raise LawBroken(Law.RECORD, what, (about_feed(verb.feed),))

    def _is_draining(self, node: NodeId) -> bool:
        records = self._world.metastore.store.records(COORDINATOR)
        return RecordKey("drain", node) in records

    # --- feeds ------------------------------------------------------------------------------

    def create(self, feed: FeedId) -> None:
        """Create a feed that starts here and now."""
        source = self._world.source_of(feed)
        spec = source.spec()
        if self._loop.chance(self._world.faults.until_share):
            spec = msgspec.structs.replace(spec, until=source.head + self._loop.between(50, 400))
        self.wished[feed] = Goal.RUN
        self._ask(CreateFeed(self._request(), feed, spec))

    def change_some_feed(self) -> None:
        """Do one of the things that people do to feeds."""
        feed = self._loop.rng.choice(list(self._world.sources))
        if feed in self._busy and self._loop.chance(0.8):
            return
        record = self._world.feed_record(feed)
        if record is None or record.state is FeedState.REMOVED:
            self.create(feed)
            return
        dice = self._loop.rng.random()
        if dice < 0.35:
            self._move_maintainer(feed)
        elif record.goal is Goal.STOP:
            if dice < 0.85:
                self.resume(feed)
            else:
                self.remove(feed)
        elif dice < 0.75:
            self.pause(feed)
        else:
            self.remove(feed)

    def pause(self, feed: FeedId) -> None:
        """Stop a feed for a while."""
        self.wished[feed] = Goal.STOP
        self._ask(PauseFeed(self._request(), feed))

    def resume(self, feed: FeedId) -> None:
        """Let it run again."""
        self.wished[feed] = Goal.RUN
        self._ask(ResumeFeed(self._request(), feed))

    def remove(self, feed: FeedId) -> None:
        """Forget it."""
        self.wished[feed] = Goal.REMOVE
        self._ask(RemoveFeed(self._request(), feed))

    def _move_maintainer(self, feed: FeedId) -> None:
        node = self._loop.rng.choice(list(self._world.nodes))
        self._ask(MoveMaintainer(self._request(), feed, node))

    def settle(self) -> None:
        """In the healed world: most paused feeds are resumed, failed ones always are."""
        for feed in self._world.sources:
            if feed in self._busy:
                continue
            record = self._world.feed_record(feed)
            if record is None:
                self.create(feed)
            elif record.state is FeedState.FAILED or (
                record.state is FeedState.STOPPED
                and record.goal is Goal.STOP
                and (self.wished[feed] is Goal.RUN or self._loop.chance(0.7))
            ):
                self.resume(feed)

    def drain(self) -> None:
        """Empty a node."""
        node = self._loop.rng.choice(list(self._world.nodes))
        self._ask(DrainNode(self._request(), node))

    # --- spans ------------------------------------------------------------------------------

    def change_some_span(self) -> None:
        """Move, cut or join spans of some feed."""
        rng = self._loop.rng
        feed = rng.choice(list(self._world.sources))
        specs = self._spans(feed)
        if not specs:
            return
        spec = rng.choice(specs)
        dice = rng.random()
        if dice < 0.4:
            node = rng.choice(list(self._world.nodes))
            self._ask(MoveSpan(self._request(), feed, spec.id, node))
        elif dice < 0.65:
            points = split_points(self._loop, spec) if spec.table else ()
            if points and len(specs) < 24:
                self._ask(SplitSpan(self._request(), feed, spec.id, points))
        else:
            self._merge(feed, spec, specs)

    def _spans(self, feed: FeedId) -> list[SpanSpec]:
        records = self._world.metastore.store.records(feed_scope(feed))
        return [record.span for record in records.values() if isinstance(record, SpanRecord)]

    def _merge(self, feed: FeedId, spec: SpanSpec, specs: list[SpanSpec]) -> None:
        """Join a span with its neighbours, or, wrongly, with just any other."""
        rng = self._loop.rng
        of_table = sorted(
            (other for other in specs if other.table == spec.table),
            key=lambda other: other.range.low,
        )
        chosen = of_table if rng.random() < 0.9 else rng.sample(specs, min(2, len(specs)))
        if len(chosen) > 3:
            first = self._loop.between(0, len(chosen) - 3)
            chosen = chosen[first : first + self._loop.between(2, 3)]
        if len(chosen) > 1:
            spans = tuple(other.id for other in chosen)
            self._ask(MergeSpans(self._request(), feed, spans))


GOAL_OF: dict[type, Goal] = {
    CreateFeed: Goal.RUN,
    ResumeFeed: Goal.RUN,
    PauseFeed: Goal.STOP,
    RemoveFeed: Goal.REMOVE,
}


def feed_record(world: "World", feed: FeedId) -> FeedRecord | None:
    """The feed as the coordinator's records have it."""
    record = world.metastore.store.records(COORDINATOR).get(RecordKey("feed", feed))
    return record if isinstance(record, FeedRecord) else None
