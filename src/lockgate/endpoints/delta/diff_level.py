"""A source and a lake at one position, while the feed between them runs. Nothing is held for it.

    snapshot of the source at R     (postgres/source/export)
    the feed comes past R           its document in the lake says so, table by table
    the lake as of R                which it can be asked for at any time (`travel`)

A table for which nothing came is not written to: it stands where its last change is, and the
feed's document has gone on. So it is the document that is asked whether the table has everything up
to R. If it has, and the table stands before R, it is at R what it is where it stands.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from lockgate.endpoints.delta.feed_document import FeedDocument
from lockgate.endpoints.delta.head import CONTROL
from lockgate.endpoints.delta.lake import Lake, home_of
from lockgate.endpoints.delta.url import LakeUrl
from lockgate.endpoints.postgres.aligned import NotAligned
from lockgate.endpoints.postgres.diff.snapshots import Snapshots, exported
from lockgate.endpoints.postgres.source.export import exported_at_a_position
from lockgate.endpoints.postgres.source.heartbeat import Heartbeat
from lockgate.endpoints.postgres.source.slot import lsn_text
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import NotFound
from lockgate.model.ids import FeedId
from lockgate.model.positions import Position
from lockgate.model.selection import TableSelection

__all__ = ["lake_apart", "lake_level"]

_POLL_S: Final = 0.2
_BEAT_S: Final = 1.0
_SLOT_S: Final = 30.0


@contextmanager
def lake_level(
    source: PostgresUrl,
    lake: LakeUrl,
    feed: FeedId,
    tables: Sequence[TableSelection],
    *,
    timeout_s: float = 120.0,
    check: Callable[[], None] = lambda: None,
) -> Iterator[Snapshots]:
    """The source under a snapshot of one position; the target's is that position, as a number.

    NotAligned when the feed does not come there in time. `check` is called now and then while
    that is waited for, and may raise.
    """
    deadline = time.monotonic() + timeout_s
    documents = _Documents(lake, feed)
    with exported_at_a_position(source, feed, min(_SLOT_S, timeout_s)) as taken:
        with Heartbeat(source, feed, _BEAT_S) as beats:
            waiting = list(tables)
            while waiting := [each for each in waiting if not documents.has(each, taken.position)]:
                check()
                beats.tick()
                if time.monotonic() >= deadline:
                    raise NotAligned(
                        f"the lake did not come to {lsn_text(taken.position)} in time",
                        object_=waiting[0].table.id,
                        hint=f"see `lockgate feed status {feed}`; then ask again",
                        operation="align a feed",
                    )
                time.sleep(_POLL_S)
        yield Snapshots(lsn_text(taken.position), taken.snapshot, str(taken.position))


@contextmanager
def lake_apart(source: PostgresUrl | LakeUrl, target: PostgresUrl | LakeUrl) -> Iterator[Snapshots]:
    """Each side as it is now: of a lake, that is asked when it is read."""
    with ExitStack() as held:
        here, there = (
            held.enter_context(exported(url)) if isinstance(url, PostgresUrl) else ""
            for url in (source, target)
        )
        yield Snapshots("", here, there)


class _Documents:
    """What a feed says of its tables in a lake, for every home that takes part."""

    def __init__(self, url: LakeUrl, feed: FeedId) -> None:
        self._place = url.place()
        self._lake = Lake(self._place)
        self._feed = feed

    def has(self, table: TableSelection, position: Position) -> bool:
        """True when everything of the table up to there is in the lake, by whoever brings it.

        A table that is not there is not waited for: the others are compared, and who reads this
        one is told.
        """
        try:
            live = self._lake.live(table.target.id)
        except NotFound:
            return True
        for home in {home_of(ingest) for ingest in self._lake.homes(live)}:
            place = self._place.child(CONTROL).child("feeds").child(f"{self._feed}-{home}")
            for row in FeedDocument(place).read().spans.values():
                if row.spec.table == table.table.id and row.copied and row.position >= position:
                    return True
        return False
