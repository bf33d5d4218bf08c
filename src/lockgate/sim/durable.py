"""What was ever durable, and whether the durable things alone keep the laws.

Told of every batch at the moment it lands, whatever answer its writer gets.
"""

from typing import NoReturn

from lockgate.model.batch import Batch, Leader
from lockgate.model.feeds import Goal
from lockgate.model.ids import Epoch, FeedId, NodeId, NodeRef, OperatorId, SpanId, TableId, Token
from lockgate.model.positions import Position
from lockgate.model.records import (
    COORDINATOR,
    BarrierRecord,
    DrainRecord,
    DrainState,
    FeedRecord,
    FenceRecord,
    JournalRecord,
    OperatorRecord,
    ProgressRecord,
    SpanRecord,
)
from lockgate.model.spans import TRIGGER, KeyRange
from lockgate.sim.ledger import covers_once
from lockgate.sim.sink import Sink
from lockgate.sim.violation import Law, LawBroken, about_feed, about_node, about_span


class FeedFacts:
    """Of one feed name, over all its lives."""

    __slots__ = (
        "barrier",
        "barriers",
        "born",
        "checkpoint",
        "conceived",
        "epoch",
        "goals",
        "operators",
        "owners",
        "placed",
        "tables",
    )

    def __init__(self) -> None:
        self.epoch: Epoch = 0
        self.owners: dict[Epoch, NodeRef] = {}
        self.goals: dict[Goal, int] = {}
        """When each goal was last written."""
        self.placed: set[tuple[SpanId, Token]] = set()
        self.operators: set[OperatorId] = set()
        self.barriers: set[Position] = set()
        """Every DDL that was ever recorded as about to be written."""
        self.barrier: Position | None = None
        """The one that is recorded now."""
        self.checkpoint: Position = 0
        self.born = False
        self.tables: dict[TableId, dict[SpanId, KeyRange]] = {}
        """The live spans, by the records."""
        self.conceived = False
        """The trigger is recorded; without it no other span counts."""


