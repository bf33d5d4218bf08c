"""add: run an absent span on a node.

    RECORDING ──recorded──► CREATING ──seen working──► DONE
        │                      │
        └── node lost ─────────┴── node lost, fenced, failed, gone ──► DONE, span absent again

The record of an add is the span's own record: where it is to run, under which token. A
successor finds the span there, or not, and goes on from that.
"""

import enum

from lockgate.core.machine import Cell, do, ignore, table
from lockgate.core.operators.base import EVENTS, Dropped, Hands, Lost, Operator, Recorded, Seen
from lockgate.model.events import Tick
from lockgate.model.ids import Millis, NodeRef, OperatorId, Seq, SpanId, Token
from lockgate.model.records import OperatorKind
from lockgate.model.requests import Create
from lockgate.model.statuses import Stage

ENDED_STAGES = (Stage.FENCED, Stage.FAILED, Stage.GONE)
OVER: dict[type, Cell] = dict.fromkeys(EVENTS, ignore("it is through"))


class Placement:
    """A span on its way onto a node: recorded, asked for, seen. Shared by all who place spans."""

    __slots__ = ("hands", "node", "span", "token")

    def __init__(self, hands: Hands, span: SpanId, node: NodeRef, token: Token) -> None:
        self.hands = hands
        self.span = span
        self.node = node
        self.token = token

    def ask(self) -> None:
        """Ask the node to run it."""
        span = self.hands.spans.get(self.span)
        if span is not None:
            record = span.record
            self.hands.ask(self.node, Create(record.span, self.token, record.lineage, record.birth))

    def verdict(self, seen: Seen) -> Stage | None:
        """WORKING when it runs, GONE when it will not, None when there is nothing to say yet."""
        status = seen.status
        if seen.node != self.node or status.span != self.span:
            return None
        if status.stage is Stage.GONE:
            return Stage.GONE if status.token >= self.token else None
        if status.token != self.token:
            return None
        if status.stage is Stage.WORKING:
            return Stage.WORKING
        return Stage.GONE if status.stage in ENDED_STAGES else None

    def lose(self) -> None:
        """It will not run there: somebody has to place it anew."""
        self.hands.spans.lose(self.span)


class AddState(enum.Enum):
    """See the module's diagram."""

    RECORDING = "recording"
    CREATING = "creating"
    DONE = "done"


class Add(Operator):
    """Run an absent span."""

    kind = OperatorKind.ADD
    TABLE = table(
        AddState,
        EVENTS,
        {
            AddState.RECORDING: {
                Recorded: do("_create"),
                Seen: ignore("nothing was asked yet"),
                Lost: do("_lost"),
                Dropped: do("_dropped_unasked"),
                Tick: ignore("the writer repeats"),
            },
            AddState.CREATING: {
                Recorded: ignore("known"),
                Seen: do("_seen"),
                Lost: do("_lost"),
                Dropped: do("_dropped"),
                Tick: do("_tick"),
            },
            AddState.DONE: OVER,
        },
    )

    def __init__(
        self, operator: OperatorId, hands: Hands, first_seq: Seq, span: SpanId, node: NodeRef
    ) -> None:
        super().__init__(operator, hands, first_seq, AddState.RECORDING)
        self.placement = Placement(hands, span, node, hands.next_token(node))

    @property
    def spans(self) -> tuple[SpanId, ...]:
        return (self.placement.span,)

    def begin(self, now: Millis) -> None:
        self.now = now
        place = self.placement
        span = self.hands.spans.place(place.span, place.node, place.token)
        self.hands.record(puts=(span.record,), then=self._recorded)

    def _create(self, _: Recorded) -> None:
        self.state = AddState.CREATING
        self.repeat()

    def repeat(self) -> None:
        self.asked_at = self.now
        self.placement.ask()

    def _seen(self, seen: Seen) -> None:
        verdict = self.placement.verdict(seen)
        if verdict is Stage.WORKING:
            self._end()
        elif verdict is Stage.GONE:
            self.placement.lose()
            self._end()

    def _lost(self, lost: Lost) -> None:
        if lost.node == self.placement.node:
            self.placement.lose()
            self._end()

    def _dropped_unasked(self, _: Dropped) -> None:
        self._end()

    def _dropped(self, _: Dropped) -> None:
        self._end()
        self.hands.remove(self.placement.span, self.placement.node)
