"""What is durable: every kind of record that the metastore keeps, and who may write it.

A record lives in one *scope*; a scope has one writer at a time, named by a fence (see
`model.batch`). Three kinds of scope: the coordinator's (fence: term), a feed's (fence:
epoch), a node's (fence: incarnation).
"""

import enum
from typing import Any

import msgspec

from lockgate.model.ddl import Ddl
from lockgate.model.feeds import FeedSpec, FeedState, Goal
from lockgate.model.ids import (
    NO_TOKEN,
    Epoch,
    FeedId,
    NodeId,
    NodeRef,
    OperatorId,
    SpanId,
    Token,
)
from lockgate.model.positions import ORIGIN, Position
from lockgate.model.spans import Birth, Lineage, SpanSpec
from lockgate.model.value import Value

Scope = str

COORDINATOR: Scope = "coordinator"


def feed_scope(feed: FeedId) -> Scope:
    """Where the maintainer of `feed` keeps its intent; fenced by the epoch."""
    return f"feed:{feed}"


def node_scope(node: NodeId) -> Scope:
    """Where the dispatcher manager of `node` keeps its journal; fenced by the incarnation."""
    return f"node:{node}"


class FeedRecord(Value, frozen=True, tag="feed"):
    """A feed as the coordinator knows it. `epoch` is the last one raised; `owner` holds it."""

    feed: FeedId
    state: FeedState
    goal: Goal
    epoch: Epoch
    owner: NodeRef | None
    spec: FeedSpec
    error: str = ""
    attempts: int = 0

    @property
    def id(self) -> str:
        return self.feed

    def changed(self, **fields: Any) -> "FeedRecord":
        """The same feed with some fields anew."""
        return msgspec.structs.replace(self, **fields)


class DrainState(enum.Enum):
    """A node drain is done only when the node itself reported that it is empty."""

    DRAINING = "draining"
    DRAINED = "drained"


class DrainRecord(Value, frozen=True, tag="drain"):
    """A node that is being emptied. It means one life of the node: a restart ends it."""

    node: NodeRef
    state: DrainState = DrainState.DRAINING

    @property
    def id(self) -> str:
        return self.node.node


class SpanRecord(Value, frozen=True, tag="span"):
    """A live span, and the last placement that was decided for it."""

    span: SpanSpec
    node: NodeRef | None = None
    token: Token = NO_TOKEN
    lineage: Lineage | None = None
    birth: Birth | None = None
    """Of the trigger's span alone: the rows that its first claim makes."""
    start: Position = ORIGIN

    @property
    def id(self) -> str:
        return self.span.id

    @property
    def is_unclaimed(self) -> bool:
        """Its row at the sink may still have to be made by its first claim."""
        return self.lineage is not None or self.birth is not None

    def claimed(self) -> "SpanRecord":
        """The same span, once its row exists: how the row comes to be matters no more."""
        return msgspec.structs.replace(self, lineage=None, birth=None)

    def placed(self, node: NodeRef | None, token: Token) -> "SpanRecord":
        """The same span, to run elsewhere or nowhere."""
        return msgspec.structs.replace(self, node=node, token=token)


class OperatorKind(enum.Enum):
    """The five changes of placement."""

    ADD = "add"
    REMOVE = "remove"
    MOVE = "move"
    SPLIT = "split"
    MERGE = "merge"


class OperatorRecord(Value, frozen=True, tag="operator"):
    """An operator that has not reached its commit point: it vanishes in the batch that commits it.

    So a successor that finds one knows that nothing of it may stand, and asks for it anew.
    """

    operator: OperatorId
    kind: OperatorKind
    spans: tuple[SpanId, ...]
    base: Token
    destination: NodeRef | None = None
    results: tuple[SpanSpec, ...] = ()

    @property
    def id(self) -> str:
        return self.operator


class BarrierRecord(Value, frozen=True, tag="barrier"):
    """A DDL about to be written at the sink, with the identities of the spans it gives birth to."""

    ddl: Ddl
    births: tuple[SpanSpec, ...] = ()

    @property
    def id(self) -> str:
        return "barrier"


class ProgressRecord(Value, frozen=True, tag="progress"):
    """How far a feed is. `born` once the sink holds the feed's first rows."""

    checkpoint: Position
    born: bool = False

    @property
    def id(self) -> str:
        return "progress"


class FenceRecord(Value, frozen=True, tag="fence"):
    """The newest owner of a feed that a node has seen. Closed, it is the feed's tombstone here."""

    feed: FeedId
    owner: NodeRef | None
    epoch: Epoch
    closed: bool = False

    @property
    def id(self) -> str:
        return self.feed


class JournalRecord(Value, frozen=True, tag="journal"):
    """What a node was asked to do with a span and has not been asked to undo."""

    feed: FeedId
    span: SpanSpec
    token: Token
    prepared: bool = False
    operator: OperatorId = ""
    """The merge that holds or prepares this span here."""

    @property
    def id(self) -> str:
        return f"{self.feed}/{self.span.id}"


Record = (
    FeedRecord
    | DrainRecord
    | SpanRecord
    | OperatorRecord
    | BarrierRecord
    | ProgressRecord
    | FenceRecord
    | JournalRecord
)


class RecordKey(Value, frozen=True, order=True, array_like=True):
    """Where a record lies inside its scope."""

    kind: str
    id: str


KIND_OF: dict[type, str] = {
    record: str(record.__struct_config__.tag)
    for record in (
        FeedRecord,
        DrainRecord,
        SpanRecord,
        OperatorRecord,
        BarrierRecord,
        ProgressRecord,
        FenceRecord,
        JournalRecord,
    )
}


def key_of(record: Record) -> RecordKey:
    """The key under which `record` is kept in its scope."""
    return RecordKey(KIND_OF[type(record)], record.id)
