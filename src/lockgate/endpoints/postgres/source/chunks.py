"""A chunk of changes: what both ways of fetching hand out, and what can be told without decoding.

Begin and Commit frame transactions and carry positions. That is all that fetching needs to know
of what it fetches: where it could go on from, and whether a large transaction is coming.

    Begin    B | position of the commit, 8 | time, 8 | xid, 4
    Commit   C | flags, 1 | position of the commit, 8 | end of its record, 8 | time, 8
"""

from typing import NamedTuple

import numpy as np

from lockgate.endpoints.postgres.pgoutput.loads import Bytes, Indexes, Loads
from lockgate.endpoints.postgres.pgoutput.sources import Keepalive
from lockgate.model.positions import Position

__all__ = ["Chunk", "Marks", "before_leap", "marks", "told_end"]

_BEGIN, _COMMIT = b"BC"


class Chunk(NamedTuple):
    """Messages of pgoutput, in order. Valid until the next chunk is asked for."""

    buffer: Bytes
    starts: Indexes
    ends: Indexes
    wal_end: Position | None
    """Every transaction that ends before it is in the chunks up to this one.

    None when the server did not say so, or not outside of a transaction.
    """


class Marks(NamedTuple):
    """What a chunk says of transactions."""

    open: bool
    """True when the last one has no end yet."""
    end: Position | None
    """Where the log goes on after the last one that ended."""


def marks(chunk: Chunk, was_open: bool) -> Marks:
    """What the chunk says; `was_open` when the one before ended within a transaction."""
    if not len(chunk.starts):
        return Marks(was_open, None)
    kinds = chunk.buffer[chunk.starts]
    begins, commits = (np.flatnonzero(kinds == each) for each in (_BEGIN, _COMMIT))
    last_begin, last_commit = (int(each[-1]) if len(each) else -1 for each in (begins, commits))
    if last_commit < 0:
        return Marks(was_open or last_begin >= 0, None)
    end = _at(chunk, chunk.starts[last_commit : last_commit + 1] + 10)
    return Marks(last_begin > last_commit, int(end[0]))


def told_end(chunk: Chunk, keepalives: list[Keepalive], was_open: bool) -> Position | None:
    """What the last keepalive says that came outside of a transaction."""
    if not keepalives:
        return None
    kinds = chunk.buffer[chunk.starts]
    begins, commits = (np.flatnonzero(kinds == each) for each in (_BEGIN, _COMMIT))
    for keepalive in reversed(keepalives):
        opened = int(np.searchsorted(begins, keepalive.after)) + was_open
        if opened == int(np.searchsorted(commits, keepalive.after)):
            return keepalive.wal_end
    return None


def before_leap(chunk: Chunk, since: Position, leap: int) -> int | None:
    """The number of the first Begin whose commit is more than `leap` after what came before it.

    So much log was written before this transaction ended: it may be as large as that. None when
    there is no such Begin. `since` is what came before the chunk.
    """
    kinds = chunk.buffer[chunk.starts]
    begins, commits = (np.flatnonzero(kinds == each) for each in (_BEGIN, _COMMIT))
    if not len(begins):
        return None
    at = _at(chunk, chunk.starts[begins] + 1)
    ends = np.concatenate([[since], _at(chunk, chunk.starts[commits] + 10)])
    before = ends[np.searchsorted(commits, begins)]
    far = np.flatnonzero(at - before > leap)
    return int(begins[far[0]]) if len(far) else None


def _at(chunk: Chunk, places: Indexes) -> Indexes:
    return Loads(chunk.buffer, int(chunk.ends[-1])).i64(places)
