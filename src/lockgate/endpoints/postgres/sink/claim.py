"""claim: write a token into a row, which voids every lower one, and learn where to go on.

A claim never makes a row. Rows come into being in three ways only: the feed's birth (the trigger's
first claim), a `CREATE` written by the trigger, and the turn-over of a split or merge. So a zombie
of a dropped table finds nothing to claim, and cannot bring it back.

Tokens only grow. So a claim first looks without waiting, and one that comes too late goes away
before it is in anybody's way.
"""

from lockgate.endpoints.postgres.sink.parts import settle
from lockgate.endpoints.postgres.sink.rows import (
    Cursor,
    FeedRow,
    Refused,
    SpanRow,
    close_turnstile,
    insert_spans,
    lock_feed,
    lock_span,
    lock_spans,
    peek_feed,
    peek_span,
    remove_spans,
)
from lockgate.endpoints.postgres.sink.turnover import turn_over
from lockgate.model.floors import Floors, Refusal
from lockgate.model.ids import FeedId, Token
from lockgate.model.positions import Position
from lockgate.model.spans import TRIGGER, WHOLE, Birth, Lineage, SpanSpec

__all__ = ["claim_feed", "claim_span", "make_feed"]


def claim_span(
    cursor: Cursor, feed: FeedId, spec: SpanSpec, token: Token, lineage: Lineage | None
) -> Floors:
    """The span's row is ours from here on; what was in flight under a lower token is not."""
    seen = peek_span(cursor, feed, spec.id)
    if seen is not None and token < seen.token:
        raise Refused(Refusal.NEWER)
    close_turnstile(cursor, feed, [spec.id])
    row = lock_span(cursor, feed, spec.id)
    if row is None:
        if lineage is None:
            raise Refused(Refusal.GONE)
        row = turn_over(cursor, feed, spec, token, lineage)
    if token < row.token:
        raise Refused(Refusal.NEWER)
    cursor.execute(
        "UPDATE lockgate.progress SET epoch = %s, seq = %s, incarnation = %s "
        "WHERE feed = %s AND span = %s",
        (token.epoch, token.seq, token.incarnation, feed, spec.id),
    )
    return settle(cursor, feed, row)


def claim_feed(cursor: Cursor, feed: FeedId, token: Token, birth: Birth | None) -> Floors:
    """The trigger's row is ours; with it, if the feed is not born yet, its first rows are made."""
    seen = peek_feed(cursor, feed)
    if seen is not None and (late := _too_late(seen, token)) is not None:
        raise Refused(late)
    close_turnstile(cursor, feed, [TRIGGER])
    row = make_feed(cursor, feed, token)
    if row is not None and (late := _too_late(row, token)) is not None:
        raise Refused(late)
    if row is None or row.closed or row.position is None:
        if birth is None:
            raise Refused(Refusal.GONE)
        position = _give_birth(cursor, feed, token, birth)
    else:
        position = row.position
    cursor.execute(
        "UPDATE lockgate.feeds SET epoch = %s, seq = %s, incarnation = %s, position = %s, "
        "closed = false WHERE feed = %s",
        (token.epoch, token.seq, token.incarnation, position, feed),
    )
    return ((WHOLE, position),)


def _too_late(row: FeedRow, token: Token) -> Refusal | None:
    """Why this token will never have the feed's row."""
    if row.closed and row.token.epoch >= token.epoch:
        return Refusal.CLOSED
    unborn = row.closed or row.position is None
    if token < row.token or (unborn and token == row.token):
        return Refusal.NEWER
    return None


def make_feed(cursor: Cursor, feed: FeedId, token: Token) -> FeedRow | None:
    """The feed's row, locked; None when there was none, and an unborn one is there now."""
    row = lock_feed(cursor, feed)
    if row is not None:
        return row
    cursor.execute(
        "INSERT INTO lockgate.feeds (feed, epoch, seq, incarnation) VALUES (%s, %s, %s, %s) "
        "ON CONFLICT DO NOTHING",
        (feed, token.epoch, token.seq, token.incarnation),
    )
    if cursor.rowcount == 1:
        return None
    return lock_feed(cursor, feed)  # somebody else was making it; feeds' rows are never deleted


def _give_birth(cursor: Cursor, feed: FeedId, token: Token, birth: Birth) -> Position:
    lock_spans(cursor, feed)
    remove_spans(cursor, feed)
    # A hold was on the feed that had this name.
    cursor.execute(
        "UPDATE lockgate.feeds SET hold_id = NULL, hold_upto = NULL, hold_until = NULL "
        "WHERE feed = %s",
        (feed,),
    )
    # Under its maker's epoch, or a dispatcher of a closed owner could claim a row that was born
    # after the close, under the span's same name.
    floor = token.floor()
    insert_spans(
        cursor,
        feed,
        [SpanRow(spec, floor, ((spec.range, birth.position),)) for spec in birth.spans],
    )
    return birth.position
