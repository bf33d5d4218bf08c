"""Whether a feed is there to be asked for something, and goes on."""

from lockgate.model.errors import Conflict
from lockgate.model.feeds import FeedState
from lockgate.model.ids import FeedId
from lockgate.node.service.cluster import Cluster
from lockgate.node.service.statuses import Statuses
from lockgate.store.feeds import FeedEntry

__all__ = ["check_runs", "live", "own"]


def live(statuses: Statuses, feed: FeedId) -> FeedEntry:
    """The feed's entry. Raises NotFound, or Conflict when it is on its way out."""
    entry = statuses.entry(feed)
    if entry.removing:
        raise Conflict("the feed is being removed", object_=feed, hint="create it anew later")
    return entry


def own(entry: FeedEntry) -> None:
    """Raise Conflict for a feed that belongs to a move: it goes by the move's commands."""
    if entry.move:
        raise Conflict(
            f"the feed belongs to the move {entry.move}",
            object_=entry.feed,
            hint=f"ask for something of the move: lockgate move status {entry.move}",
        )


def check_runs(statuses: Statuses, cluster: Cluster, feed: FeedId) -> None:
    """Raise Conflict for a feed that does not go on: nobody waits for it or changes it."""
    record = cluster.records().get(feed)
    entry = statuses.entry(feed)
    state = FeedState.FAILED if entry.error else None if record is None else record.state
    if state in {FeedState.FAILED, FeedState.STOPPED, FeedState.FINISHED}:
        status = statuses.one(feed)
        raise Conflict(
            f"the feed does not go on: it is {state.value}",
            object_=feed,
            hint="; ".join(status.next_steps),
            cause=status.error or None,
        )
