"""Hands for one operator: what it records and asks is only noted; the test says what lands."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from lockgate.core.maintainer.spans import Span, SpanTable
from lockgate.core.operators.base import Dropped, Lost, Operator, Seen
from lockgate.model.events import Tick
from lockgate.model.ids import Epoch, Millis, NodeRef, Seq, SpanId, Token
from lockgate.model.positions import Position
from lockgate.model.records import Record, RecordKey, SpanRecord
from lockgate.model.requests import Request
from lockgate.model.spans import SpanSpec
from lockgate.model.statuses import DispatcherStatus, Stage
from tests.core.support import of, spec

A, B, C = NodeRef("a", 1), NodeRef("b", 1), NodeRef("c", 1)
EPOCH: Epoch = 3
R = TypeVar("R", bound=Request)


class Written:
    """One thing that was handed in to become durable."""

    def __init__(
        self,
        puts: tuple[Record, ...],
        deletes: tuple[RecordKey, ...],
        then: Callable[[], None] | None,
    ) -> None:
        self.puts = puts
        self.deletes = deletes
        self.then = then


class FakeHands:
    """A maintainer as far as an operator sees it."""

    def __init__(self, epoch: Epoch = EPOCH, seq: Seq = 100) -> None:
        self.spans = SpanTable()
        self.epoch = epoch
        self.seq: Seq = seq
        self.writing: list[Written] = []
        """Not durable yet, oldest first."""
        self.written: list[Written] = []
        self.asks: list[tuple[NodeRef, Request]] = []
        self.removes: list[tuple[SpanId, NodeRef]] = []
        self.through: list[Operator] = []
        self.held: tuple[SpanId, ...] = ()

    # --- what operators call ----------------------------------------------------------------

    def next_token(self, node: NodeRef) -> Token:
        self.seq += 1
        return Token(self.epoch, self.seq, node.incarnation)

    def record(
        self,
        puts: Iterable[Record] = (),
        deletes: Iterable[RecordKey] = (),
        then: Callable[[], None] | None = None,
    ) -> None:
        written = Written(tuple(puts), tuple(deletes), then)
        if not written.puts and not written.deletes and not self.writing:
            assert then is not None
            then()
        else:
            self.writing.append(written)

    def ask(self, node: NodeRef, request: Request) -> None:
        self.asks.append((node, request))

    def is_ready(self, node: NodeRef | None) -> bool:
        return node is not None

    def regrip(self, operator: Operator) -> None:
        self.held = operator.spans

    def remove(self, span: SpanId, node: NodeRef) -> None:
        self.removes.append((span, node))

    def ended(self, operator: Operator) -> None:
        assert operator not in self.through, "an operator ends once"
        self.through.append(operator)
        self.held = ()

    # --- what tests call --------------------------------------------------------------------

    def live(
        self,
        span: SpanId | SpanSpec,
        node: NodeRef | None,
        seq: Seq = 1,
        *,
        position: Position = 0,
    ) -> Span:
        """A span that is placed, and works there."""
        what = spec(span) if isinstance(span, str) else span
        token = Token(EPOCH, seq, 1) if node is not None else Token(0, 0, 0)
        live = self.spans.add(SpanRecord(what, node, token))
        if node is not None:
            live.observe(DispatcherStatus(what.id, token, Stage.WORKING, position))
        return live

    def begin(self, operator: Operator, now: Millis = 1_000) -> None:
        self.held = operator.spans
        operator.begin(now)

    def land(self) -> Written:
        """What was handed in first becomes durable."""
        written = self.writing.pop(0)
        self.written.append(written)
        if written.then is not None:
            written.then()
        return written

    def asked(self, kind: type[R]) -> list[tuple[NodeRef, R]]:
        """Requests of one kind since the last look; looking forgets them all."""
        asks, self.asks = self.asks, []
        return [(node, request) for node, request in asks if isinstance(request, kind)]

    def is_absent(self, span: SpanId) -> bool:
        """Nobody runs it, and somebody should: the scheduler will place it."""
        return span in self.spans.absent and self.spans[span].node is None

    def ids(self) -> set[SpanId]:
        return {span.id for span in self.spans.all()}


def seen(
    operator: Operator,
    node: NodeRef,
    span: SpanId,
    token: Token,
    stage: Stage,
    *,
    merge: str = "",
) -> None:
    """A node reports on a span."""
    status = DispatcherStatus(span, token, stage, operator=merge)
    operator.handle(operator.now, Seen(node, status))


def lost(operator: Operator, node: NodeRef) -> None:
    operator.handle(operator.now, Lost(node))


def drop(hands: FakeHands, operator: Operator, span: SpanId) -> None:
    """The table of the span is dropped: it leaves the table first, then the operator is told."""
    hands.spans.drop(span)
    operator.handle(operator.now, Dropped(span))


def tick(operator: Operator, ms: Millis = 1_000) -> None:
    operator.handle(operator.now + ms, Tick())


def puts(written: Written) -> list[SpanRecord]:
    return of(SpanRecord, written.puts)
