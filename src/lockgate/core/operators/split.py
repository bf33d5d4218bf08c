"""split: turn a span into several that cover exactly its keys.

    RECORDING ──recorded──► STOPPING ──parent gone──► COMMITTING ──recorded──► CREATING ──► DONE
        │                      │                          │                        │
        └─ dropped, origin lost┴─► DONE, nothing was done │ origin lost: DONE, the children absent

The commit point is one batch: the parent's record goes, the children's come, placed on the
parent's node. Before it there is no child anywhere; after it there is no parent. At the sink
the first child to claim its row turns the parent's row into the children's.

The children's tokens are taken when the split begins: they carry its epoch and its place in
the sequence, whatever happens until they are used.
"""

import enum

from lockgate.core.machine import do, ignore, table
from lockgate.core.operators.add import OVER, Placement
from lockgate.core.operators.base import EVENTS, Dropped, Hands, Lost, Operator, Recorded, Seen
from lockgate.core.operators.remove import Removal
from lockgate.model.events import Tick
from lockgate.model.ids import Millis, NodeRef, OperatorId, Seq, SpanId
from lockgate.model.records import OperatorKind, OperatorRecord, RecordKey, SpanRecord, key_of
from lockgate.model.spans import Lineage, SpanSpec
from lockgate.model.statuses import Stage


class SplitState(enum.Enum):
    """See the module's diagram."""

    RECORDING = "recording"
    STOPPING = "stopping"
    COMMITTING = "committing"
    CREATING = "creating"
    DONE = "done"


class Split(Operator):
    """Cut a span into children."""

    kind = OperatorKind.SPLIT
    TABLE = table(
        SplitState,
        EVENTS,
        {
            SplitState.RECORDING: {
                Recorded: do("_stop"),
                Seen: ignore("nothing was asked yet"),
                Lost: do("_lost_before"),
                Dropped: do("_dropped_before"),
                Tick: ignore("the writer repeats"),
            },
            SplitState.STOPPING: {
                Recorded: ignore("known"),
                Seen: do("_seen_stopping"),
                Lost: do("_lost_before"),
                Dropped: do("_dropped_before"),
                Tick: do("_tick"),
            },
            SplitState.COMMITTING: {
                Recorded: do("_create"),
                Seen: ignore("nothing was asked of the children yet"),
                Lost: do("_lost_after"),
                Dropped: do("_dropped_unasked"),
                Tick: ignore("the writer repeats"),
            },
            SplitState.CREATING: {
                Recorded: ignore("known"),
                Seen: do("_seen_creating"),
                Lost: do("_lost_after"),
                Dropped: do("_dropped_after"),
                Tick: do("_tick"),
            },
            SplitState.DONE: OVER,
        },
    )

    def __init__(
        self,
        operator: OperatorId,
        hands: Hands,
        first_seq: Seq,
        parent: SpanId,
        origin: NodeRef,
        children: tuple[SpanSpec, ...],
    ) -> None:
        super().__init__(operator, hands, first_seq, SplitState.RECORDING)
        self.parent = parent
        self.origin = origin
        self.removal = Removal(hands, parent, origin, hands.next_token(origin))
        self.children = children
        self.pending: dict[SpanId, Placement] = {
            child.id: Placement(hands, child.id, origin, hands.next_token(origin))
            for child in children
        }
        """Children that are not yet seen to run."""
        self.record = OperatorRecord(
            operator, self.kind, (parent,), self.removal.token, results=children
        )

    @property
    def committed(self) -> bool:
        """The children are recorded, or about to be; the parent is no more."""
        return self.state in (SplitState.COMMITTING, SplitState.CREATING)

    @property
    def spans(self) -> tuple[SpanId, ...]:
        return tuple(self.pending) if self.committed else (self.parent,)

    def begin(self, now: Millis) -> None:
        self.now = now
        self.hands.record(puts=(self.record,), then=self._recorded)

    # --- before the commit point ------------------------------------------------------------

    def _stop(self, _: Recorded) -> None:
        self.state = SplitState.STOPPING
        self.repeat()

    def _seen_stopping(self, seen: Seen) -> None:
        if self.removal.is_done(seen):
            self._commit()

    def _lost_before(self, lost: Lost) -> None:
        if lost.node == self.origin:
            self.hands.spans.lose(self.parent)
            self._abort()

    def _dropped_before(self, _: Dropped) -> None:
        self._abort()
        self.hands.remove(self.parent, self.origin)

    def _abort(self) -> None:
        self.hands.record(deletes=(key_of(self.record),))
        self._end()

    # --- the commit point -------------------------------------------------------------------

    def _commit(self) -> None:
        spans = self.hands.spans
        parent = spans.drop(self.parent)
        lineage = Lineage((self.parent,), self.children)
        records = [
            SpanRecord(
                child,
                self.origin,
                self.pending[child.id].token,
                lineage=lineage,
                start=parent.position,
            )
            for child in self.children
        ]
        for record in records:
            spans.add(record)
        self.state = SplitState.COMMITTING
        self.hands.regrip(self)
        self.hands.record(
            puts=records,
            deletes=(RecordKey("span", self.parent), key_of(self.record)),
            then=self._recorded,
        )

    # --- after it ---------------------------------------------------------------------------

    def _create(self, _: Recorded) -> None:
        self.state = SplitState.CREATING
        self.repeat()
        self._end_if_through()

    def _seen_creating(self, seen: Seen) -> None:
        child = self.pending.get(seen.status.span)
        if child is None:
            return
        verdict = child.verdict(seen)
        if verdict is None:
            return
        if verdict is Stage.GONE:
            child.lose()
        self._let_go(child.span)

    def _lost_after(self, lost: Lost) -> None:
        if lost.node != self.origin:
            return
        for child in self.pending.values():
            child.lose()
        self.pending.clear()
        self._end()

    def _dropped_unasked(self, dropped: Dropped) -> None:
        self.pending.pop(dropped.span, None)
        self.hands.regrip(self)

    def _dropped_after(self, dropped: Dropped) -> None:
        self._let_go(dropped.span)
        self.hands.remove(dropped.span, self.origin)

    def _let_go(self, child: SpanId) -> None:
        self.pending.pop(child, None)
        self.hands.regrip(self)
        self._end_if_through()

    def _end_if_through(self) -> None:
        if not self.pending:
            self._end()

    # --- both -------------------------------------------------------------------------------

    def repeat(self) -> None:
        self.asked_at = self.now
        if self.state is SplitState.STOPPING:
            self.removal.ask()
        else:
            for child in self.pending.values():
                child.ask()
