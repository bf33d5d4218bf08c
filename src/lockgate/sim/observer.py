"""Hits the probes that can be told from what is written, loaded and delivered."""

from collections.abc import Callable

from lockgate.core.maintainer.maintainer import Maintainer
from lockgate.model.batch import Batch, Loaded
from lockgate.model.feeds import FeedState
from lockgate.model.ids import FeedId, NodeId, NodeRef, OperatorId, SpanId
from lockgate.model.messages import Bootstrap, BootstrapReply, Message, Requests, Stale
from lockgate.model.records import (
    COORDINATOR,
    BarrierRecord,
    DrainRecord,
    DrainState,
    FeedRecord,
    FenceRecord,
    JournalRecord,
    OperatorKind,
    OperatorRecord,
    SpanRecord,
    feed_scope,
)
from lockgate.model.spans import TRIGGER
from lockgate.model.statuses import Phase
from lockgate.sim.probes import Probe, Probes
from lockgate.sim.sink import Sink
from lockgate.store.memory import MemoryMetastore

COMMITTED = {
    OperatorKind.MOVE: Probe.MOVE_COMMITTED,
    OperatorKind.SPLIT: Probe.SPLIT_COMMITTED,
    OperatorKind.MERGE: Probe.MERGE_COMMITTED,
}
GIVEN_UP = {
    OperatorKind.MOVE: Probe.MOVE_GIVEN_UP,
    OperatorKind.SPLIT: Probe.SPLIT_GIVEN_UP,
    OperatorKind.MERGE: Probe.MERGE_GIVEN_UP,
}
LOADED = {
    OperatorKind.MOVE: Probe.LOADED_MOVE,
    OperatorKind.SPLIT: Probe.LOADED_SPLIT,
    OperatorKind.MERGE: Probe.LOADED_MERGE,
}
OWNER_DIED = {
    OperatorKind.MOVE: Probe.CRASH_OWNER_IN_MOVE,
    OperatorKind.SPLIT: Probe.CRASH_OWNER_IN_SPLIT,
    OperatorKind.MERGE: Probe.CRASH_OWNER_IN_MERGE,
}
ORIGIN_DIED = {
    OperatorKind.MOVE: Probe.CRASH_ORIGIN_OF_MOVE,
    OperatorKind.SPLIT: Probe.CRASH_ORIGIN_OF_SPLIT,
    OperatorKind.MERGE: Probe.CRASH_SOURCE_OF_MERGE,
}
ENDING = (Phase.CLOSING, Phase.REVOKING, Phase.FORGETTING)


