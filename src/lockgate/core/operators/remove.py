"""remove: see to it that nothing of a span that is no more runs on a node.

    WAITING ──all records before it are durable──► REMOVING ──seen gone──► DONE
       └──────────────── node lost ───────────────────┴──────────────────► DONE

The record of a remove is the absence of the span's record. A node that has no such dispatcher
says so, and clears whatever stands in its name; a successor that is told of a dispatcher
without a record asks for its removal again.
"""

import enum

from lockgate.core.machine import do, ignore, table
from lockgate.core.operators.add import OVER
from lockgate.core.operators.base import EVENTS, Dropped, Hands, Lost, Operator, Recorded, Seen
from lockgate.model.events import Tick
from lockgate.model.ids import Millis, NodeRef, OperatorId, Seq, SpanId, Token
from lockgate.model.records import OperatorKind
from lockgate.model.requests import Remove as RemoveRequest
from lockgate.model.statuses import Stage


class Removal:
    """A dispatcher on its way out: asked for, seen gone. Shared by all who stop dispatchers."""

    __slots__ = ("hands", "node", "span", "token")

    def __init__(self, hands: Hands, span: SpanId, node: NodeRef, token: Token) -> None:
        self.hands = hands
        self.span = span
        self.node = node
        self.token = token

    def ask(self) -> None:
        """Ask the node to stop it."""
        self.hands.ask(self.node, RemoveRequest(self.span, self.token))

    def is_done(self, seen: Seen) -> bool:
        """The node says that nothing is there, and that nothing older can come."""
        status = seen.status
        return (
            seen.node == self.node
            and status.span == self.span
            and status.stage is Stage.GONE
            and status.token >= self.token
        )


class RemoveState(enum.Enum):
    """See the module's diagram."""

    WAITING = "waiting"
    REMOVING = "removing"
    DONE = "done"


class Remove(Operator):
    """Clear a node of a span that is no more."""

    kind = OperatorKind.REMOVE
    TABLE = table(
        RemoveState,
        EVENTS,
        {
            RemoveState.WAITING: {
                Recorded: do("_remove"),
                Seen: ignore("nothing was asked yet"),
                Lost: do("_lost"),
                Dropped: ignore("it is being removed"),
                Tick: ignore("the writer repeats"),
            },
            RemoveState.REMOVING: {
                Recorded: ignore("known"),
                Seen: do("_seen"),
                Lost: do("_lost"),
                Dropped: ignore("it is being removed"),
                Tick: do("_tick"),
            },
            RemoveState.DONE: OVER,
        },
    )

    def __init__(
        self, operator: OperatorId, hands: Hands, first_seq: Seq, span: SpanId, node: NodeRef
    ) -> None:
        super().__init__(operator, hands, first_seq, RemoveState.WAITING)
        self.removal = Removal(hands, span, node, hands.next_token(node))

    @property
    def spans(self) -> tuple[SpanId, ...]:
        return (self.removal.span,)

    def begin(self, now: Millis) -> None:
        self.now = now
        self.hands.record(then=self._recorded)

    def _remove(self, _: Recorded) -> None:
        self.state = RemoveState.REMOVING
        self.repeat()

    def repeat(self) -> None:
        self.asked_at = self.now
        self.removal.ask()

    def _seen(self, seen: Seen) -> None:
        if self.removal.is_done(seen):
            self._end()

    def _lost(self, lost: Lost) -> None:
        if lost.node == self.removal.node:
            self._end()
