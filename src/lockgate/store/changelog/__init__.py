"""The change log of a feed: what its capture has taken from the source, durable and in order.

Rows in the metastore say what the log is; files hold the changes. A change belongs to the log
from the moment that its file's row is committed, together with the new resolved position and
under the token of the capture that owns the log.

    rows      what is passed around: segments, schema changes, states, views
    log       the rows in the metastore: claim, append, read, trim, forget
    steps     what those are made of, inside a transaction
    files     the files: written whole or not at all
    places    how they are called
    shapes    the shape that each carries
    reading   what a task needs to read them
    garbage   the end of both: rows first, then files
"""

from lockgate.store.changelog.files import SegmentFiles, SegmentWriter
from lockgate.store.changelog.garbage import collect, sweep
from lockgate.store.changelog.log import Changelog
from lockgate.store.changelog.reading import leaves_values, read_segments, read_shape
from lockgate.store.changelog.rows import (
    LogState,
    LogView,
    Naming,
    Retention,
    SchemaChange,
    Segment,
)

__all__ = [
    "Changelog",
    "LogState",
    "LogView",
    "Naming",
    "Retention",
    "SchemaChange",
    "Segment",
    "SegmentFiles",
    "SegmentWriter",
    "collect",
    "leaves_values",
    "read_segments",
    "read_shape",
    "sweep",
]
