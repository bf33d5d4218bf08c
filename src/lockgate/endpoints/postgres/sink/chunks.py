"""The chunks of a span's initial copy: planned once, recorded as they land, forgotten at the end.

A chunk is an interval of the source's key, in the source's own order, and a range of the span's
keys (hashes). The second is the span's whole range, until the span is split or merged in the
middle of its copy: then each new span has a row for its own share of every chunk, with what has
landed of it. So at every moment the rows say under which snapshot each key was copied, if it was.
Where that is forgotten, because the copy of those keys is over, it is `BLIND`.

    begin_run ──► plan_chunks ──► tasks: enter_copy, rows, chunk_done ──► all done
      ──► key, indexes: mark_built ──► apply, leaving out what the snapshots have ──► forget_chunks

A run that broke off may have left tasks behind, under the same token and an old snapshot. So runs
have numbers: the next one waits for the tasks that are inside, and later ones are refused.

`forget_chunks` leaves behind that the copy is over, so that nobody begins it anew.
"""

from collections.abc import Sequence

from lockgate.endpoints.postgres.sink.rows import (
    Cursor,
    Refused,
    SpanRow,
    close_turnstile,
    lock_span,
)
from lockgate.endpoints.postgres.sink.snapshots import BLIND
from lockgate.model.floors import Refusal
from lockgate.model.ids import FeedId, SpanId, Token
from lockgate.model.spans import KeyRange
from lockgate.model.value import Value

__all__ = [
    "Chunk",
    "Edge",
    "begin_run",
    "chunks",
    "copy_over",
    "forget_chunks",
    "hand_down",
    "hand_over",
    "mark_built",
    "plan_chunks",
    "unland_chunks",
    "unplan_chunks",
]

Edge = tuple[str, ...] | None
"""A key of the source as text, one value per column; None: no edge on this side."""


class Chunk(Value, frozen=True):
    """From `low` up to, not including, `high`, as far as the keys' hashes lie in `keys`."""

    no: int
    low: Edge = None
    high: Edge = None
    keys: KeyRange = KeyRange()
    snapshot: str | None = None
    """The source's `pg_current_snapshot()` under which it was read, once it has landed."""
    rows: int = 0
    bytes: int = 0
    done: bool = False


def begin_run(cursor: Cursor, feed: FeedId, span: SpanId, token: Token) -> int:
    """The number of a new copy run; no task of an earlier one lands anything from here on."""
    close_turnstile(cursor, feed, [span])
    run = _mine(cursor, feed, span, token).copy_run + 1
    cursor.execute(
        "UPDATE lockgate.progress SET copy_run = %s WHERE feed = %s AND span = %s",
        (run, feed, span),
    )
    return run


def plan_chunks(
    cursor: Cursor,
    feed: FeedId,
    span: SpanId,
    token: Token,
    edges: Sequence[tuple[Edge, Edge]],
) -> list[Chunk]:
    """Record the chunks before any is copied. If some are there, or all is over, those stay."""
    row = _mine(cursor, feed, span, token)
    there = chunks(cursor, feed, span)
    if there or row.copied:
        return there
    if not edges:
        raise ValueError("an empty table is one chunk without edges")
    cursor.executemany(
        "INSERT INTO lockgate.chunks (feed, span, no, low, high, keys_low, keys_high) "
        "VALUES (%s, %s, %s, %s::text[], %s::text[], %s, %s)",
        [
            (feed, span, no, _listed(low), _listed(high), row.spec.range.low, row.spec.range.high)
            for no, (low, high) in enumerate(edges)
        ],
    )
    return chunks(cursor, feed, span)


def chunks(cursor: Cursor, feed: FeedId, span: SpanId) -> list[Chunk]:
    """All chunks of a span that are recorded and not forgotten."""
    cursor.execute(
        "SELECT no, low, high, keys_low, keys_high, snapshot, rows, bytes, done "
        "FROM lockgate.chunks WHERE feed = %s AND span = %s ORDER BY no",
        (feed, span),
    )
    return [
        Chunk(no, _edge(low), _edge(high), KeyRange(keys_low, keys_high), *rest)
        for no, low, high, keys_low, keys_high, *rest in cursor.fetchall()
    ]


def copy_over(cursor: Cursor, feed: FeedId, span: SpanId) -> bool:
    """True when nothing is left to copy or to build for this span."""
    found = cursor.execute(
        "SELECT copied OR built FROM lockgate.progress WHERE feed = %s AND span = %s", (feed, span)
    ).fetchone()
    if found is None:
        raise Refused(Refusal.GONE)
    return bool(found[0])


def mark_built(cursor: Cursor, feed: FeedId, span: SpanId, token: Token) -> None:
    """All rows are there, and so is what was left for after them. BEHIND while a chunk is left."""
    _mine(cursor, feed, span, token)
    there = chunks(cursor, feed, span)
    if not there or not all(chunk.done for chunk in there):
        raise Refused(Refusal.BEHIND)
    cursor.execute(
        "UPDATE lockgate.progress SET built = true WHERE feed = %s AND span = %s", (feed, span)
    )


