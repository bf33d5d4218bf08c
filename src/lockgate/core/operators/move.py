"""move: stop a span on its node, then run it on another.

    RECORDING ──recorded──► STOPPING ──seen gone, or origin lost──► PLACING ──recorded──► CREATING
        │                       │                                     │                      │
        │ destination lost      │ destination lost                    │ lost                 │ seen
        ▼                       ▼                                     ▼                      ▼
    DONE, stays at origin   DONE, absent once gone                DONE, absent             DONE

The destination is asked only after the origin is gone or lost. If it is lost, not gone, the
claim of the destination at the sink shuts it out, and tells the exact position to go on from.
"""

import enum

from lockgate.core.machine import do, ignore, table
from lockgate.core.operators.add import OVER, Placement
from lockgate.core.operators.base import EVENTS, Dropped, Hands, Lost, Operator, Recorded, Seen
from lockgate.core.operators.remove import Removal
from lockgate.model.events import Tick
from lockgate.model.ids import Millis, NodeRef, OperatorId, Seq, SpanId
from lockgate.model.records import OperatorKind, OperatorRecord, key_of
from lockgate.model.statuses import Stage


class MoveState(enum.Enum):
    """See the module's diagram."""

    RECORDING = "recording"
    STOPPING = "stopping"
    PLACING = "placing"
    CREATING = "creating"
    DONE = "done"


class Move(Operator):
    """Run a span elsewhere."""

    kind = OperatorKind.MOVE
    TABLE = table(
        MoveState,
        EVENTS,
        {
            MoveState.RECORDING: {
                Recorded: do("_stop"),
                Seen: ignore("nothing was asked yet"),
                Lost: do("_lost_early"),
                Dropped: do("_dropped_early"),
                Tick: ignore("the writer repeats"),
            },
            MoveState.STOPPING: {
                Recorded: ignore("known"),
                Seen: do("_seen_stopping"),
                Lost: do("_lost_stopping"),
                Dropped: do("_dropped_early"),
                Tick: do("_tick"),
            },
            MoveState.PLACING: {
                Recorded: do("_create"),
                Seen: ignore("nothing was asked of the destination yet"),
                Lost: do("_lost_late"),
                Dropped: do("_dropped_unasked"),
                Tick: ignore("the writer repeats"),
            },
            MoveState.CREATING: {
                Recorded: ignore("known"),
                Seen: do("_seen_creating"),
                Lost: do("_lost_late"),
                Dropped: do("_dropped_late"),
                Tick: do("_tick"),
            },
            MoveState.DONE: OVER,
        },
    )

    def __init__(
        self,
        operator: OperatorId,
        hands: Hands,
        first_seq: Seq,
        span: SpanId,
        origin: NodeRef,
        destination: NodeRef,
    ) -> None:
        super().__init__(operator, hands, first_seq, MoveState.RECORDING)
        self.span = span
        self.origin: NodeRef | None = origin
        self.destination: NodeRef | None = destination
        self.removal = Removal(hands, span, origin, hands.next_token(origin))
        self.placement: Placement | None = None
        self.record = OperatorRecord(
            operator, self.kind, (span,), self.removal.token, destination=destination
        )

    @property
    def spans(self) -> tuple[SpanId, ...]:
        return (self.span,)

    def begin(self, now: Millis) -> None:
        self.now = now
        self.hands.record(puts=(self.record,), then=self._recorded)

    # --- up to the stop ---------------------------------------------------------------------

    def _stop(self, _: Recorded) -> None:
        if self.destination is None:
            self._give_up()
        elif self.origin is None:
            self._place(self.destination)
        else:
            self.state = MoveState.STOPPING
            self.repeat()

    def _lost_early(self, lost: Lost) -> None:
        """Nothing was asked yet: the origin keeps the span, if it is there to keep it."""
        self._note_loss(lost)

    def _dropped_early(self, _: Dropped) -> None:
        self._give_up()
        if self.origin is not None:
            self.hands.remove(self.span, self.origin)

    def _seen_stopping(self, seen: Seen) -> None:
        if self.removal.is_done(seen):
            self._origin_is_out()

    def _lost_stopping(self, lost: Lost) -> None:
        self._note_loss(lost)
        if self.origin is None:
            self._origin_is_out()

    def _note_loss(self, lost: Lost) -> None:
        if lost.node == self.destination:
            self.destination = None
        if lost.node == self.origin:
            self.origin = None
            self.hands.spans.lose(self.span)

    def _origin_is_out(self) -> None:
        if self.destination is not None:
            self._place(self.destination)
        else:
            self.hands.spans.lose(self.span)
            self._give_up()

    # --- from the stop on -------------------------------------------------------------------

    def _place(self, node: NodeRef) -> None:
        """Commit: the span's record says the new place, the operator's record is gone."""
        self.state = MoveState.PLACING
        self.placement = Placement(self.hands, self.span, node, self.hands.next_token(node))
        span = self.hands.spans.place(self.span, node, self.placement.token)
        self.hands.record(puts=(span.record,), deletes=(key_of(self.record),), then=self._recorded)

    def _create(self, _: Recorded) -> None:
        self.state = MoveState.CREATING
        self.repeat()

    def _seen_creating(self, seen: Seen) -> None:
        assert self.placement is not None
        verdict = self.placement.verdict(seen)
        if verdict is Stage.WORKING:
            self._end()
        elif verdict is Stage.GONE:
            self.placement.lose()
            self._end()

    def _lost_late(self, lost: Lost) -> None:
        assert self.placement is not None
        if lost.node == self.placement.node:
            self.placement.lose()
            self._end()

    def _dropped_unasked(self, _: Dropped) -> None:
        self._end()

    def _dropped_late(self, _: Dropped) -> None:
        assert self.placement is not None
        self._end()
        self.hands.remove(self.span, self.placement.node)

    # --- both -------------------------------------------------------------------------------

    def repeat(self) -> None:
        self.asked_at = self.now
        if self.placement is not None:
            self.placement.ask()
        else:
            self.removal.ask()

    def _give_up(self) -> None:
        self.hands.record(deletes=(key_of(self.record),))
        self._end()
