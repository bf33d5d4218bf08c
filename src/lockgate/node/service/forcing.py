"""A removal by force: a database that is gone for ever is not waited for.

What can be reached is cleared as in any removal. What cannot is left, by names that are written
into the book before the feed goes on to be removed, and into the history before it is struck out:
should the database turn up again, people know what to drop there.

What is given up at a target is the voiding of the feed's tokens. Every node that is alive has said
before that nothing of the feed runs on it, and a dead one has lost its lease; so nobody writes
there but one who is paused this very moment, to a database that was declared gone.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from lockgate.endpoints.delta.faults import FileCorrupt
from lockgate.endpoints.delta.url import LakeUrl
from lockgate.endpoints.postgres.ddl.triggers import TRIGGERS
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import EndpointRefused, EndpointUnavailable, LockgateError
from lockgate.model.feed_status import FeedStatus
from lockgate.model.feeds import FeedState
from lockgate.node.feed.ends import Url
from lockgate.store.feeds import FeedEntry

__all__ = [
    "GIVEN_UP",
    "GONE",
    "LEFT",
    "SEPARATOR",
    "TURNED_UP",
    "left_at_source",
    "left_at_target",
    "notes_of",
    "struck_out",
]

GONE: Final = (EndpointUnavailable, EndpointRefused)
"""What is heard of a database that is not there, or lets nobody in."""
GIVEN_UP: Final = (*GONE, FileCorrupt)
"""At a target also a table, or a document, of a lake into which nothing can be written."""

LEFT: Final = "left behind"
"""The outcome in the history; what it was is in the detail."""
SEPARATOR: Final = " | "
TURNED_UP: Final = "should the database turn up again, drop there by hand what was left behind"


def left_at_source(entry: FeedEntry, source: PostgresUrl) -> tuple[str, ...]:
    """What may be there of the feed."""
    if not entry.attempt:
        return ()
    where = f"source {source.label}"
    slots = (*entry.former_slots, entry.slot)
    triggers = ", ".join(TRIGGERS)
    return (
        *(f"{where}: replication slot {slot}" for slot in slots),
        f"{where}: publication {entry.publication}",
        *(
            (
                f"{where}: its row in lockgate.ddl_captures; if it was the last feed of this "
                f"source: event triggers {triggers}, schema lockgate",
            )
            if entry.logged
            else ()
        ),
    )


def left_at_target(entry: FeedEntry, target: Url, error: LockgateError) -> tuple[str, ...]:
    """What is there of the feed, beside its tables, where that is what is heard of the target."""
    if isinstance(error, FileCorrupt):
        return (f"target {target.label}: {error.object}, damaged, with the feed's tokens",)
    if isinstance(target, LakeUrl):
        return (f"target {target.label}: rows of the feed {entry.feed} in _lockgate/feeds",)
    tables = ", ".join(f"lockgate.{name}" for name in ("feeds", "progress", "parts", "chunks"))
    return (f"target {target.label}: rows of the feed {entry.feed} in {tables}",)


def struck_out(before: FeedStatus, left: str) -> FeedStatus:
    """What people are told of a feed that is gone, by what the history says it left."""
    return replace(
        before,
        state=FeedState.REMOVED,
        owner="",
        lag_s=None,
        error="",
        notes=notes_of(left.split(SEPARATOR)),
        next_steps=(TURNED_UP,),
    )


def notes_of(left: Iterable[str]) -> tuple[str, ...]:
    """What was left, as people are told it."""
    return tuple(f"left behind, {each}" for each in left)
