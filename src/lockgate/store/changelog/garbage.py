"""The end of segments: rows first, then files, so that no row ever names a file that is gone.

Whoever is killed in between leaves files that no row names. They are found again by their names:
such a file is garbage when it was written by an older owner than the log's, who can append no
more, or when its place in the log is taken, because the log has moved on past its first change.
What is left, and stays, is what the present owner may be about to append.
"""

from lockgate.model.ids import FeedId, Token
from lockgate.model.positions import Position
from lockgate.store.changelog.files import SegmentFiles
from lockgate.store.changelog.log import Changelog
from lockgate.store.changelog.places import Place, file_of
from lockgate.store.changelog.rows import Naming, Retention

__all__ = ["collect", "sweep"]


def collect(
    log: Changelog,
    files: SegmentFiles,
    feed: FeedId,
    token: Token,
    below: Position,
    keep: Retention | None = None,
) -> int:
    """Take out of the log, and delete, what lies below a position: how many segments.

    `below` must be past nobody's checkpoint. Killed at any moment, the rest is done by the next
    call, or by `sweep`. Raises what `Changelog.trim` raises.
    """
    count = 0
    while gone := log.trim(feed, token, below, keep):
        files.delete(segment.path for segment in gone)
        count += len(gone)
    return count


def sweep(log: Changelog, files: SegmentFiles, feed: FeedId) -> int:
    """Delete the files that no row names and no row ever will: how many.

    May run at any time, beside a capture that writes.
    """
    count = 0
    naming = log.naming(feed, [])
    if naming is None:
        return 0
    for found in files.listing(feed):
        # The files are looked for first: what was not named by then and is now, is not garbage.
        naming = log.naming(feed, [place.id for place in found]) or naming
        count += files.delete(place.path for place in found if _is_garbage(place, naming))
    files.delete_empty_folders(feed, naming.token)
    return count


def _is_garbage(place: Place, naming: Naming) -> bool:
    if place.token < naming.token:
        return place.temporary or not _is_named(place, naming)
    return not place.temporary and place.id < naming.next_seq and not _is_named(place, naming)


def _is_named(place: Place, naming: Naming) -> bool:
    """A pack is called after its first segment, and that one stays as long as any of the others."""
    path = naming.paths.get(place.id)
    return path is not None and file_of(path) == place.path
