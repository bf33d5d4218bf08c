"""The laws, checked from outside while the world runs: at the point where something changes.

    metastore ──landed, joined, elected──► Durable   what the records alone say
    nodes     ──sent, started──► Orders              what is said and begun, held against it
                      └────────► Handover            who had a span before
    sink      ──claimed, applied, ddl, closed──► Ledger     what was done to every key
    nodes     ──ticked──► here                       what only the maintainers can show

Each raises `LawBroken`. What needs a healed world is in `healed`.
"""

from collections.abc import Callable, Iterable

from lockgate.core.maintainer.maintainer import Maintainer
from lockgate.model.batch import Batch, Leader
from lockgate.model.feeds import Goal
from lockgate.model.ids import Epoch, FeedId, NodeId, NodeRef, OperatorId, SpanId
from lockgate.model.messages import Message, Requests
from lockgate.model.records import COORDINATOR, FeedRecord, OperatorRecord
from lockgate.sim.durable import Durable
from lockgate.sim.handover import Handover, Running
from lockgate.sim.ledger import Ledger
from lockgate.sim.loop import Loop
from lockgate.sim.observer import Observer
from lockgate.sim.orders import Orders, Speaker
from lockgate.sim.sink import Sink
from lockgate.sim.violation import Law, LawBroken, about_feed, about_span


class Checkers:
    """Everything that is looked at while faults are on."""

    def __init__(
        self,
        loop: Loop,
        sink: Sink,
        ledger: Ledger,
        observer: Observer,
        running: Callable[[], Iterable[tuple[NodeId, Running]]],
    ) -> None:
        self._loop = loop
        self._ledger = ledger
        self._running = running
        self._observer = observer
        self.durable = Durable(sink)
        self._maintainers: dict[tuple[FeedId, Epoch], Maintainer] = {}
        self.orders = Orders(self.durable, sink)
        self._handover = Handover(running)

    def landed(self, batch: Batch) -> None:
        """A batch became durable."""
        for feed, merge in self._observer.landed(batch):
            self._merged(feed, merge)
        self.durable.landed(self._loop.now, batch)
        if batch.scope.startswith("feed:"):
            self._handover.landed(self._loop.now, batch)
        elif batch.scope == COORDINATOR:
            for record in batch.puts:
                if isinstance(record, FeedRecord):
                    self._rests(record)

    def _rests(self, record: FeedRecord) -> None:
        """A stopped feed without an owner: whatever was done under its epoch is all there is."""
        if record.goal is Goal.STOP and record.owner is None:
            self._ledger.stopped(record.feed, record.epoch)

    def _merged(self, feed: FeedId, merge: OperatorRecord) -> None:
        """A merge is committed: whoever holds a source's row must not apply any more."""
        claimed = self._ledger.feed(feed).claimed
        for node, running in self._running():
            for span in merge.spans:
                dispatcher = running.get((feed, span))
                if dispatcher is None or dispatcher.held or dispatcher.stopping:
                    continue
                if dispatcher.token == claimed.get(span):
                    what = f"{feed}: {merge.operator} is committed, and {span} runs on {node}"
                    raise LawBroken(Law.DRAIN, what, (about_feed(feed), about_span(feed, span)))

    def sent(self, node: Speaker, message: Message) -> None:
        """A message left the core."""
        self.orders.sent(node, message)
        if isinstance(message, Requests):
            self._handover.sent(message)

    def looked(self, maintainers: Iterable[Maintainer]) -> None:
        """Owners have looked at who is there."""
        self._handover.looked(self._loop.now, maintainers)

    def joined(self, ref: NodeRef) -> None:
        """A node got a life."""
        self.durable.joined(ref)

    def elected(self, leader: Leader) -> None:
        """A node became coordinator."""
        self.durable.elected(leader)

    def ticked(self, maintainers: Iterable[Maintainer]) -> None:
        """An epoch has one maintainer; no two operators of it hold one span."""
        for maintainer in maintainers:
            key = (maintainer.feed, maintainer.epoch)
            if self._maintainers.setdefault(key, maintainer) is not maintainer:
                what = f"{maintainer.feed}: epoch {maintainer.epoch} has a second maintainer"
                raise LawBroken(Law.FENCE, what, (about_feed(maintainer.feed),))
            held: dict[SpanId, OperatorId] = {}
            for name, operator in maintainer.operators.items():
                for span in operator.spans:
                    if span in held:
                        what = f"{maintainer.feed}: {held[span]} and {name} both hold {span}"
                        about = (about_feed(maintainer.feed), about_span(maintainer.feed, span))
                        raise LawBroken(Law.COVER, what, about)
                    held[span] = name
