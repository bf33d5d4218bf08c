"""What comes in to the core, besides messages and the metastore's answers.

The core has no clock: `now` is handed in beside each event. It has no executor: what its
dispatchers do comes back as the events below.
"""

from typing import get_args

from lockgate.model.batch import (
    Joined,
    JoinFailed,
    Landed,
    LeaseLost,
    Loaded,
    LoadFailed,
    Member,
    NotLanded,
    Refused,
    Renewed,
    RenewFailed,
    Unknown,
)
from lockgate.model.ddl import Ddl
from lockgate.model.feeds import FeedSpec, Goal, Trouble
from lockgate.model.ids import FeedId, Millis, NodeId, OperatorId, SpanId, Token
from lockgate.model.messages import Message
from lockgate.model.positions import Position
from lockgate.model.statuses import Heat
from lockgate.model.value import Value


class Tick(Value, frozen=True):
    """Time has passed; repeat what was not answered, look whether something is due."""


# --- inside a node, from one machine to another ---------------------------------------------


class MembersSeen(Value, frozen=True):
    """Who is there, by the metastore's word; told to machines that place things on nodes."""

    members: tuple[Member, ...]
    asked_at: Millis | None = None
    """When the metastore was asked; None: just now."""


class SetGoal(Value, frozen=True):
    """The coordinator wants something else of a maintainer that runs already."""

    goal: Goal


# --- dispatchers, from the executor ---------------------------------------------------------


class DispatcherStarted(Value, frozen=True):
    """It has claimed its row at the sink and goes on from `position`."""

    feed: FeedId
    span: SpanId
    token: Token
    position: Position


class DispatcherRefused(Value, frozen=True):
    """The sink's fence did not let it claim or apply. It has ended."""

    feed: FeedId
    span: SpanId
    token: Token
    why: str = ""


class DispatcherStopped(Value, frozen=True):
    """Nothing of it runs any more, no task either."""

    feed: FeedId
    span: SpanId
    token: Token


class DispatcherHeld(Value, frozen=True):
    """It applies nothing until it is released, as this merge asked."""

    feed: FeedId
    span: SpanId
    token: Token
    operator: OperatorId


class DispatcherAdvanced(Value, frozen=True):
    """The sink has committed everything of this span up to `position`."""

    feed: FeedId
    span: SpanId
    token: Token
    position: Position


class DispatcherBlocked(Value, frozen=True):
    """It stands right before this DDL."""

    feed: FeedId
    span: SpanId
    token: Token
    position: Position
    ddl: Ddl


class DispatcherHeat(Value, frozen=True):
    """How busy or big it is, and where it could be cut."""

    feed: FeedId
    span: SpanId
    token: Token
    heat: Heat
    points: tuple[bytes, ...] = ()


class DispatcherFailed(Value, frozen=True):
    """It cannot go on; it has ended."""

    feed: FeedId
    span: SpanId
    token: Token
    trouble: Trouble


# --- the sink, for a whole feed -------------------------------------------------------------


class SinkClosed(Value, frozen=True):
    """Every token of the feed at the sink up to this one is void (and its rows gone, if asked)."""

    feed: FeedId
    token: Token


class SinkCloseFailed(Value, frozen=True):
    """It is not known whether the sink closed; it may be asked again."""

    feed: FeedId
    token: Token
    why: str = ""


# --- people, who may ask another node than the one that answers (hence the tags) -------------


class CreateFeed(Value, frozen=True, tag=True):
    """A new feed; an equal one that exists already is not an error. One that was removed since, or
    outlived by another of its name, does not come back."""

    request: str
    feed: FeedId
    spec: FeedSpec


class PauseFeed(Value, frozen=True, tag=True):
    """Stop a feed, to be resumed; with a birth: not one of the same name that was born later."""

    request: str
    feed: FeedId
    birth: int | None = None


class ResumeFeed(Value, frozen=True, tag=True):
    """Let a stopped or failed feed run again; with a birth: that one, and none born later."""

    request: str
    feed: FeedId
    birth: int | None = None
    failed_only: bool = False
    """Not one that was stopped: whoever it belongs to goes by that."""


class RemoveFeed(Value, frozen=True, tag=True):
    """End a feed and forget it; not one of the same name that was born later."""

    request: str
    feed: FeedId
    birth: int = 0


class MoveMaintainer(Value, frozen=True, tag=True):
    """Give a feed another owner node."""

    request: str
    feed: FeedId
    node: NodeId


class DrainNode(Value, frozen=True, tag=True):
    """Empty a node."""

    request: str
    node: NodeId


class MoveSpan(Value, frozen=True, tag=True):
    """Run a span elsewhere."""

    request: str
    feed: FeedId
    span: SpanId
    node: NodeId


class SplitSpan(Value, frozen=True, tag=True):
    """Cut a span at these keys."""

    request: str
    feed: FeedId
    span: SpanId
    points: tuple[bytes, ...]


class MergeSpans(Value, frozen=True, tag=True):
    """Join neighbouring spans of one table."""

    request: str
    feed: FeedId
    spans: tuple[SpanId, ...]


FeedVerb = CreateFeed | PauseFeed | ResumeFeed | RemoveFeed | MoveMaintainer | DrainNode
SpanVerb = MoveSpan | SplitSpan | MergeSpans

DispatcherEvent = (
    DispatcherStarted
    | DispatcherRefused
    | DispatcherStopped
    | DispatcherHeld
    | DispatcherAdvanced
    | DispatcherBlocked
    | DispatcherHeat
    | DispatcherFailed
)
StoreEvent = Landed | Refused | NotLanded | Unknown | Loaded | LoadFailed
LeaseEvent = Joined | JoinFailed | Renewed | RenewFailed | LeaseLost
SinkEvent = SinkClosed | SinkCloseFailed

Event = Tick | Message | StoreEvent | LeaseEvent | DispatcherEvent | SinkEvent | FeedVerb | SpanVerb

DISPATCHER_EVENTS: tuple[type, ...] = get_args(DispatcherEvent)
LEASE_EVENTS: tuple[type, ...] = get_args(LeaseEvent)
SINK_EVENTS: tuple[type, ...] = get_args(SinkEvent)
FEED_VERBS: tuple[type, ...] = get_args(FeedVerb)
SPAN_VERBS: tuple[type, ...] = get_args(SpanVerb)
