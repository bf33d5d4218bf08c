"""Batches that land in several parts: how they are cut, recorded, and finished.

A part is a range of the span's keys, cut by `part_range` and by nothing else: tasks choose their
rows by it, and receipts turn into floors by it. So a batch that its owner did not finish needs no
one to finish it: who claims the span next finds the floors of the parts that have landed raised,
and those of the others where they were, just as after a merge. Whatever the new owner does next,
each change is applied once.

    record_batch ──► tasks: enter(share), part_landed, rows ──► finish_batch
         │
         └─ the owner dies ──► claim: the receipts become floors, the batch is over
"""

from lockgate.endpoints.postgres.sink.hold import NOT_HELD
from lockgate.endpoints.postgres.sink.rows import (
    Cursor,
    Refused,
    SpanRow,
    encoded,
    lock_span,
)
from lockgate.model.floors import Floors, Refusal, joined, least, raised
from lockgate.model.ids import FeedId, SpanId, Token
from lockgate.model.positions import Position
from lockgate.model.spans import KeyRange
from lockgate.model.value import Value

__all__ = ["Batch", "finish_batch", "folded", "part_range", "record_batch", "settle"]

_KEY_BYTES = 8
"""Keys of spans are hashes of this many bytes (big-endian)."""


class Batch(Value, frozen=True):
    """A recorded batch: from the span's floors up to `to`, in so many parts."""

    floors: Floors
    to: Position
    parts: int
    landed: tuple[int, ...] = ()
    """The parts that need not be run again."""


def part_range(keys: KeyRange, part: int, parts: int) -> KeyRange:
    """The keys of part `part` (from 0) of a span's `keys`. All parts cover it, none overlap.

    A part of a range with fewer keys than parts may be empty: then its low is its high.
    """
    if not 0 <= part < parts:
        raise ValueError(f"there is no part {part} of {parts}")
    low = int.from_bytes(keys.low[:_KEY_BYTES].ljust(_KEY_BYTES, b"\0"), "big")
    high = 1 << (8 * _KEY_BYTES)
    if keys.high is not None:
        high = int.from_bytes(keys.high[:_KEY_BYTES].ljust(_KEY_BYTES, b"\0"), "big")

    def cut(number: int) -> bytes:
        return max(keys.low, (low + (high - low) * number // parts).to_bytes(_KEY_BYTES, "big"))

    return KeyRange(
        keys.low if part == 0 else cut(part),
        keys.high if part == parts - 1 else cut(part + 1),
    )


def folded(floors: Floors, to: Position, parts: list[tuple[KeyRange, bool]]) -> Floors:
    """The floors once what has landed is counted: `parts` are ranges, and whether they have."""
    return joined(
        [
            (common, max(position, to) if landed else position)
            for keys, position in floors
            for part, landed in parts
            if (common := keys.intersection(part)) is not None
        ]
    )


def record_batch(
    cursor: Cursor,
    feed: FeedId,
    span: SpanId,
    token: Token,
    floors: Floors,
    to: Position,
    parts: int,
) -> Batch:
    """Record a batch before its tasks start.

    One that is recorded already is answered, whatever its numbers: it is to be finished first.
    """
    row = _mine(cursor, feed, span, token)
    if row.floors != floors:
        raise Refused(Refusal.MOVED)
    if row.batch_to is not None:
        recorded = _parts(cursor, feed, span)
        landed = tuple(number for number, (_, done) in enumerate(recorded) if done)
        return Batch(row.floors, row.batch_to, len(recorded), landed)
    if to <= least(floors):
        raise ValueError(f"a batch from {least(floors)} to {to} holds nothing")
    ranges = [part_range(row.spec.range, part, parts) for part in range(parts)]
    cursor.execute(
        "UPDATE lockgate.progress SET batch_to = %s, batch_parts = %s "
        "WHERE feed = %s AND span = %s AND " + NOT_HELD.format(to="%s"),
        (to, parts, feed, span, to, feed),
    )
    if cursor.rowcount != 1:
        raise Refused(Refusal.HELD)
    cursor.execute(
        "INSERT INTO lockgate.parts (feed, span, part, low, high) "
        "SELECT %s, %s, part - 1, low, high "
        "FROM unnest(%s::bytea[], %s::bytea[]) WITH ORDINALITY AS cut (low, high, part)",
        (feed, span, [keys.low for keys in ranges], [keys.high for keys in ranges]),
    )
    return Batch(floors, to, parts)


def finish_batch(cursor: Cursor, feed: FeedId, span: SpanId, token: Token) -> Floors:
    """Move the floors to where the recorded batch goes, once all parts have landed.

    Without a recorded batch there is nothing to finish, and the floors are answered as they are:
    so it may be asked again by who did not hear the answer.
    """
    row = _mine(cursor, feed, span, token)
    if row.batch_to is None:
        return row.floors
    if not all(landed for _, landed in _parts(cursor, feed, span)):
        raise Refused(Refusal.BEHIND)
    floors = raised(row.floors, row.batch_to)
    _end_batch(cursor, feed, span, floors)
    return floors


def settle(cursor: Cursor, feed: FeedId, row: SpanRow) -> Floors:
    """The floors of a row that we hold alone, its batch dissolved into them if it has one."""
    if row.batch_to is None:
        return row.floors
    floors = folded(row.floors, row.batch_to, _parts(cursor, feed, row.spec.id))
    _end_batch(cursor, feed, row.spec.id, floors)
    return floors


def _mine(cursor: Cursor, feed: FeedId, span: SpanId, token: Token) -> SpanRow:
    row = lock_span(cursor, feed, span)
    if row is None:
        raise Refused(Refusal.GONE)
    if row.token != token:
        raise Refused(Refusal.NEWER)
    return row


def _parts(cursor: Cursor, feed: FeedId, span: SpanId) -> list[tuple[KeyRange, bool]]:
    cursor.execute(
        "SELECT low, high, landed FROM lockgate.parts WHERE feed = %s AND span = %s ORDER BY part",
        (feed, span),
    )
    return [(KeyRange(low, high), landed) for low, high, landed in cursor.fetchall()]


def _end_batch(cursor: Cursor, feed: FeedId, span: SpanId, floors: Floors) -> None:
    cursor.execute(
        "UPDATE lockgate.progress "
        "SET floors = %s::jsonb, position = %s, batch_to = NULL, batch_parts = NULL "
        "WHERE feed = %s AND span = %s",
        (encoded(floors), least(floors), feed, span),
    )
    cursor.execute("DELETE FROM lockgate.parts WHERE feed = %s AND span = %s", (feed, span))
