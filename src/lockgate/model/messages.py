"""What nodes send each other. The network may lose, repeat, delay and reorder all of it."""

from lockgate.model.feeds import FeedSpec, Goal
from lockgate.model.ids import Epoch, FeedId, Incarnation, NodeRef, Seq, Term
from lockgate.model.requests import Request
from lockgate.model.statuses import DispatcherStatus, MaintainerStatus
from lockgate.model.value import Value


class StartMaintainer(Value, frozen=True, tag=True):
    """Coordinator to node: own this feed under this epoch. Repeated; also tells a changed goal."""

    term: Term
    owner: NodeRef
    feed: FeedId
    epoch: Epoch
    goal: Goal
    spec: FeedSpec


class StopMaintainer(Value, frozen=True, tag=True):
    """Coordinator to node: the maintainer of exactly this epoch is not the owner; end it."""

    term: Term
    feed: FeedId
    epoch: Epoch


class NodeReport(Value, frozen=True, tag=True):
    """Node to coordinator: who lives here."""

    node: NodeRef
    term: Term
    """The coordinator it is meant for."""
    beat: int
    maintainers: tuple[MaintainerStatus, ...]
    dispatchers: int
    draining: bool = False
    """It knew by the metastore's word that it is to be emptied when it said so."""


class Bootstrap(Value, frozen=True, tag=True):
    """Maintainer to node, whichever life of it: I own this feed now; what have you got?"""

    feed: FeedId
    epoch: Epoch
    owner: NodeRef


class BootstrapReply(Value, frozen=True, tag=True):
    """Node to maintainer: everything it runs, holds and prepares for the feed."""

    feed: FeedId
    epoch: Epoch
    node: NodeRef
    statuses: tuple[DispatcherStatus, ...]


class Requests(Value, frozen=True, tag=True):
    """Maintainer to one life of a node."""

    feed: FeedId
    epoch: Epoch
    owner: NodeRef
    to: Incarnation
    items: tuple[Request, ...]


class Heartbeat(Value, frozen=True, tag=True):
    """Node to maintainer: all its dispatchers of the feed, or, after requests, some of them."""

    feed: FeedId
    epoch: Epoch
    node: NodeRef
    beat: int
    """Rises with every heartbeat of this life of the node, so that older news is known as such."""
    full: bool
    statuses: tuple[DispatcherStatus, ...]


class HeartbeatReply(Value, frozen=True, tag=True):
    """Maintainer to node: no request below this sequence is under way any more."""

    feed: FeedId
    epoch: Epoch
    owner: NodeRef
    to: Incarnation
    settled: Seq


class Close(Value, frozen=True, tag=True):
    """Maintainer to node: stop all of the feed here and leave a tombstone."""

    feed: FeedId
    epoch: Epoch
    owner: NodeRef
    to: Incarnation


class CloseReply(Value, frozen=True, tag=True):
    """Node to maintainer: nothing of the feed is left here, and the tombstone is durable."""

    feed: FeedId
    epoch: Epoch
    node: NodeRef


class Stale(Value, frozen=True, tag=True):
    """Node to a maintainer whose request it did not obey: I have seen this, which is newer.

    `epoch` repeats the sender's, `seen` is the node's; equal ones mean another owner, or closed.
    """

    feed: FeedId
    epoch: Epoch
    node: NodeRef
    seen: Epoch


Message = (
    StartMaintainer
    | StopMaintainer
    | NodeReport
    | Bootstrap
    | BootstrapReply
    | Requests
    | Heartbeat
    | HeartbeatReply
    | Close
    | CloseReply
    | Stale
)
