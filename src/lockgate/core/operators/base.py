"""What all operators have in common: the events they take and the hands they work with.

An operator is a small machine. It holds its spans: no other operator touches them. It acts
only through its `Hands`: record something, ask a node for something. A request is repeated on
ticks until a status shows its effect. An operator ends by itself; it never waits for a node
that is lost.
"""

import enum
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from lockgate.core.machine import Machine
from lockgate.core.maintainer.spans import SpanTable
from lockgate.model.events import Tick
from lockgate.model.ids import Millis, NodeRef, OperatorId, Seq, SpanId, Token
from lockgate.model.records import OperatorKind, Record, RecordKey
from lockgate.model.requests import Request
from lockgate.model.statuses import DispatcherStatus


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the operator wrote last is durable."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A node reports on one of the operator's spans."""

    node: NodeRef
    status: DispatcherStatus


@dataclass(frozen=True, slots=True)
class Lost:
    """A node died, started anew, or fell silent."""

    node: NodeRef


@dataclass(frozen=True, slots=True)
class Dropped:
    """The table of one of the operator's spans was dropped; the span is no more."""

    span: SpanId


EVENTS: tuple[type, ...] = (Recorded, Seen, Lost, Dropped, Tick)


class Hands(Protocol):
    """What a maintainer lends its operators."""

    spans: SpanTable
    seq: Seq
    """The last sequence given out."""

    def next_token(self, node: NodeRef) -> Token:
        """A token of the maintainer's epoch, higher than all before, for this life of a node."""
        ...

    def record(
        self,
        puts: Iterable[Record] = (),
        deletes: Iterable[RecordKey] = (),
        then: Callable[[], None] | None = None,
    ) -> None:
        """Have this durable, all or nothing, after all that was recorded before; then call."""
        ...

    def ask(self, node: NodeRef, request: Request) -> None:
        """Send a request; it may be lost."""
        ...

    def regrip(self, operator: "Operator") -> None:
        """The operator holds other spans from now on."""
        ...

    def remove(self, span: SpanId, node: NodeRef) -> None:
        """Have what runs of a span that is no more removed from `node`."""
        ...

    def ended(self, operator: "Operator") -> None:
        """The operator is through and lets go of its spans."""
        ...


class Operator(Machine):
    """One change of placement in flight."""

    kind: ClassVar[OperatorKind]

    def __init__(
        self, operator: OperatorId, hands: Hands, first_seq: Seq, state: enum.Enum
    ) -> None:
        super().__init__(f"{self.kind.value} {operator}", state)
        self.id = operator
        self.hands = hands
        self.first_seq = first_seq
        """No token of this operator has a lower sequence."""
        self.asked_at: Millis = 0

    @property
    @abstractmethod
    def spans(self) -> tuple[SpanId, ...]:
        """The spans it holds."""

    @abstractmethod
    def begin(self, now: Millis) -> None:
        """Record what is to be done."""

    @abstractmethod
    def repeat(self) -> None:
        """Ask again for what has shown no effect."""

    def _tick(self, _: Tick) -> None:
        self.repeat()

    def _end(self) -> None:
        """It is through and lets go of its spans."""
        self.abandon()
        self.hands.ended(self)

    def abandon(self) -> None:
        """Its owner does something else now: whatever still comes changes nothing."""
        self.state = type(self.state)["DONE"]

    def tell(self, event: object) -> None:
        """Take an event at the time of the last one."""
        self.handle(self.now, event)

    def _recorded(self) -> None:
        """Continuation of everything an operator records."""
        self.tell(Recorded())
