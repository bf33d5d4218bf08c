"""Many changes in, their net effect out: what to delete, update and insert, each key once.

Every change is one or two *events* of a key: an insert brings it, a delete takes it, an update
changes it; an update of the key itself takes the old key and brings the new one. For each key
the first event says whether the row was there before (an insert is first only when it was not),
and the last whether it is there afterwards:

                       afterwards there            afterwards gone
    before there       update, to the last state   delete
    before not there   insert the last state       nothing at all

A TRUNCATE voids what came before it. Nothing here looks at rows one by one.

Which events count is the *window*'s to say: keys of this span and part, positions past the floor
of the key's range, transactions that the key's copied chunk has not seen. Events are judged one by
one, so each half of a key's change is applied by whoever owns the key it concerns.

Tables without a key have no events; see `images`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.keys import Codes, encode, has_order, integers
from lockgate.endpoints.postgres.sink.log import DELETE, INSERT, TRUNCATE, UPDATE, Log
from lockgate.endpoints.postgres.sink.net import (
    Events,
    Index,
    Mask,
    NeedsOnePart,
    Net,
    Truncation,
    taken,
)
from lockgate.endpoints.postgres.sink.unchanged import resolve
from lockgate.endpoints.postgres.sink.window import NOT_MINE, Window
from lockgate.model.floors import least

__all__ = ["compact", "events_of", "truncation_of"]


def compact(log: Log, window: Window) -> Net:
    """The net effect of the log's changes that are in the window. The table has a key."""
    truncation = truncation_of(log, window)
    events = events_of(log, window, truncation)
    picked = np.flatnonzero(events.counts)
    code = events.code.codes[picked]
    first = np.full(events.code.size, -1, dtype=np.int64)
    last = np.full(events.code.size, -1, dtype=np.int64)
    # Of several values for one place the last assignment stays.
    first[code[::-1]] = picked[::-1]
    last[code] = picked
    touched = first >= 0
    first, last = first[touched], last[touched]
    existed = events.kind[first] != INSERT
    present = events.kind[last] != DELETE
    gone, changed, fresh = (
        _sorted(events.keys, last[mask])
        for mask in (existed & ~present, existed & present, ~existed & present)
    )
    updates, inserts, moves, known = resolve(log, events, changed, fresh, window.parts)
    return Net(
        log=log,
        truncation=truncation,
        deletes=[taken(column, gone) for column in events.keys],
        updates=updates,
        inserts=inserts,
        moves=moves,
        events=events,
        known=known,
    )


def _sorted(keys: list[Any], picked: Index) -> Index:
    """Events in an order in which the target is quick: by key if it is made of numbers.

    Rows that lie side by side are then changed one after the other: half of the server's work,
    measured on random keys. Other keys have no order that would help, and stay as in the log.
    """
    if len(picked) < 2:
        return picked
    picked = np.sort(picked)
    if not all(has_order(key.type) for key in keys):
        return picked
    numbers = [integers(taken(key, picked)) for key in keys]
    first = numbers[0]
    if len(numbers) == 1 and bool((first[1:] >= first[:-1]).all()):
        return picked
    return picked[np.lexsort(numbers[::-1])]


def truncation_of(log: Log, window: Window) -> Truncation | None:
    """The last TRUNCATE, if it counts for any key. What it leaves over, earlier ones do too."""
    ranks = np.flatnonzero(log.op[log.order] == TRUNCATE)
    if not len(ranks):
        return None
    rank = int(ranks[-1])
    row = int(log.order[rank])
    position, xid = int(log.position[row]), log.xid[row : row + 1]
    if (
        not window.floors
        or position <= least(window.floors)
        or (window.snapshots and all(snapshot.sees(xid)[0] for snapshot in window.snapshots))
    ):
        return None
    if window.parts > 1:
        raise NeedsOnePart("a TRUNCATE cannot be applied in parts", object_=str(log.shape.table))

    def wiped(keys: list[Any]) -> Mask:
        mask = np.broadcast_to(window.floors_of(keys) < position, len(keys[0]))
        seen = window.seen(np.repeat(xid, len(keys[0])), window.chunks_of(keys))
        return mask if seen is None else mask & ~seen

    whole = window.whole and not any(snapshot.sees(xid)[0] for snapshot in window.snapshots)
    return Truncation(row, rank, whole, wiped)