def unland_chunks(cursor: Cursor, feed: FeedId, span: SpanId, token: Token) -> None:
    """Have all chunks copied anew. Whoever asks removes in this transaction what they brought."""
    _mine(cursor, feed, span, token)
    cursor.execute(
        "UPDATE lockgate.chunks SET done = false, snapshot = NULL, rows = 0, bytes = 0 "
        "WHERE feed = %s AND span = %s",
        (feed, span),
    )
    cursor.execute(
        "UPDATE lockgate.progress SET built = false WHERE feed = %s AND span = %s", (feed, span)
    )


def unplan_chunks(cursor: Cursor, feed: FeedId, span: SpanId, token: Token) -> None:
    """Have the span copied as if it never was. Whoever asks removes its rows together with this."""
    _mine(cursor, feed, span, token)
    cursor.execute("DELETE FROM lockgate.chunks WHERE feed = %s AND span = %s", (feed, span))
    cursor.execute(
        "UPDATE lockgate.progress SET built = false, copied = false WHERE feed = %s AND span = %s",
        (feed, span),
    )


def forget_chunks(
    cursor: Cursor, feed: FeedId, span: SpanId, token: Token, *, uncopied: bool = False
) -> None:
    """The snapshots are needed no more: every change that one of them has is behind the floors.

    Refused as BEHIND before `mark_built`. `uncopied` declares the copy over before any
    chunk was planned: for a table whose rows are at the target already.
    """
    row = _mine(cursor, feed, span, token)
    there = chunks(cursor, feed, span)
    if row.copied:
        return
    if bool(there) == uncopied or (there and not row.built):
        raise Refused(Refusal.BEHIND)
    _set_copied(cursor, feed, span)
    cursor.execute("DELETE FROM lockgate.chunks WHERE feed = %s AND span = %s", (feed, span))


def hand_down(
    cursor: Cursor, feed: FeedId, sources: Sequence[SpanRow], targets: Sequence[SpanRow]
) -> None:
    """Give every target of a split or merge its share of the sources' chunks.

    Among sources that differ, one that was not planned yet has one chunk without edges. So has one
    whose copy is over, landed and `BLIND`, for its rows are there; a target that gets nothing else
    is over itself. What was counted of a chunk stays with the first target, so that the sums stay
    right.
    """
    planned = [
        (source, chunk)
        for source in sources
        if not source.copied
        for chunk in chunks(cursor, feed, source.spec.id)
    ]
    over = [source for source in sources if source.copied]
    if len(over) == len(sources) or not (planned or over):
        return
    have = {source.spec.id for source, _ in planned}
    planned += [
        (source, Chunk(0, keys=source.spec.range))
        for source in sources
        if not source.copied and source.spec.id not in have
    ]
    planned += [
        (source, Chunk(0, keys=source.spec.range, snapshot=BLIND, done=True)) for source in over
    ]
    rows = []
    counted: set[tuple[SpanId, int]] = set()
    for target in targets:
        shares = [
            (source.spec.id, chunk, keys)
            for source, chunk in planned
            if (keys := chunk.keys.intersection(target.spec.range)) is not None
        ]
        if {chunk.snapshot for _, chunk, _ in shares} == {BLIND}:
            _set_copied(cursor, feed, target.spec.id)
            continue
        for no, (source_id, chunk, keys) in enumerate(shares):
            first = (source_id, chunk.no) not in counted
            counted.add((source_id, chunk.no))
            counts = (chunk.rows, chunk.bytes) if first else (0, 0)
            edges = (_listed(chunk.low), _listed(chunk.high), keys.low, keys.high)
            rows.append((feed, target.spec.id, no, *edges, chunk.snapshot, *counts, chunk.done))
    cursor.executemany(
        "INSERT INTO lockgate.chunks (feed, span, no, low, high, keys_low, keys_high, snapshot, "
        "rows, bytes, done) "
        "VALUES (%s, %s, %s, %s::text[], %s::text[], %s, %s, %s, %s, %s, %s)",
        rows,
    )


def hand_over(cursor: Cursor, feed: FeedId, sources: Sequence[SpanRow], target: SpanRow) -> None:
    """Give the span of a table that has another name now what its spans had under the old one.

    No snapshot from before the rename has a change that comes after it, so what is built is over.
    A plan of which nothing has landed is left behind: the key may be another one now.
    """
    cursor.execute(
        "DELETE FROM lockgate.chunks WHERE feed = %(feed)s AND span = ANY (%(spans)s) "
        "AND span NOT IN (SELECT span FROM lockgate.chunks WHERE feed = %(feed)s AND done)",
        {"feed": feed, "spans": [source.spec.id for source in sources]},
    )
    settled = [source._replace(copied=source.copied or source.built) for source in sources]
    hand_down(cursor, feed, settled, [target])


def _set_copied(cursor: Cursor, feed: FeedId, span: SpanId) -> None:
    cursor.execute(
        "UPDATE lockgate.progress SET copied = true WHERE feed = %s AND span = %s", (feed, span)
    )


def _mine(cursor: Cursor, feed: FeedId, span: SpanId, token: Token) -> SpanRow:
    row = lock_span(cursor, feed, span)
    if row is None:
        raise Refused(Refusal.GONE)
    if row.token != token:
        raise Refused(Refusal.NEWER)
    return row


def _edge(values: list[str] | None) -> Edge:
    return None if values is None else tuple(values)


def _listed(edge: Edge) -> list[str] | None:
    return None if edge is None else list(edge)
