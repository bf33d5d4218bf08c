"""The ports: what the world around the core must provide, and what it may assume of it.

The core calls none of these. It returns instructions, and whoever drives it (the node, or
the simulator) carries them out through implementations of these protocols and hands the
answers back as events. They are written down here because they are the core's contract.

There is no port for identities: the core makes them from an epoch, which the metastore never
gives out twice, and a count.
"""

from typing import Protocol

from lockgate.model.batch import (
    Batch,
    Joined,
    JoinFailed,
    Landed,
    LeaseLost,
    Loaded,
    LoadFailed,
    NotLanded,
    Refused,
    Renewed,
    RenewFailed,
    Unknown,
)
from lockgate.model.events import SinkEvent
from lockgate.model.ids import Millis, NodeId, NodeRef
from lockgate.model.instructions import (
    CloseSink,
    HoldDispatcher,
    PassBarrier,
    ReleaseDispatcher,
    StartDispatcher,
    StopDispatcher,
    WriteBarrier,
)
from lockgate.model.messages import Message
from lockgate.model.records import Scope


class Clock(Protocol):
    """A node's own clock. It may jump; only liveness suffers."""

    def now(self) -> Millis:
        """Milliseconds since some moment of the node's choice."""
        ...


class Transport(Protocol):
    """Messages between nodes: may be lost, repeated, late, out of order; never altered."""

    def send(self, to: NodeId, message: Message) -> None:
        """Try to hand `message` over; return at once."""
        ...


class Metastore(Protocol):
    """Fenced, durable records, and leases on the metastore's own clock (see `model.batch`)."""

    def join(self, node: NodeId, asked_at: Millis) -> Joined | JoinFailed:
        """Raise the incarnation of `node` and give it a lease."""
        ...

    def renew(self, ref: NodeRef, asked_at: Millis) -> Renewed | RenewFailed | LeaseLost:
        """Prolong a running lease, elect `ref` if the coordinator's lease has run out."""
        ...

    def commit(self, batch: Batch) -> Landed | Refused | NotLanded | Unknown:
        """Make a batch durable under its fence and serial."""
        ...

    def load(self, scope: Scope) -> Loaded | LoadFailed:
        """All records of a scope at one moment."""
        ...


class Executor(Protocol):
    """Runs dispatchers. What comes of it is handed to the core as dispatcher events, in order."""

    def carry_out(
        self,
        instruction: StartDispatcher
        | StopDispatcher
        | HoldDispatcher
        | ReleaseDispatcher
        | PassBarrier
        | WriteBarrier,
    ) -> None:
        """Begin what the instruction asks; events follow."""
        ...

    def stop_everything(self) -> None:
        """Stop all dispatchers of this node at once; no event follows."""
        ...


class SinkFence(Protocol):
    """The rows at the target that say who may write what (DESIGN: fencing at the sink)."""

    def close(self, instruction: CloseSink) -> SinkEvent:
        """Void the feed's tokens, or forget the feed, under the given token."""
        ...
