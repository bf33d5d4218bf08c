"""A span changes hands: whoever had it last has stopped, or is lost to the owner.

    SpanRecord at n1 ──► SpanRecord at n2 ──► Create to n2: does n1 still run it?
                                                 ├─ no: right
                                                 └─ yes: right only if the owner had lost n1

The sink's fence would keep the data whole either way, so nothing but this sees the order of
the two. Who is lost to an owner only the owner knows: its table of nodes is looked at, and
nothing else of it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from lockgate.core.maintainer.maintainer import Maintainer
from lockgate.core.maintainer.nodes import NodeState
from lockgate.model.batch import Batch
from lockgate.model.ids import Epoch, FeedId, Millis, NodeId, NodeRef, SpanId, Token
from lockgate.model.messages import Requests
from lockgate.model.records import SpanRecord
from lockgate.model.requests import Create
from lockgate.model.statuses import Phase
from lockgate.sim.dispatcher import Dispatcher
from lockgate.sim.violation import Law, LawBroken, about_feed, about_span

Running = Mapping[tuple[FeedId, SpanId], Dispatcher]


class Placed(NamedTuple):
    """Where a span was recorded, and when that was durable."""

    node: NodeRef
    token: Token
    at: Millis


class Sight:
    """Which nodes an owner counts on."""

    __slots__ = ("lost", "ready", "settled")

    def __init__(self) -> None:
        self.ready: set[NodeRef] = set()
        self.settled: set[NodeRef] | None = None
        """Those that had answered when it began to run: it knows what their former owner left."""
        self.lost: dict[NodeRef, Millis] = {}
        """When it last stopped counting on a node."""


class Handover:
    """Every span's last place, and every owner's sight."""

    def __init__(self, running: Callable[[], Iterable[tuple[NodeId, Running]]]) -> None:
        self._running = running
        self._placed: dict[tuple[FeedId, SpanId], Placed] = {}
        self._former: dict[tuple[FeedId, SpanId, Token], Placed] = {}
        """What a placement took the place of, until it is asked for."""
        self._sights: dict[tuple[FeedId, Epoch], Sight] = {}

    def landed(self, now: Millis, batch: Batch) -> None:
        """A batch of a feed is durable."""
        feed = batch.scope.removeprefix("feed:")
        for key in batch.deletes:
            if key.kind == "span":
                self._placed.pop((feed, key.id), None)
        for record in batch.puts:
            if isinstance(record, SpanRecord) and record.node is not None:
                before = self._placed.get((feed, record.id))
                if before is not None and before.token == record.token:
                    continue
                if before is not None:
                    self._former[feed, record.id, record.token] = before
                self._placed[feed, record.id] = Placed(record.node, record.token, now)

    def looked(self, now: Millis, maintainers: Iterable[Maintainer]) -> None:
        """Owners have looked at who is there, and who is silent."""
        for maintainer in maintainers:
            if maintainer.state not in (Phase.BOOTSTRAPPING, Phase.RUNNING):
                continue
            sight = self._sights.setdefault((maintainer.feed, maintainer.epoch), Sight())
            views = maintainer.nodes.all()
            ready = {view.ref for view in views if view.state is NodeState.READY}
            sight.lost.update(dict.fromkeys(sight.ready - ready, now))
            sight.ready = ready
            if sight.settled is None and maintainer.state is Phase.RUNNING:
                sight.settled = ready

    def sent(self, message: Requests) -> None:
        """An owner asks for something."""
        for item in message.items:
            if type(item) is not Create:
                continue
            span = item.spec.id
            former = self._former.pop((message.feed, span, item.token), None)
            if former is not None and self._counts_on(message, former):
                self._stopped(message.feed, span, item.token, former)

    def _counts_on(self, message: Requests, former: Placed) -> bool:
        """The owner has counted on the former node ever since it knew what is there."""
        sight = self._sights.get((message.feed, message.epoch))
        if sight is None or former.node not in sight.ready:
            return False
        lost_at = sight.lost.get(former.node)
        if former.token.epoch == message.epoch:
            return lost_at is None or lost_at < former.at
        return lost_at is None and sight.settled is not None and former.node in sight.settled

    def _stopped(self, feed: FeedId, span: SpanId, token: Token, former: Placed) -> None:
        for node, running in self._running():
            dispatcher = running.get((feed, span))
            if (
                node == former.node.node
                and dispatcher is not None
                and dispatcher.token == former.token
            ):
                what = f"{feed}: {span} is asked for under {token}"
                what += f", and {former.node} still runs it under {former.token}"
                raise LawBroken(Law.DRAIN, what, (about_feed(feed), about_span(feed, span)))
