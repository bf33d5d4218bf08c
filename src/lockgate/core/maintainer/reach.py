"""How far a maintainer reaches: its tokens, its records, its requests to nodes.

This is what operators and the barrier act through (`operators.base.Hands`). Requests of one
event travel together; records become durable in the order in which they were handed in.
"""

from collections.abc import Callable, Iterable

from lockgate.core.maintainer.nodes import NodeTable
from lockgate.core.maintainer.operating import Operating
from lockgate.core.maintainer.spans import SpanTable
from lockgate.core.operators.base import Operator
from lockgate.core.writer import Writer
from lockgate.model.ids import SEQ_MAX, Epoch, FeedId, Millis, NodeRef, Seq, SpanId, Token
from lockgate.model.instructions import Send
from lockgate.model.messages import Requests
from lockgate.model.records import Record, RecordKey
from lockgate.model.requests import Request


class Reach:
    """The hands of one maintainer."""

    def __init__(
        self,
        feed: FeedId,
        epoch: Epoch,
        me: NodeRef,
        spans: SpanTable,
        nodes: NodeTable,
        operating: Operating,
    ) -> None:
        self.feed = feed
        self.epoch = epoch
        self.me = me
        self.spans = spans
        self.nodes = nodes
        self.operating = operating
        self.seq: Seq = 0
        self.now: Millis = 0
        self.writer: Writer | None = None
        """There is none before the intent is loaded: its serial is not known."""
        self._asks: dict[NodeRef, list[Request]] = {}

    def next_token(self, node: NodeRef) -> Token:
        """The next operation's token, for this life of a node."""
        self.seq += 1
        return Token(self.epoch, self.seq, node.incarnation)

    def closing_token(self, forget: bool) -> Token:
        """Above every token of this epoch, below every token of the next.

        Forgetting has one of its own: the answer to a mere stop must not pass for it.
        """
        return Token(self.epoch, SEQ_MAX + forget, 0)

    def record(
        self,
        puts: Iterable[Record] = (),
        deletes: Iterable[RecordKey] = (),
        then: Callable[[], None] | None = None,
    ) -> None:
        """Have intent durable under this epoch; then act."""
        assert self.writer is not None
        puts, deletes = tuple(puts), tuple(deletes)
        if puts or deletes:
            self.writer.write(puts, deletes, then=then)
        elif then is not None:
            self.writer.after(then)

    def ask(self, node: NodeRef, request: Request) -> None:
        """Gathered until the event is handled."""
        self._asks.setdefault(node, []).append(request)

    def regrip(self, operator: Operator) -> None:
        """See `Operating.regrip`."""
        self.operating.regrip(operator)

    def remove(self, span: SpanId, node: NodeRef) -> None:
        """Clear a node of a span that is no more, if it is there to be cleared."""
        if self.nodes.get(node) is not None:
            self.operating.begin_remove(self.now, span, node, self)

    def ended(self, operator: Operator) -> None:
        """See `Operating.ended`."""
        self.operating.ended(operator)

    def take_asks(self, requests_max: int) -> list[Send]:
        """The messages that carry what was asked since the last call."""
        asks, self._asks = self._asks, {}
        sends = []
        for node, requests in asks.items():
            for first in range(0, len(requests), requests_max):
                items = tuple(requests[first : first + requests_max])
                message = Requests(self.feed, self.epoch, self.me, node.incarnation, items)
                sends.append(Send(node.node, message))
        return sends