class Durable:
    """Memory of the metastore. Grows only."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.feeds: dict[FeedId, FeedFacts] = {}
        self.fences: dict[tuple[NodeId, FeedId], FenceRecord] = {}
        self.fenced: set[tuple[NodeId, FeedId, Epoch, NodeRef | None, bool]] = set()
        """Every fence that a node ever had durable."""
        self.journals: set[tuple[NodeId, FeedId, SpanId, Token, bool]] = set()
        """Everything that a node ever noted, and whether it was only prepared."""
        self.drains: dict[NodeId, int] = {}
        """When a node's drain was last written, or struck out because that life was over."""
        self.draining: dict[NodeRef, bool] = {}
        """Lives that are to be emptied, and whether one reported since while nothing was there."""
        self.incarnations: dict[NodeId, int] = {}
        self.leaders: dict[int, NodeRef] = {}

    def feed(self, feed: FeedId) -> FeedFacts:
        found = self.feeds.get(feed)
        if found is None:
            found = self.feeds[feed] = FeedFacts()
        return found

    # --- leases -----------------------------------------------------------------------------

    def joined(self, ref: NodeRef) -> None:
        """The store gave out a life."""
        if ref.incarnation <= self.incarnations.get(ref.node, 0):
            what = f"incarnation {ref.incarnation} of {ref.node} was given out twice"
            raise LawBroken(Law.FENCE, what, (about_node(ref.node),))
        self.incarnations[ref.node] = ref.incarnation

    def elected(self, leader: Leader) -> None:
        """The store gave out a term."""
        if self.leaders and leader.term <= max(self.leaders):
            what = f"term {leader.term} was given out twice"
            raise LawBroken(Law.FENCE, what, (about_node(leader.ref.node),))
        self.leaders[leader.term] = leader.ref

    # --- batches ----------------------------------------------------------------------------

    def landed(self, now: int, batch: Batch) -> None:
        """A batch is durable from now on."""
        scope = batch.scope
        if scope == COORDINATOR:
            self._coordinator(now, batch)
        elif scope.startswith("feed:"):
            self._feed(scope.removeprefix("feed:"), batch)
        else:
            self._node(scope.removeprefix("node:"), batch)

    def _coordinator(self, now: int, batch: Batch) -> None:
        raised = {change.scope: change for change in batch.raises}
        for key in batch.deletes:
            if key.kind == "drain":
                self.drains[key.id] = now
        for record in batch.puts:
            if isinstance(record, DrainRecord):
                self.drains[record.id] = now
                self._drain(record)
            elif isinstance(record, FeedRecord):
                facts = self.feed(record.feed)
                if record.epoch < facts.epoch:
                    _broken(Law.FENCE, f"epoch {record.epoch} after {facts.epoch}", record.feed)
                if record.epoch > facts.epoch:
                    change = raised.get(f"feed:{record.feed}")
                    if change is None or change.new != record.epoch:
                        what = f"epoch {record.epoch} recorded without raising the fence"
                        _broken(Law.FENCE, what, record.feed)
                    facts.epoch = record.epoch
                    if record.owner is not None:
                        facts.owners[record.epoch] = record.owner
                elif record.owner not in (None, facts.owners.get(record.epoch)):
                    what = f"epoch {record.epoch} went from {facts.owners.get(record.epoch)}"
                    _broken(Law.FENCE, f"{what} to {record.owner}", record.feed)
                facts.goals[record.goal] = now

    def _drain(self, record: DrainRecord) -> None:
        """Done is only what was reported empty, by a node that was so, after it was asked for."""
        empty = self.draining.setdefault(record.node, False)
        if record.state is DrainState.DRAINED and not empty:
            what = f"{record.node} is recorded as drained, and was never seen empty"
            raise LawBroken(Law.DRAIN, what, (about_node(record.id),))

    def reported_empty(self, ref: NodeRef) -> None:
        """A life of a node reports while nothing runs there."""
        if ref in self.draining:
            self.draining[ref] = True

    def _feed(self, feed: FeedId, batch: Batch) -> None:
        facts = self.feed(feed)
        touched: dict[TableId, None] = {}
        for key in batch.deletes:
            if key.kind == "span":
                facts.conceived = facts.conceived and key.id != TRIGGER
                for table, spans in facts.tables.items():
                    if spans.pop(key.id, None) is not None:
                        touched[table] = None
            elif key.kind == "barrier":
                facts.barrier = None
            elif key.kind == "progress":
                facts.checkpoint = 0
                facts.born = False
        progress: ProgressRecord | None = None
        operators: list[OperatorRecord] = []
        for record in batch.puts:
            if isinstance(record, SpanRecord):
                if record.token.epoch:
                    facts.placed.add((record.span.id, record.token))
                if record.span.id == TRIGGER:
                    if not facts.conceived:
                        touched.update(dict.fromkeys(facts.tables))
                    facts.conceived = True
                else:
                    spans = facts.tables.setdefault(record.span.table, {})
                    if spans.get(record.span.id) != record.span.range:
                        spans[record.span.id] = record.span.range
                        touched[record.span.table] = None
            elif isinstance(record, OperatorRecord):
                facts.operators.add(record.operator)
                operators.append(record)
            elif isinstance(record, BarrierRecord):
                facts.barriers.add(record.ddl.position)
                facts.barrier = record.ddl.position
            elif isinstance(record, ProgressRecord):
                progress = record
        self._covered(feed, facts, touched, operators)
        if progress is not None:
            self._progress(feed, facts, progress)

    def _covered(
        self,
        feed: FeedId,
        facts: FeedFacts,
        touched: dict[TableId, None],
        operators: list[OperatorRecord],
    ) -> None:
        """Held against the records while the trigger's is there: a big feed comes into being, and
        is forgotten, in several batches before and after."""
        if not facts.conceived:
            return
        for table in touched:
            ranges = list(facts.tables[table].values())
            if ranges and not covers_once(ranges):
                what = f"the recorded spans of {table} are {facts.tables[table]}"
                _broken(Law.COVER, what, feed)
        for operator in operators:
            self._operator(feed, facts, operator)

    def _operator(self, feed: FeedId, facts: FeedFacts, record: OperatorRecord) -> None:
        """A merge joins neighbours; a split's children cover the parent.

        A span that is dropped in the same batch leaves its operator behind until the next one.
        """
        if not record.results:
            return
        table = record.results[0].table
        live = facts.tables.get(table, {})
        if any(span not in live for span in record.spans):
            return
        rest = [keys for span, keys in live.items() if span not in record.spans]
        if not covers_once(rest + [spec.range for spec in record.results]):
            _broken(Law.COVER, f"{record} does not cover what it replaces", feed)

    def _progress(self, feed: FeedId, facts: FeedFacts, progress: ProgressRecord) -> None:
        if progress.checkpoint < facts.checkpoint:
            what = f"the checkpoint went from {facts.checkpoint} back to {progress.checkpoint}"
            _broken(Law.RECORD, what, feed)
        facts.checkpoint = progress.checkpoint
        facts.born = progress.born
        at = self._sink.feed(feed)
        if at.row is None or at.row.position is None:
            if progress.born and (at.row is None or not at.row.closed):
                _broken(Law.TOGETHER, "recorded as born, and nothing is at the sink", feed)
            return
        if progress.checkpoint > at.row.position:
            what = f"checkpoint {progress.checkpoint}, the trigger is at {at.row.position}"
            _broken(Law.TOGETHER, what, feed)
        for span, row in at.spans.items():
            if row.position < progress.checkpoint:
                what = f"checkpoint {progress.checkpoint}, the sink has {row.position}"
                raise LawBroken(
                    Law.TOGETHER, f"{feed}: {what}", (about_feed(feed), about_span(feed, span))
                )

    def _node(self, node: NodeId, batch: Batch) -> None:
        for record in batch.puts:
            if isinstance(record, FenceRecord):
                self._fence(node, record)
            elif isinstance(record, JournalRecord):
                span, token = record.span.id, record.token
                self.journals.add((node, record.feed, span, token, record.prepared))

    def _fence(self, node: NodeId, record: FenceRecord) -> None:
        before = self.fences.get((node, record.feed))
        if before is not None:
            down = record.epoch < before.epoch
            swapped = record.epoch == before.epoch != 0 and record.owner != before.owner
            reopened = record.epoch == before.epoch and before.closed and not record.closed
            if down or swapped or reopened:
                what = f"{record.feed}: the fence at {node} went from {before} to {record}"
                raise LawBroken(Law.FENCE, what, (about_feed(record.feed), about_node(node)))
        self.fences[node, record.feed] = record
        self.fenced.add((node, record.feed, record.epoch, record.owner, record.closed))


def _broken(law: Law, what: str, feed: FeedId) -> NoReturn:
    raise LawBroken(law, f"{feed}: {what}", (about_feed(feed),))
