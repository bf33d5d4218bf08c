"""Emptying a node, so that it can be taken away.

    DrainNode ──► DRAINING ──── the node itself reported: nothing is here ────► DRAINED
                    ▲  │                                                          │
                    │  └──────────── this life of the node ended ────────┐        │
                    └──── it reported that something is here again ──────┼────────┘
                                                                         ▼
                                                                     (deleted)

A drain is a record, so it survives the coordinator (O10), and it names one *life* of the node:
a node that starts again starts empty and was asked nothing.

The metastore shows a draining member as such to everybody. Maintainers then move their
dispatchers away; the coordinator moves the maintainers (`Care.empty_draining_nodes`).

Only the node's own word counts, and only a word that is younger than the record: a report that
was on its way when the drain was asked for says nothing about what was started since, and it may
have been on its way for long, to a coordinator that was paused. No number and no clock tells. So
the node says itself that it knew of the drain when it spoke. And a lease's time must have passed,
in which every other living node has renewed and learned of it, too. Should something arrive at the
node after that all the same, it is DRAINING again.
"""

from collections.abc import Callable, Iterable

from lockgate.core.coordinator.roster import Roster
from lockgate.core.writer import Writer
from lockgate.model.ids import Millis, NodeId, NodeRef
from lockgate.model.messages import NodeReport
from lockgate.model.records import DrainRecord, DrainState, key_of


class Drains:
    """All drains under way or done, and what is needed to tell when one is done."""

    def __init__(
        self, writer: Writer, roster: Roster, lease_ms: Millis, records: Iterable[DrainRecord]
    ) -> None:
        self.decided: dict[NodeId, DrainRecord] = {record.id: record for record in records}
        self._writer = writer
        self._roster = roster
        self._lease_ms = lease_ms
        self._known_since: dict[NodeRef, Millis] = {}
        """Of each durable drain: the time when that was learned."""

    def resume(self, now: Millis) -> None:
        """After a takeover: these records are durable."""
        for record in self.decided.values():
            self._known_since[record.node] = now

    def includes(self, ref: NodeRef) -> bool:
        """True for a life of a node that is being emptied, or is empty and stays so."""
        record = self.decided.get(ref.node)
        return record is not None and record.node == ref

    def begin(self, ref: NodeRef, clock: Callable[[], Millis], then: Callable[[], None]) -> None:
        """Record the drain; run `then` when it is durable."""
        record = DrainRecord(ref)

        def recorded() -> None:
            self._known_since[ref] = clock()
            then()

        self.decided[record.id] = record
        self._writer.write(puts=(record,), then=recorded)

    def hear(self, now: Millis, report: NodeReport) -> None:
        """See what a node's report means for its drain, if it has one that is durable."""
        record = self.decided.get(report.node.node)
        if record is None or record.node != report.node or report.node not in self._known_since:
            return
        if not _is_empty(report):
            self._turn(record, DrainState.DRAINING)
        elif self._is_younger(now, report):
            self._turn(record, DrainState.DRAINED)

    def _is_younger(self, now: Millis, report: NodeReport) -> bool:
        return report.draining and now - self._known_since[report.node] >= self._lease_ms

    def _turn(self, record: DrainRecord, state: DrainState) -> None:
        if record.state is not state:
            turned = DrainRecord(record.node, state)
            self.decided[record.id] = turned
            self._writer.write(puts=(turned,))

    def forget_ended_lives(self) -> None:
        """Delete the drains of nodes that died or started again; wait until members are known."""
        if not self._roster.members:
            return
        for record in list(self.decided.values()):
            if record.node not in self._roster.members:
                del self.decided[record.id]
                self._known_since.pop(record.node, None)
                self._writer.write(deletes=(key_of(record),))


def _is_empty(report: NodeReport) -> bool:
    return not report.maintainers and report.dispatchers == 0
