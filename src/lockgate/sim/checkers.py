"""The laws, checked from outside while the world runs: at the point where something changes.

    metastore ──landed, joined, elected──► Durable   what the records alone say
    nodes     ──sent, started──► Orders              what is said and begun, held against it
    sink      ──claimed, applied, ddl, closed──► Ledger     what was done to every key
    nodes     ──ticked──► here                       what only the maintainers can show

Each raises `LawBroken`. What needs a healed world is in `healed`.
"""

from collections.abc import Iterable

from lockgate.core.maintainer.maintainer import Maintainer
from lockgate.model.batch import Batch, Leader
from lockgate.model.ids import NodeRef, OperatorId, SpanId
from lockgate.sim.durable import Durable
from lockgate.sim.loop import Loop
from lockgate.sim.observer import Observer
from lockgate.sim.orders import Orders
from lockgate.sim.sink import Sink
from lockgate.sim.violation import Law, LawBroken, about_feed, about_span


class Checkers:
    """Everything that is looked at while faults are on."""

    def __init__(self, loop: Loop, sink: Sink, observer: Observer) -> None:
        self._loop = loop
        self._observer = observer
        self.durable = Durable(sink)
        self.orders = Orders(self.durable)

    def landed(self, batch: Batch) -> None:
        """A batch became durable."""
        self._observer.landed(batch)
        self.durable.landed(self._loop.now, batch)

    def joined(self, ref: NodeRef) -> None:
        """A node got a life."""
        self.durable.joined(ref)

    def elected(self, leader: Leader) -> None:
        """A node became coordinator."""
        self.durable.elected(leader)

    def ticked(self, maintainers: Iterable[Maintainer]) -> None:
        """No two operators of a maintainer hold one span."""
        for maintainer in maintainers:
            held: dict[SpanId, OperatorId] = {}
            for name, operator in maintainer.operators.items():
                for span in operator.spans:
                    if span in held:
                        what = f"{maintainer.feed}: {held[span]} and {name} both hold {span}"
                        about = (about_feed(maintainer.feed), about_span(maintainer.feed, span))
                        raise LawBroken(Law.COVER, what, about)
                    held[span] = name
