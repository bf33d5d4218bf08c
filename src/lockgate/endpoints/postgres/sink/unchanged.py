"""Values that the log does not repeat: what an update left alone in TOAST.

An update of a row with a large value that it did not touch says only "unchanged". The value is
then what the same row had before: in an earlier change of the log, or in the target. Each update
points to the change that made the state it found (its *predecessor*, also through a change of
the key); following the pointers to the first change that knows the value is pointer doubling,
a few rounds for all rows at once.

What no change of the log knows is in the target, in the row as it is before the batch: under
the row's own key, or, when the key changed on the way, under the key that the first change to
be applied takes. Rows of the latter kind are `moves`; their source must not be deleted first.

A row that goes from one part of a batch to another, or from one span to another, would lose such
a value: whoever has the old key deletes it, and whoever has the new one never saw it. So neither
begins. Parts ask to be run as one; spans stop, both, before that change, and say to merge them.
"""

from typing import Any

import numpy as np

from lockgate.endpoints.postgres.sink.log import DELETE, UPDATE, Log
from lockgate.endpoints.postgres.sink.net import Events, Index, Mask, NeedsOnePart, Rows, taken
from lockgate.model.errors import Terminal

__all__ = ["ValueElsewhere", "resolve"]


class ValueElsewhere(Terminal):
    """An unchanged value belongs to a row that this span never had, or has no more."""

    code = "value-elsewhere"


def resolve(
    log: Log, events: Events, changed: Index, fresh: Index, parts: int
) -> tuple[Rows, Rows, Rows, dict[int, Index]]:
    """Updates, inserts and moves with all values that can be found; and where those stand.

    `changed` and `fresh` are the events that made the final states of rows that the target
    has, and has not, under their keys.
    """
    updates, inserts = Rows(log, events.row[changed]), Rows(log, events.row[fresh])
    nothing = Rows(log, np.zeros(0, dtype=np.int64))
    if not log.unknown:
        return updates, inserts, nothing, {}
    chain = _Chain(log, events)
    known = {i: chain.knows(i) for i in log.unknown}
    _refuse_torn_rows(log, events, chain, known, parts)

    final = np.concatenate([updates.index, inserts.index])
    event = np.concatenate([changed, fresh])
    found = {i: rows[final] for i, rows in known.items()}
    keeps = {i: mask for i, rows in found.items() if (mask := log.unknown[i][rows]).any()}
    elsewhere = {i: rows for i, rows in found.items() if not np.array_equal(rows, final)}
    source = event.copy()
    if keeps:
        asks = np.flatnonzero(np.logical_or.reduce(list(keeps.values())))
        source[asks] = chain.sources(final[asks])
    code = events.code.codes
    moving = code[source] != code[event]
    existed = np.arange(len(final)) < len(changed)

    def some(mask: Mask, origin: list[Any] | None = None) -> Rows:
        at = np.flatnonzero(mask)
        return Rows(
            log,
            final[at],
            {i: rows[at] for i, rows in elsewhere.items()},
            {i: kept[at] for i, kept in keeps.items() if kept[at].any()},
            origin,
        )

    origin = [taken(column, source[moving]) for column in events.keys]
    return some(existed & ~moving), some(~existed & ~moving), some(moving, origin), known


def _refuse_torn_rows(
    log: Log, events: Events, chain: "_Chain", known: dict[int, Index], parts: int
) -> None:
    """No row may change its key, keep a value that only the target has, and come or go alone."""
    lacks = np.zeros(len(log), dtype=np.bool_)
    for i, rows in known.items():
        lacks |= log.unknown[i][rows]
    rows = np.flatnonzero(lacks & events.moved)
    takes, brings = chain.finder[rows], chain.brings[rows]
    comes_alone = events.counts[brings] & ~events.counts[takes]
    goes_alone = events.counts[takes] & ~events.ours[brings]
    if not (comes_alone | goes_alone).any():
        return
    table = str(log.shape.table)
    if parts > 1:
        raise NeedsOnePart("a key changed, and a large value did not", object_=table)
    raise ValueElsewhere(
        "a row goes from one span to another with a large value that was not sent again",
        object_=table,
        hint="merge the table's spans; or set REPLICA IDENTITY FULL at the source and copy the "
        "table anew",
    )


class _Chain:
    """Which change made the state that another one found.

    `finder` and `brings` are, for each row of the log, the event by which it finds the former
    state and the one by which it brings the new; -1 where it has none.
    """

    def __init__(self, log: Log, events: Events) -> None:
        self._log = log
        self._events = events
        code, kind, row = events.code.codes, events.kind, events.row
        sorted_ = np.argsort(code, kind="stable")
        previous = np.full(len(code), -1, dtype=np.int64)
        same = code[sorted_[1:]] == code[sorted_[:-1]]
        previous[sorted_[1:][same]] = sorted_[:-1][same]
        finder = np.full(len(log), -1, dtype=np.int64)
        brings = np.full(len(log), -1, dtype=np.int64)
        takes = (kind == DELETE) & events.moved[row]
        finder[row[takes]] = np.flatnonzero(takes)
        stays = kind == UPDATE
        finder[row[stays]] = np.flatnonzero(stays)
        makes = kind != DELETE
        brings[row[makes]] = np.flatnonzero(makes)
        self.finder, self.brings = finder, brings
        before = np.full(len(log), -1, dtype=np.int64)
        has = np.flatnonzero(finder >= 0)
        earlier = previous[finder[has]]
        made = (earlier >= 0) & (kind[np.maximum(earlier, 0)] != DELETE)
        before[has[made]] = row[earlier[made]]
        self._before = before

    def knows(self, i: int) -> Index:
        """For each row of the log, the row that knows column `i`; still unknown if none does."""
        own = np.arange(len(self._log))
        return _followed(np.where(self._log.unknown[i] & (self._before >= 0), self._before, own))

    def sources(self, rows: Index) -> Index:
        """The events that find, in the target, the state these rows descend from."""
        counting = np.zeros(len(self._log), dtype=np.bool_)
        made = self.brings >= 0
        counting[made] = self._events.counts[self.brings[made]]
        before = self._before
        pending = (before >= 0) & counting[np.maximum(before, 0)]
        own = np.arange(len(self._log))
        first = _followed(np.where(pending, before, own))[rows]
        return self.finder[first]


def _followed(pointers: Index) -> Index:
    """Where each pointer ends when all are followed; an end points to itself."""
    while True:
        further = pointers[pointers]
        if np.array_equal(further, pointers):
            return pointers
        pointers = further
