"""What the core wants done. The node does it for real; the simulator does it in a fake world."""

import msgspec

from lockgate.model.batch import Batch
from lockgate.model.ddl import Ddl
from lockgate.model.ids import FeedId, Millis, NodeId, NodeRef, SpanId, Token
from lockgate.model.messages import Message
from lockgate.model.positions import Position
from lockgate.model.records import Scope
from lockgate.model.spans import Birth, Lineage, SpanSpec


class Send(msgspec.Struct, frozen=True):
    """Transport: hand this to the node of that name, if it can be reached."""

    to: NodeId
    message: Message


class Join(msgspec.Struct, frozen=True):
    """Metastore: begin a new life of this node. Answered by `Joined` or `JoinFailed`."""

    node: NodeId
    asked_at: Millis


class Renew(msgspec.Struct, frozen=True):
    """Metastore: prolong my lease, make me coordinator if nobody is, tell me who is there."""

    ref: NodeRef
    asked_at: Millis


class Load(msgspec.Struct, frozen=True):
    """Metastore: read a scope. Answered by `Loaded` or `LoadFailed`."""

    scope: Scope


class Commit(msgspec.Struct, frozen=True):
    """Metastore: write a batch. Answered by `Landed`, `Refused`, `NotLanded` or `Unknown`."""

    batch: Batch


class StartDispatcher(msgspec.Struct, frozen=True):
    """Executor: claim the span's row at the sink under this token, then run its pipeline."""

    feed: FeedId
    spec: SpanSpec
    token: Token
    lineage: Lineage | None = None
    birth: Birth | None = None


class StopDispatcher(msgspec.Struct, frozen=True):
    """Executor: stop, tasks included. Answered by `DispatcherStopped`."""

    feed: FeedId
    span: SpanId
    token: Token


class HoldDispatcher(msgspec.Struct, frozen=True):
    """Executor: finish the transaction in flight, start no other. Answered by `DispatcherHeld`."""

    feed: FeedId
    span: SpanId
    token: Token


class ReleaseDispatcher(msgspec.Struct, frozen=True):
    """Executor: go on after a hold."""

    feed: FeedId
    span: SpanId
    token: Token


class PassBarrier(msgspec.Struct, frozen=True):
    """Executor: the DDL before which this dispatcher stands is done; it is at `position` now."""

    feed: FeedId
    span: SpanId
    token: Token
    position: Position


class WriteBarrier(msgspec.Struct, frozen=True):
    """Executor of the trigger: write the DDL at the sink, in one transaction with the rows
    of all spans it concerns, which must stand right before it. Answered by
    `DispatcherAdvanced` to the DDL's position; a sink that finds somebody behind answers nothing
    and is asked again."""

    feed: FeedId
    span: SpanId
    token: Token
    ddl: Ddl
    births: tuple[SpanSpec, ...] = ()


class CloseSink(msgspec.Struct, frozen=True):
    """Sink: void every token of the feed up to this one; with `forget`, delete its rows and
    leave a tombstone. Answered by `SinkClosed` or `SinkCloseFailed`."""

    feed: FeedId
    token: Token
    forget: bool


class StopEverything(msgspec.Struct, frozen=True):
    """Executor: the lease is lost. Stop every dispatcher at once, before anything else."""

    ref: NodeRef


class Answer(msgspec.Struct, frozen=True):
    """To the person who asked: done, or why not. `code` is empty when done."""

    request: str
    code: str = ""
    what: str = ""
    hint: str = ""


Instruction = (
    Send
    | Join
    | Renew
    | Load
    | Commit
    | StartDispatcher
    | StopDispatcher
    | HoldDispatcher
    | ReleaseDispatcher
    | PassBarrier
    | WriteBarrier
    | CloseSink
    | StopEverything
    | Answer
)
