"""What people ask of the coordinator: which occasion a verb is, and what can stand in its way."""

from collections.abc import Mapping

from lockgate.core.coordinator.feeds import (
    UNKNOWN_FEED,
    Life,
    Occasion,
    Refuse,
    Verdict,
    life_of,
    needs_owner,
    verdict,
)
from lockgate.core.coordinator.ownership import EPOCH_MAX
from lockgate.model.events import PauseFeed, RemoveFeed, ResumeFeed
from lockgate.model.feeds import FeedSpec, FeedState
from lockgate.model.ids import NodeRef
from lockgate.model.records import FeedRecord

FEED_OCCASION: Mapping[type, Occasion] = {
    PauseFeed: Occasion.PAUSE,
    ResumeFeed: Occasion.RESUME,
    RemoveFeed: Occasion.REMOVE,
}

_OUTLIVED = Refuse(
    "feed-outlived",
    "this feed was removed, and the name may be another's by now",
    "nothing: whoever asked was late",
)
_STOPPED = Refuse(
    "feed-stopped",
    "the move that the feed belongs to has stopped it, and goes by that",
    "ask for something of the move",
)
_UNKNOWN_NODE = Refuse(
    "unknown-node", "no node of this name is alive", "list the nodes to see which are"
)
_NOT_RUNNING = Refuse(
    "not-running", "the feed is not running, so nobody owns it", "resume the feed first"
)
_NOT_USABLE = Refuse(
    "node-not-usable",
    "the node is being drained, or was not heard of for too long",
    "choose another node",
)
_BUSY = Refuse(
    "feed-busy", "the feed is changing its owner at this moment", "ask again in a moment"
)
_USED_UP = Refuse("epochs-used-up", "the feed has no further epoch", "create it under another name")
_LAST_NODE = Refuse(
    "last-node",
    "there is no other node to take over what runs on this one",
    "start another node first",
)


def _occasion_of_create(former: FeedRecord | None, spec: FeedSpec) -> Occasion:
    """Whether what is asked for is what exists."""
    same = former is not None and former.spec == spec
    return Occasion.CREATE if same else Occasion.CREATE_OTHER


def verdict_on_create(former: FeedRecord | None, spec: FeedSpec) -> Verdict:
    """What follows when a feed is to be created. One that had its life already does not come back,
    whoever asks so late. (Of a feed without a birth, which nobody counts, nobody can say.)"""
    if former is not None:
        is_removed = former.state is FeedState.REMOVED and 0 < spec.birth == former.spec.birth
        if is_removed or spec.birth < former.spec.birth:
            return _OUTLIVED
    return verdict(former, _occasion_of_create(former, spec))


def verdict_on_verb(
    record: FeedRecord | None, verb: PauseFeed | ResumeFeed | RemoveFeed
) -> Verdict:
    """What follows when something else is asked of a feed. Whoever tells a birth means the feed
    that he knows, and none that was born later."""
    told = verb.birth
    if record is not None and told is not None and told < record.spec.birth:
        return _OUTLIVED
    if isinstance(verb, ResumeFeed) and verb.failed_only and life_of(record) is Life.STOPPED:
        return _STOPPED
    return verdict(record, FEED_OCCASION[type(verb)])


def move_obstacle(
    record: FeedRecord | None, to: NodeRef | None, *, usable: list[NodeRef], raising: bool
) -> Refuse | None:
    """Why the feed cannot be given to that node, if it cannot."""
    if record is None:
        return UNKNOWN_FEED
    if to is None:
        return _UNKNOWN_NODE
    if record.owner == to:
        return None
    if not needs_owner(record):
        return _NOT_RUNNING
    if to not in usable:
        return _NOT_USABLE
    if record.epoch >= EPOCH_MAX:
        return _USED_UP
    return _BUSY if raising else None


def drain_obstacle(ref: NodeRef | None, *, usable: list[NodeRef]) -> Refuse | None:
    """Why the node cannot be emptied, if it cannot."""
    if ref is None:
        return _UNKNOWN_NODE
    return None if any(other != ref for other in usable) else _LAST_NODE
