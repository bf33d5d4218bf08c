"""advance: move the rows of many spans to which nothing happened, in one transaction.

Each row is compared and moved for itself: one that is refused holds up nobody. The trigger's row
may be among them. Rows are locked by name first, all others who lock several rows do the same.
"""

from collections.abc import Sequence
from typing import NamedTuple

from lockgate.endpoints.postgres.sink.hold import NOT_HELD, held_upto
from lockgate.endpoints.postgres.sink.rows import Cursor, encoded, lock_feed
from lockgate.model.floors import Floors, Refusal, least, raised
from lockgate.model.ids import FeedId, SpanId, Token
from lockgate.model.positions import Position
from lockgate.model.spans import TRIGGER, WHOLE

__all__ = ["Advance", "Asked", "advance"]


class Advance(NamedTuple):
    """There is nothing for this span between its floors and `to`."""

    span: SpanId
    token: Token
    floors: Floors
    to: Position


Asked = tuple[SpanId, Token, Floors, Position]
"""An `Advance`, or the same as a plain tuple."""


def advance(cursor: Cursor, feed: FeedId, asked: Sequence[Asked]) -> dict[SpanId, Floors | Refusal]:
    """Where each of them stands now, or why it does not move."""
    by_span = {one[0]: Advance(*one) for one in asked}
    if len(by_span) != len(asked):
        raise ValueError("a span can be moved only once at a time")
    answers: dict[SpanId, Floors | Refusal] = {}
    trigger = by_span.pop(TRIGGER, None)
    if trigger is not None:
        answers[TRIGGER] = _advance_feed(cursor, feed, trigger)
    if by_span:
        answers |= _advance_spans(cursor, feed, list(by_span.values()))
    return answers


def _advance_feed(cursor: Cursor, feed: FeedId, one: Advance) -> Floors | Refusal:
    row = lock_feed(cursor, feed)
    if row is None or row.closed or row.position is None:
        return Refusal.CLOSED
    if row.token != one.token:
        return Refusal.NEWER
    if row.position != one.floors[0][1]:
        return Refusal.MOVED
    cursor.execute(
        "UPDATE lockgate.feeds SET position = %s WHERE feed = %s AND " + NOT_HELD.format(to="%s"),
        (one.to, feed, one.to, feed),
    )
    if cursor.rowcount != 1:
        return Refusal.HELD
    return ((WHOLE, one.to),)


def _advance_spans(
    cursor: Cursor, feed: FeedId, asked: list[Advance]
) -> dict[SpanId, Floors | Refusal]:
    spans = [one.span for one in asked]
    moved = [raised(one.floors, one.to) for one in asked]
    cursor.execute(
        "SELECT span, epoch, seq, incarnation FROM lockgate.progress "
        "WHERE feed = %s AND span = ANY (%s) ORDER BY span FOR UPDATE",
        (feed, spans),
    )
    held = {span: Token(*token) for span, *token in cursor.fetchall()}
    cursor.execute(
        """
        UPDATE lockgate.progress p SET floors = a.moved::jsonb, position = a.position
        FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::text[],
                    %s::bigint[]) AS a (span, epoch, seq, incarnation, floors, moved, position)
        WHERE p.feed = %s AND p.span = a.span
          AND (p.epoch, p.seq, p.incarnation) = (a.epoch, a.seq, a.incarnation)
          AND p.floors = a.floors::jsonb AND p.batch_to IS NULL AND """
        + NOT_HELD.format(to="a.position")
        + "RETURNING p.span",
        (
            spans,
            [one.token.epoch for one in asked],
            [one.token.seq for one in asked],
            [one.token.incarnation for one in asked],
            [encoded(one.floors) for one in asked],
            [encoded(floors) for floors in moved],
            [least(floors) for floors in moved],
            *(feed, feed),
        ),
    )
    done = {span for (span,) in cursor.fetchall()}
    upto = held_upto(cursor, feed) if len(done) != len(asked) else None
    return {
        one.span: floors if one.span in done else _refusal(held.get(one.span), one, upto)
        for one, floors in zip(asked, moved, strict=True)
    }


def _refusal(held: Token | None, one: Advance, upto: Position | None) -> Refusal:
    if held is None:
        return Refusal.GONE
    if held != one.token:
        return Refusal.NEWER
    return Refusal.HELD if upto is not None and one.to > upto else Refusal.MOVED
