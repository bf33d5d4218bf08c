"""Net effect for a table without a key: rows are known by all their values, and counted.

Rows with the same values cannot be told apart, so the order of changes does not matter: each
image is inserted as often as it came more often than it went, or deleted as often as it went
more often than it came. "The same" is by what is written, never by what a type holds for
equal; see `merge` for how the target is asked in the same way.

The server sends whole old images (REPLICA IDENTITY FULL), so no unchanged value stays unknown.
Such a table is one span and one part: a delete takes any one of several equal rows, which can be
done once and not again.
"""

import numpy as np
import pyarrow as pa

from lockgate.endpoints.keys import encode
from lockgate.endpoints.postgres.sink.compact import truncation_of
from lockgate.endpoints.postgres.sink.log import DELETE, INSERT, UPDATE, Log
from lockgate.endpoints.postgres.sink.net import NeedsOnePart, Net, Rows, taken
from lockgate.endpoints.postgres.sink.window import Window
from lockgate.model.errors import Terminal
from lockgate.model.tables import Identity

__all__ = ["compact_images"]


def compact_images(log: Log, window: Window) -> Net:
    """The net effect of the log's changes that are in the window. The table has no key."""
    table = str(log.shape.table)
    if window.parts > 1:
        raise NeedsOnePart("a table without a key is applied as one part", object_=table)
    if not window.whole or len(window.snapshots) > 1:
        raise Terminal(
            "a table without a key can be neither split nor copied in several runs",
            object_=table,
            hint="give the table a key, or copy it anew in one run",
        )
    truncation = truncation_of(log, window)
    rank = np.empty(len(log), dtype=np.int64)
    rank[log.order] = np.arange(len(log))
    counts = log.position > window.floors[0][1]
    seen = window.seen(log.xid, None)
    if seen is not None:
        counts &= ~seen
    if truncation is not None:
        counts &= rank > truncation.rank
    comes = np.flatnonzero(counts & ((log.op == INSERT) | (log.op == UPDATE)))
    goes = np.flatnonzero(counts & ((log.op == DELETE) | (log.op == UPDATE)))
    width = range(len(log.shape.columns))
    if len(goes) and log.shape.identity is not Identity.FULL:
        raise Terminal(
            "a row was changed or deleted, and the source does not say which",
            object_=table,
            hint="give the table a key, or set REPLICA IDENTITY FULL at the source",
        )
    if not len(goes):
        added, removed = comes, goes
    else:
        images = [
            pa.concat_arrays([taken(log.new[i], comes), taken(log.old[i], goes)]) for i in width
        ]
        code = encode(images)
        came = np.bincount(code.codes[: len(comes)], minlength=code.size)
        went = np.bincount(code.codes[len(comes) :], minlength=code.size)
        more = came - went
        example = code.first()
        # An image that is left over to be inserted came at least once: its first is among those.
        added = np.sort(comes[np.repeat(example[more > 0], more[more > 0])])
        fewer = code.last()[more < 0]
        removed = np.sort(goes[np.repeat(fewer - len(comes), -more[more < 0])])
    nothing = Rows(log, np.zeros(0, dtype=np.int64))
    return Net(
        log=log,
        truncation=truncation,
        deletes=[taken(log.old[i], removed) for i in width] if len(goes) else [],
        updates=nothing,
        inserts=Rows(log, added),
        moves=nothing,
    )