def events_of(log: Log, window: Window, truncation: Truncation | None) -> Events:
    """All events of the log, in order, and which of them count."""
    order = log.order
    row_changes = log.op[order] != TRUNCATE
    ranks = np.flatnonzero(row_changes)
    row = order if len(ranks) == len(order) else order[ranks]
    deleted = log.op == DELETE
    moved = _moved(log)
    keys = [_key(log, i, row, deleted) for i in log.key]
    kind = log.op[row]
    if moved.any():
        row, ranks, kind, keys = _with_taken_keys(log, moved, row, ranks, kind, keys)
    code = encode(keys, gaps=len(window.snapshots) < 2)
    ours, counts = _counts(log, window, truncation, row, ranks, keys, code)
    return Events(row, kind, keys, code, ours, counts, moved)


def _key(log: Log, i: int, row: Index, deleted: Mask) -> Any:
    """A key column as the events have it: of the old image for deletes, else of the new row."""
    values = log.new[i]
    if deleted.all():
        values = log.old[i]
    elif deleted.any():
        values = pc.if_else(pa.array(deleted), log.old[i], values)
    return taken(values, row)


def _moved(log: Log) -> Mask:
    """Updates that change the key: those with an old image whose key is another one."""
    sent: Mask = log.has_old & (log.op == UPDATE)
    if not sent.any():
        return sent
    rows: Index = np.flatnonzero(sent)
    differs = np.zeros(len(rows), dtype=np.bool_)
    for i in log.key:
        both = encode([pa.concat_arrays([taken(log.new[i], rows), taken(log.old[i], rows)])]).codes
        differs |= both[: len(rows)] != both[len(rows) :]
    out: Mask = np.zeros(len(log), dtype=np.bool_)
    out[rows[differs]] = True
    return out


def _with_taken_keys(
    log: Log,
    moved: Mask,
    row: Index,
    ranks: Index,
    kind: npt.NDArray[np.uint8],
    keys: list[Any],
) -> tuple[Index, Index, npt.NDArray[np.uint8], list[Any]]:
    """Put in front of each change of a key the event that takes the old one."""
    at = np.flatnonzero(moved[row])
    brought = kind.copy()
    brought[at] = INSERT
    every_row = np.concatenate([row, row[at]])
    every_kind = np.concatenate([brought, np.full(len(at), DELETE, dtype=np.uint8)])
    time = np.concatenate([ranks * 2 + 1, ranks[at] * 2])
    sorted_ = np.argsort(time, kind="stable")
    merged = [
        pa.concat_arrays([column, taken(log.old[i], row[at])]).take(pa.array(sorted_))
        for i, column in zip(log.key, keys, strict=True)
    ]
    return every_row[sorted_], time[sorted_] >> 1, every_kind[sorted_], merged


def _counts(
    log: Log,
    window: Window,
    truncation: Truncation | None,
    row: Index,
    ranks: Index,
    keys: list[Any],
    code: Codes,
) -> tuple[Mask, Mask]:
    """Which events have a key of ours, and which of those are in the window.

    What depends on the key alone is asked once per key, where that saves anything.
    """
    distinct = keys
    of_key: Index | slice = slice(None)
    by_key = not window.whole or len(window.snapshots) > 1 or truncation is not None
    if by_key and not code.gaps:
        first = code.first()
        distinct = [taken(column, first) for column in keys]
        of_key = code.codes
    floor = window.floors_of(distinct)
    at = log.position[row]
    if isinstance(floor, int):
        ours, counts = np.ones(len(row), dtype=np.bool_), at > floor
    else:
        ours, counts = floor[of_key] != NOT_MINE, at > floor[of_key]
    chunk = window.chunks_of(distinct)
    seen = window.seen(log.xid[row], None if chunk is None else chunk[of_key])
    if seen is not None:
        counts &= ~seen
    if truncation is not None:
        counts &= ~(truncation.wiped(distinct)[of_key] & (ranks < truncation.rank))
    return ours, counts