class Observer:
    """Looks on. Changes nothing, and nothing depends on it."""

    def __init__(self, probes: Probes, sink: Sink, store: Callable[[], MemoryMetastore]) -> None:
        self._probes = probes
        self._sink = sink
        self._store = store
        self._operators: dict[tuple[FeedId, OperatorId], OperatorRecord] = {}
        self._states: dict[FeedId, FeedState] = {}
        self._owners: dict[FeedId, tuple[NodeId, int]] = {}
        self._drains: dict[NodeId, NodeRef] = {}
        self._fences: dict[tuple[NodeId, FeedId], FenceRecord] = {}
        self._fenced_by: dict[tuple[NodeId, FeedId], int] = {}
        """The life that wrote the fence."""
        self._replied: set[tuple[FeedId, int, NodeRef]] = set()

    # --- the metastore ----------------------------------------------------------------------

    def landed(self, batch: Batch) -> list[tuple[FeedId, OperatorRecord]]:
        """A batch is durable; returns the merges that it commits."""
        scope = batch.scope
        if scope == COORDINATOR:
            self._coordinator(batch)
        elif scope.startswith("feed:"):
            return self._feed(scope.removeprefix("feed:"), batch)
        else:
            for record in batch.puts:
                if isinstance(record, FenceRecord):
                    node = scope.removeprefix("node:")
                    self._fences[node, record.feed] = record
                    self._fenced_by[node, record.feed] = batch.fence
                    if record.epoch == 0 and record.owner is not None:
                        self._probes.hit(Probe.UNFENCED_ADMITTED)
        return []

    def _coordinator(self, batch: Batch) -> None:
        hit = self._probes.hit
        for key in batch.deletes:
            if key.kind == "drain" and self._drains.pop(key.id, None) is not None:
                hit(Probe.DRAIN_ENDED_BY_RESTART)
        for record in batch.puts:
            if isinstance(record, DrainRecord):
                self._drains[record.id] = record.node
                if record.state is DrainState.DRAINED:
                    hit(Probe.DRAIN_DONE)
            elif isinstance(record, FeedRecord):
                self._feed_record(record)

    def _feed_record(self, record: FeedRecord) -> None:
        hit = self._probes.hit
        before = self._states.get(record.feed)
        self._states[record.feed] = record.state
        if record.owner is None and record.state is FeedState.STOPPED:
            hit(Probe.FEED_STOPPED)
        if record.state is not before:
            if before is FeedState.STOPPED and record.state is FeedState.NORMAL:
                hit(Probe.FEED_RESUMED)
            elif record.state is FeedState.REMOVED:
                hit(Probe.FEED_REMOVED)
            elif record.state is FeedState.FINISHED:
                hit(Probe.FEED_FINISHED)
            elif record.state is FeedState.FAILED:
                hit(Probe.FEED_FAILED)
            elif record.state is FeedState.WARNING:
                hit(Probe.FEED_RETRIED)
        if record.owner is not None:
            owner = self._owners.get(record.feed)
            if owner is not None and owner[0] == record.owner.node and owner[1] < record.epoch:
                hit(Probe.SUCCESSOR_ON_SAME_NODE)
            self._owners[record.feed] = (record.owner.node, record.epoch)

    def _feed(self, feed: FeedId, batch: Batch) -> list[tuple[FeedId, OperatorRecord]]:
        merges: list[tuple[FeedId, OperatorRecord]] = []
        put: dict[SpanId, None] = {}
        for record in batch.puts:
            if isinstance(record, OperatorRecord):
                self._operators[feed, record.operator] = record
            elif isinstance(record, SpanRecord):
                put[record.id] = None
        dropped: dict[SpanId, None] = {}
        for key in batch.deletes:
            if key.kind == "span":
                dropped[key.id] = None
        self._dropped(feed, dropped, put)
        for key in batch.deletes:
            if key.kind == "operator":
                operator = self._operators.pop((feed, key.id), None)
                if operator is not None:
                    results = [spec.id for spec in operator.results] or list(operator.spans)
                    done = all(span in put for span in results)
                    self._probes.hit((COMMITTED if done else GIVEN_UP)[operator.kind])
                    if done and operator.kind is OperatorKind.MERGE:
                        merges.append((feed, operator))
        return merges

    def _dropped(self, feed: FeedId, dropped: dict[SpanId, None], put: dict[SpanId, None]) -> None:
        """Spans that go although an operator has them, and nothing takes their place."""
        for (of, _), operator in self._operators.items() if dropped else ():
            gone = any(span in dropped for span in operator.spans)
            if of == feed and gone and not any(spec.id in put for spec in operator.results):
                self._probes.hit(Probe.OPERATOR_MET_DROP)

    def ticked(self, maintainers: list[Maintainer], hung: set[NodeId]) -> None:
        """A node looks after its maintainers."""
        for maintainer in maintainers if hung else ():
            if maintainer.state is Phase.RUNNING and any(
                view.ref.node in hung for view in maintainer.nodes.waiting()
            ):
                self._probes.hit(Probe.HUNG_PAST_BOOTSTRAP)

    def loaded(self, loaded: Loaded) -> None:
        """An owner reads what its predecessor left."""
        for record in loaded.records:
            if isinstance(record, OperatorRecord):
                self._probes.hit(LOADED[record.kind])
            elif isinstance(record, BarrierRecord):
                self._probes.hit(Probe.LOADED_BARRIER)
            elif isinstance(record, JournalRecord):
                self._probes.hit(Probe.LOADED_JOURNAL)

    # --- messages ---------------------------------------------------------------------------

    def sent(self, message: Message) -> None:
        """A node says something."""
        if isinstance(message, Stale):
            if message.epoch == 0:
                self._probes.hit(Probe.UNFENCED_REFUSED)
            else:
                self._probes.hit(Probe.STALE_TOLD)

    def delivered(self, node: NodeId, incarnation: int, message: Message) -> None:
        """A node, in this life of it, hears something."""
        hit = self._probes.hit
        if isinstance(message, Requests):
            if message.to < incarnation:
                hit(Probe.MESSAGE_TO_FORMER_LIFE)
        elif isinstance(message, Bootstrap):
            fence = self._fences.get((node, message.feed))
            if fence is not None and fence.closed and 0 < message.epoch <= fence.epoch:
                hit(Probe.TOMBSTONE_STOPPED_BOOTSTRAP)
                if self._fenced_by[node, message.feed] < incarnation:
                    hit(Probe.TOMBSTONE_OF_FORMER_LIFE)
        elif isinstance(message, BootstrapReply):
            key = (message.feed, message.epoch, message.node)
            if key in self._replied:
                hit(Probe.BOOTSTRAP_ANSWERED_TWICE)
            self._replied.add(key)

    def answered(self, maintainer: Maintainer | None, reply: BootstrapReply, newest: int) -> None:
        """A bootstrap's answer meets its maintainer."""
        if maintainer is None or maintainer.epoch != reply.epoch:
            return
        if maintainer.state is Phase.RUNNING:
            self._probes.hit(Probe.BOOTSTRAP_ANSWERED_LATE)
        if reply.node.incarnation < newest:
            self._probes.hit(Probe.REPLY_OF_FORMER_LIFE)

    # --- crashes ----------------------------------------------------------------------------

    def crashed(self, node: NodeId, maintainers: list[Maintainer]) -> None:
        """A process is about to be gone: what was it in the middle of?"""
        store = self._store()
        hit = self._probes.hit
        if store.leader is not None and store.leader.ref.node == node:
            hit(Probe.CRASH_COORDINATOR)
            if self._drains:
                hit(Probe.CRASH_COORDINATOR_IN_DRAIN)
        if any(maintainer.state in ENDING for maintainer in maintainers):
            hit(Probe.CRASH_OWNER_CLOSING)
        for (feed, _), operator in self._operators.items():
            self._crash_in_operator(node, feed, operator)
        for feed in self._owners:
            self._crash_in_barrier(node, feed)

    def _crash_in_operator(self, node: NodeId, feed: FeedId, operator: OperatorRecord) -> None:
        hit = self._probes.hit
        if self._owners.get(feed, ("", 0))[0] == node:
            hit(OWNER_DIED[operator.kind])
        if operator.destination is not None and operator.destination.node == node:
            hit(Probe.CRASH_DESTINATION_OF_MOVE)
        for record in self._store().records(feed_scope(feed)).values():
            if isinstance(record, SpanRecord) and record.id in operator.spans and _on(record, node):
                hit(ORIGIN_DIED[operator.kind])
                return

    def _crash_in_barrier(self, node: NodeId, feed: FeedId) -> None:
        hit = self._probes.hit
        barrier: BarrierRecord | None = None
        trigger: SpanRecord | None = None
        for record in self._store().records(feed_scope(feed)).values():
            if isinstance(record, BarrierRecord):
                barrier = record
            elif isinstance(record, SpanRecord) and record.id == TRIGGER:
                trigger = record
        if barrier is None:
            return
        if self._owners[feed][0] == node:
            hit(Probe.CRASH_OWNER_IN_BARRIER)
        if trigger is not None and _on(trigger, node):
            hit(Probe.CRASH_TRIGGER_IN_BARRIER)
            row = self._sink.feed(feed).row
            if row is not None and (row.position or 0) >= barrier.ddl.position:
                hit(Probe.CRASH_DDL_UNREPORTED)


def _on(record: SpanRecord, node: NodeId) -> bool:
    return record.node is not None and record.node.node == node
