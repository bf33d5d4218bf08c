"""The two snapshots of a diff, one on each side, for tasks to read under.

With a feed between the sides they are aligned: the target's is what the feed had made of exactly
the rows that the source's sees (`aligned.py`); for a repair the feed stays there. Without one they
are taken one right after the other, and people who write meanwhile make differences.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from lockgate.endpoints.postgres.aligned import Aligned, HeldFeed, aligned, aligned_and_held
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.copy.snapshot import SOURCE_OPTIONS
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.source.slot import lsn_text
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.ids import FeedId
from lockgate.model.value import Value

__all__ = ["Snapshots", "apart", "exported", "level", "level_and_held"]


class Snapshots(Value, frozen=True):
    """What tasks read under, while it is held."""

    position: str
    """The source's, as people read it; empty where the two are not aligned."""
    source: str
    target: str
    held: HeldFeed | None = None
    """The feed, while it is held at this position."""


@contextmanager
def level(
    source: PostgresUrl,
    target: PostgresUrl,
    feed: FeedId,
    check: Callable[[], None] = lambda: None,
) -> Iterator[Snapshots]:
    """Both sides at one position of the feed between them, which goes on. `check` may raise."""
    with aligned(source, target, feed, check=check) as at:
        yield _of(at)


@contextmanager
def level_and_held(
    source: PostgresUrl,
    target: PostgresUrl,
    feed: FeedId,
    check: Callable[[], None] = lambda: None,
) -> Iterator[Snapshots]:
    """The same, and the feed stays there meanwhile."""
    with aligned_and_held(source, target, feed, check=check) as at:
        yield _of(at)


def _of(at: Aligned) -> Snapshots:
    return Snapshots(lsn_text(at.position), at.source_snapshot, at.target_snapshot, at.held)


@contextmanager
def apart(source: PostgresUrl, target: PostgresUrl) -> Iterator[Snapshots]:
    """Each side as it is now."""
    with exported(source) as here, exported(target) as there:
        yield Snapshots("", here, there)


@contextmanager
def exported(url: PostgresUrl) -> Iterator[str]:
    """A snapshot of now, for others to read under."""
    with connect(url, purpose="diff snapshot", options=SOURCE_OPTIONS) as connection:
        with faults(object_=url.label, operation="take a snapshot"):
            row = connection.execute("SELECT pg_export_snapshot()").fetchone()
            assert row is not None
        try:
            yield row[0]
        finally:
            # It has only read: that the server is gone now is nothing to fail for.
            with contextlib.suppress(psycopg.Error):
                connection.rollback()
