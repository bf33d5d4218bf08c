"""The spans of a feed as its maintainer intends and sees them.

What is intended (`record`) is what the last batch handed to the metastore says: messages wait
for it to land, memory does not. What is seen (`stage`, `position`, `barrier`) comes from the
statuses of exactly the node and token that are intended; everybody else is an orphan.
"""

from collections.abc import Iterable

from lockgate.model.ids import NO_TOKEN, Millis, NodeRef, SpanId, TableId, Token
from lockgate.model.positions import ORIGIN, Position
from lockgate.model.records import SpanRecord
from lockgate.model.statuses import DispatcherStatus, Heat, Stage

REFUSAL_DOUBLINGS_MAX = 6


class Span:
    """One live span."""

    __slots__ = (
        "barrier",
        "heat",
        "not_before",
        "points",
        "position",
        "record",
        "refusals",
        "stage",
    )

    def __init__(self, record: SpanRecord) -> None:
        self.record = record
        self.stage: Stage | None = None
        self.position: Position = record.start
        """A lower bound of what the sink holds."""
        self.barrier: Position = ORIGIN
        self.heat = Heat.NORMAL
        self.points: tuple[bytes, ...] = ()
        self.refusals = 0
        """How often in a row the sink refused it."""
        self.not_before: Millis = 0
        """When it may be placed again."""

    @property
    def id(self) -> SpanId:
        return self.record.span.id

    @property
    def node(self) -> NodeRef | None:
        return self.record.node

    @property
    def token(self) -> Token:
        return self.record.token

    @property
    def working(self) -> bool:
        """It has claimed its row and runs: the only spans that operators may take apart."""
        return self.stage is Stage.WORKING

    def observe(self, status: DispatcherStatus) -> None:
        """Take in what its own dispatcher reports."""
        self.stage = status.stage
        if status.stage is Stage.WORKING:
            self.refusals = 0
            if self.record.is_unclaimed:
                self.record = self.record.claimed()
        self.position = max(self.position, status.position)
        self.barrier = status.barrier
        self.heat = status.heat
        self.points = status.points

    def refused(self, now: Millis, pause_ms: int) -> None:
        """The sink did not let it in. Trying again at once, for ever, would help nobody."""
        self.refusals += 1
        self.not_before = now + (pause_ms << min(self.refusals - 1, REFUSAL_DOUBLINGS_MAX))


class SpanTable:
    """All live spans, by id, by table and by node, and those that nobody runs."""

    def __init__(self) -> None:
        self._spans: dict[SpanId, Span] = {}
        self._whole: dict[TableId, SpanId] = {}
        """Tables with a single span: nearly all of them, so they get no dictionary of their own."""
        self._divided: dict[TableId, dict[SpanId, None]] = {}
        self._nodes: dict[NodeRef, dict[SpanId, None]] = {}
        self.absent: dict[SpanId, None] = {}

    def __len__(self) -> int:
        return len(self._spans)

    def __contains__(self, span: SpanId) -> bool:
        return span in self._spans

    def __getitem__(self, span: SpanId) -> Span:
        return self._spans[span]

    def get(self, span: SpanId) -> Span | None:
        """The live span of this id, if there is one."""
        return self._spans.get(span)

    def all(self) -> Iterable[Span]:
        """Every live span, in the order in which they came."""
        return self._spans.values()

    def of_table(self, table: TableId) -> list[Span]:
        """The spans of one table, in the order of their keys."""
        if table in self._whole:
            return [self._spans[self._whole[table]]]
        spans = [self._spans[span] for span in self._divided.get(table, ())]
        return sorted(spans, key=lambda span: span.record.span.range.low)

    def divided_tables(self) -> list[TableId]:
        """Tables that have more than one span."""
        return list(self._divided)

    def on_node(self, node: NodeRef) -> list[Span]:
        """The spans that are intended to run there."""
        return [self._spans[span] for span in self._nodes.get(node, ())]

    def count_on(self, node: NodeRef) -> int:
        """How many spans are intended to run there."""
        return len(self._nodes.get(node, ()))

    def add(self, record: SpanRecord) -> Span:
        """A span comes to life, or is read from the metastore."""
        span = Span(record)
        self._spans[span.id] = span
        self._add_to_table(record.span.table, span.id)
        if record.node is None:
            self.absent[span.id] = None
        else:
            self._nodes.setdefault(record.node, {})[span.id] = None
        return span

    def drop(self, span: SpanId) -> Span:
        """A span ends: dropped with its table, or gone into others."""
        gone = self._spans.pop(span)
        self._drop_from_table(gone.record.span.table, span)
        self._forget_place(gone)
        self.absent.pop(span, None)
        return gone

    def _add_to_table(self, table: TableId, span: SpanId) -> None:
        if table in self._divided:
            self._divided[table][span] = None
        elif table in self._whole:
            self._divided[table] = {self._whole.pop(table): None, span: None}
        else:
            self._whole[table] = span

    def _drop_from_table(self, table: TableId, span: SpanId) -> None:
        if table in self._whole:
            del self._whole[table]
            return
        siblings = self._divided[table]
        del siblings[span]
        if len(siblings) == 1:
            del self._divided[table]
            (self._whole[table],) = siblings

    def place(self, span: SpanId, node: NodeRef, token: Token) -> Span:
        """Intend a span to run on `node` under `token`, seen there or not."""
        placed = self._spans[span]
        self._forget_place(placed)
        self.absent.pop(span, None)
        self._nodes.setdefault(node, {})[span] = None
        placed.record = placed.record.placed(node, token)
        placed.stage = None
        placed.barrier = ORIGIN
        return placed

    def lose(self, span: SpanId) -> None:
        """Nobody runs this span as far as we are concerned."""
        lost = self._spans.get(span)
        if lost is None:
            return
        self._forget_place(lost)
        lost.record = lost.record.placed(None, NO_TOKEN)
        lost.stage = None
        lost.barrier = ORIGIN
        self.absent[span] = None

    def _forget_place(self, span: Span) -> None:
        node = span.record.node
        if node is None:
            return
        there = self._nodes[node]
        there.pop(span.id, None)
        if not there:
            del self._nodes[node]
