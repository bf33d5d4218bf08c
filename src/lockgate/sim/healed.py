"""What must be true of a healed world: everything is done, and nothing is left over.

`missing` names the first thing that is not so yet; the world gives it time.
"""

from typing import TYPE_CHECKING

from lockgate.core.maintainer.maintainer import Maintainer
from lockgate.model.feeds import FeedState, Goal
from lockgate.model.ids import FeedId, NodeRef, SpanId, Token
from lockgate.model.records import (
    COORDINATOR,
    BarrierRecord,
    DrainRecord,
    DrainState,
    FeedRecord,
    JournalRecord,
    OperatorRecord,
    ProgressRecord,
    SpanRecord,
    feed_scope,
    node_scope,
)
from lockgate.model.spans import TRIGGER
from lockgate.model.statuses import Phase
from lockgate.sim.ledger import covers_once
from lockgate.sim.source import KEYS

if TYPE_CHECKING:
    from lockgate.sim.world import World


class Healed:
    """Looks at a whole world at once. Too dear for every step, so only for the end."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def missing(self) -> str | None:
        """What is not done yet, or None."""
        waiting = self._world.people.waiting()
        if waiting:
            return f"people wait for an answer to {waiting}"
        for feed in self._world.sources:
            record = self._world.feed_record(feed)
            if record is None:
                return f"{feed} was never created"
            found = self._feed(feed, record)
            if found is not None:
                return f"{feed} ({record.state.value}): {found}"
        return self._drains() or self._journals()

    def _feed(self, feed: FeedId, record: FeedRecord) -> str | None:
        if record.goal is Goal.RUN:
            trouble = (
                None if record.state is FeedState.NORMAL else "runs, and its trouble is not over"
            )
            return self._running(feed, record) or trouble
        if record.state in {FeedState.WARNING, FeedState.FAILED}:
            return f"in trouble: {record.error}"
        if record.owner is not None:
            return f"goal {record.goal.value} is not reached by {record.owner}"
        for node in self._world.nodes.values():
            for of, span in node.executor.running:
                if of == feed:
                    return f"{span} still runs on {node.id}"
            if node.maintainer(feed) is not None:
                return f"a maintainer is still on {node.id}"
        if record.goal is Goal.REMOVE:
            return self._removed(feed, record)
        return None

    def _removed(self, feed: FeedId, record: FeedRecord) -> str | None:
        if record.state is not FeedState.REMOVED:
            return "not removed yet"
        left = self._world.metastore.store.records(feed_scope(feed))
        if left:
            return f"removed, and {list(left)} is left"
        at = self._world.sink.feed(feed)
        if at.row is None or not at.row.closed or at.spans:
            return "removed, and the sink has no tombstone"
        return None

    # --- a running feed ---------------------------------------------------------------------

    def _running(self, feed: FeedId, record: FeedRecord) -> str | None:
        if record.owner is None:
            return "no owner"
        node = self._world.nodes[record.owner.node]
        maintainer = node.maintainer(feed)
        if maintainer is None or maintainer.epoch != record.epoch:
            return f"no maintainer of epoch {record.epoch} on {node.id}"
        for other in self._world.nodes.values():
            if other is not node and other.maintainer(feed) is not None:
                return f"a maintainer too many on {other.id}"
        if maintainer.state is not Phase.RUNNING:
            return f"the maintainer is {maintainer.state.value}"
        return (
            self._intent(feed, maintainer)
            or self._placement(feed)
            or self._progress(feed)
            or self._rows(feed)
        )

    def _intent(self, feed: FeedId, maintainer: Maintainer) -> str | None:
        if maintainer.operators:
            return f"operators {[operator.name for operator in maintainer.operators.values()]}"
        tables: dict[str, list[SpanRecord]] = {}
        for record in self._world.metastore.store.records(feed_scope(feed)).values():
            if isinstance(record, OperatorRecord | BarrierRecord):
                return f"{record} is left"
            if isinstance(record, SpanRecord) and record.id != TRIGGER:
                tables.setdefault(record.span.table, []).append(record)
        alive = self._world.sources[feed].alive
        if sorted(tables) != sorted(alive):
            return f"spans of {sorted(tables)}, at the source are {sorted(alive)}"
        for table, records in tables.items():
            if not covers_once([record.span.range for record in records]):
                return f"{table} is not covered once"
        return None

    def _placement(self, feed: FeedId) -> str | None:
        """Executors run exactly what is recorded, under the tokens that the sink has."""
        recorded: dict[SpanId, tuple[NodeRef | None, Token]] = {
            record.id: (record.node, record.token)
            for record in self._world.metastore.store.records(feed_scope(feed)).values()
            if isinstance(record, SpanRecord)
        }
        running: dict[SpanId, tuple[NodeRef | None, Token]] = {}
        for node in self._world.nodes.values():
            for (of, span), dispatcher in node.executor.running.items():
                if of != feed:
                    continue
                if span in running:
                    return f"{span} runs twice"
                if dispatcher.floors is None:
                    return f"{span} has not claimed its row"
                token = dispatcher.token
                running[span] = (NodeRef(node.id, token.incarnation), token)
        if running != recorded:
            odd = [span for span in recorded if running.get(span) != recorded[span]]
            ghosts = [span for span in running if span not in recorded]
            return f"not running as recorded: {odd}; ghosts: {ghosts}"
        return None

    def _progress(self, feed: FeedId) -> str | None:
        head = self._world.sources[feed].head
        records = self._world.metastore.store.records(feed_scope(feed)).values()
        checkpoint = [record.checkpoint for record in records if isinstance(record, ProgressRecord)]
        if checkpoint != [head]:
            return f"checkpoint {checkpoint}, the source ends at {head}"
        return None

    def _rows(self, feed: FeedId) -> str | None:
        """The sink's tables are the source's, row by row."""
        source, at = self._world.sources[feed], self._world.sink.feed(feed)
        if sorted(at.tables) != sorted(source.alive):
            return f"tables {sorted(at.tables)} at the sink"
        for name, table in at.tables.items():
            log = source.logs[name]
            if table.version != source.alive[name]:
                return f"{name} has schema {table.version}, not {source.alive[name]}"
            for key in range(len(KEYS)):
                if table.rows[key] != log.value_at(key, source.head):
                    return f"{name} key {key} is {table.rows[key]}"
        return None

    # --- nodes ------------------------------------------------------------------------------

    def _drains(self) -> str | None:
        for record in self._world.metastore.store.records(COORDINATOR).values():
            if isinstance(record, DrainRecord) and record.state is not DrainState.DRAINED:
                return f"{record.node} is not drained yet"
        return None

    def _journals(self) -> str | None:
        """What a node has noted is what it runs. What an unfenced owner asked for, and the sink
        refused, waits for that owner's word, which nobody in this world gives."""
        for node in self._world.nodes.values():
            noted = {
                (record.feed, record.span.id): record.token.epoch
                for record in self._world.metastore.store.records(node_scope(node.id)).values()
                if isinstance(record, JournalRecord)
            }
            running = set(node.executor.running)
            idle = {key for key, epoch in noted.items() if epoch and key not in running}
            if idle or not running <= noted.keys():
                return f"{node.id} has noted {sorted(noted)}"
        return None
