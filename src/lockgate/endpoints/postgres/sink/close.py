"""close: void all lower tokens of a feed; to forget it, leave a tombstone only."""

from lockgate.endpoints.postgres.sink.claim import make_feed
from lockgate.endpoints.postgres.sink.rows import (
    Cursor,
    close_turnstile,
    lock_spans,
    peek_feed,
    remove_spans,
)
from lockgate.model.ids import FeedId, Token

__all__ = ["close"]


def close(cursor: Cursor, feed: FeedId, token: Token, forget: bool) -> bool:
    """False: a newer owner is there already, and nothing was changed."""
    seen = peek_feed(cursor, feed)
    if seen is not None and seen.token.epoch > token.epoch:
        return False
    close_turnstile(cursor, feed)
    # An unborn feed keeps the token too, or a late first claim would still be let in.
    row = make_feed(cursor, feed, token)
    held = token if row is None else row.token
    if held.epoch > token.epoch:
        return False
    highest = max(held, token)
    cursor.execute(
        "UPDATE lockgate.feeds SET epoch = %s, seq = %s, incarnation = %s WHERE feed = %s",
        (highest.epoch, highest.seq, highest.incarnation, feed),
    )
    lock_spans(cursor, feed)
    if forget:
        remove_spans(cursor, feed)
        cursor.execute(
            "UPDATE lockgate.feeds SET closed = true, position = NULL WHERE feed = %s", (feed,)
        )
    else:
        mine = (token.epoch, token.seq, token.incarnation)
        cursor.execute(
            "UPDATE lockgate.progress SET epoch = %s, seq = %s, incarnation = %s "
            "WHERE feed = %s AND (epoch, seq, incarnation) < (%s, %s, %s)",
            (*mine, feed, *mine),
        )
    return True
