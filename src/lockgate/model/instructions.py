"""What the core wants done. The node does it for real; the simulator does it in a fake world."""

from lockgate.model.batch import Batch
from lockgate.model.ddl import Ddl
from lockgate.model.ids import FeedId, Millis, NodeId, NodeRef, OperatorId, SpanId, Token
from lockgate.model.messages import Message
from lockgate.model.positions import Position
from lockgate.model.records import Scope
from lockgate.model.spans import Birth, Lineage, SpanSpec
from lockgate.model.value import Value


class Send(Value, frozen=True):
    """Transport: hand this to the node of that name, if it can be reached."""

    to: NodeId
    message: Message


class Join(Value, frozen=True):
    """Metastore: begin a new life of this node. Answered by `Joined` or `JoinFailed`."""

    node: NodeId
    asked_at: Millis


class Renew(Value, frozen=True):
    """Metastore: prolong my lease, make me coordinator if nobody is, tell me who is there."""

    ref: NodeRef
    asked_at: Millis


class Load(Value, frozen=True):
    """Metastore: read a scope. Answered by `Loaded` or `LoadFailed`."""

    scope: Scope


class Commit(Value, frozen=True):
    """Metastore: write a batch. Answered by `Landed`, `Refused`, `NotLanded` or `Unknown`."""

    batch: Batch


class StartDispatcher(Value, frozen=True):
    """Executor: claim the span's row at the sink under this token, then run its pipeline."""

    feed: FeedId
    spec: SpanSpec
    token: Token
    lineage: Lineage | None = None
    birth: Birth | None = None


class StopDispatcher(Value, frozen=True):
    """Executor: stop, tasks included. Answered by `DispatcherStopped`."""

    feed: FeedId
    span: SpanId
    token: Token


class HoldDispatcher(Value, frozen=True):
    """Executor: finish the transaction in flight, start no other. Answered by `DispatcherHeld`
    with the same operator, so that a late answer to an earlier hold is known as such."""

    feed: FeedId
    span: SpanId
    token: Token
    operator: OperatorId


class ReleaseDispatcher(Value, frozen=True):
    """Executor: go on after a hold."""

    feed: FeedId
    span: SpanId
    token: Token


class PassBarrier(Value, frozen=True):
    """Executor: the DDL before which this dispatcher stands is done; it is at `position` now."""

    feed: FeedId
    span: SpanId
    token: Token
    position: Position


class WriteBarrier(Value, frozen=True):
    """Executor of the trigger: write the DDL at the sink, in one transaction with the rows
    of all spans it concerns, which must stand right before it. Answered by
    `DispatcherAdvanced` to the DDL's position; a sink that finds somebody behind answers nothing
    and is asked again."""

    feed: FeedId
    span: SpanId
    token: Token
    ddl: Ddl
    births: tuple[SpanSpec, ...] = ()


class CloseSink(Value, frozen=True):
    """Sink: void every token of the feed up to this one; with `forget`, delete its rows and
    leave a tombstone. Answered by `SinkClosed` or `SinkCloseFailed`."""

    feed: FeedId
    token: Token
    forget: bool


class StopEverything(Value, frozen=True):
    """Executor: the lease is lost. Stop every dispatcher at once, before anything else."""

    ref: NodeRef


class Answer(Value, frozen=True):
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
