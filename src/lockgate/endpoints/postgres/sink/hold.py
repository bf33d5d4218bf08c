"""hold: nothing of a feed is applied beyond a position, until it is released or its time is over.

    hold(None)  ──► everybody stays where they are; the answer is the furthest that anybody is
    hold(upto)  ──► everybody comes to stand at exactly `upto`, wherever they are now
    release     ──► they go on; or `until` is over, by this server's clock, and they go on too

A hold is on the feed's row, so splits, merges, claims and births carry on under it: who moves asks
the feed, not the span. It has an id, which is not an owner's: whoever works on the feed obeys it,
the next owner too. Its end is what frees a feed whose holder died.

**Who moves looks after it has its row.** Everybody who moves a row, or records a batch for it, has
that row locked by an earlier statement, and looks at the hold in the one that moves it. A hold
locks the feed's row and every span's row, and only then reads how far they are. So of the two one
has the row first. If it is the mover, the hold waits for its commit, and counts what it did. If it
is the hold, the mover's next statement begins after the hold's commit, and in read committed it
sees it. The feed's row comes first because whoever makes new rows holds it: none is born unseen
between the look and the commit.

The turnstile stays open: who is inside to build an index moves nothing, and may be there for long.
Parts of a recorded batch have their row in share mode, one after the other, but no more than there
are: a hold that waits for the row has it when the batch is through.
"""

from typing import Final, NamedTuple

from lockgate.endpoints.postgres.sink.rows import Cursor, lock_feed, lock_spans
from lockgate.model.errors import Conflict, EndpointBusy
from lockgate.model.ids import FeedId
from lockgate.model.positions import Position

__all__ = ["NOT_HELD", "Stands", "held_by", "held_upto", "hold", "release", "stands", "take_over"]

NOT_HELD: Final = """
{to} <= coalesce((SELECT h.hold_upto FROM lockgate.feeds h
                  WHERE h.feed = %s AND h.hold_until > clock_timestamp()), 9223372036854775807)
"""
"""For the statement that moves rows to `to`. The parameter is the feed. Like this it is looked up
once for all rows; as NOT EXISTS it was joined with them, and took minutes for thousands."""

_HELD: Final = "hold_until > clock_timestamp()"

_STANDS: Final = """
SELECT LEAST(f.position, min(p.position)),
       GREATEST(f.position, max(floors.highest), max(p.batch_to)),
       count(p.batch_to), coalesce(bool_and(p.copied), true)
  FROM lockgate.feeds f
  LEFT JOIN lockgate.progress p ON p.feed = f.feed
  LEFT JOIN LATERAL (SELECT max((floor ->> 1)::bigint) AS highest
                       FROM jsonb_array_elements(p.floors) AS floor) AS floors ON true
 WHERE f.feed = %s AND NOT f.closed AND f.position IS NOT NULL
 GROUP BY f.feed
"""


class Stands(NamedTuple):
    """How far a feed's rows at the sink are, the trigger's among them."""

    least: Position
    """Everything up to here is applied."""
    greatest: Position
    """Nothing beyond this is applied, nor recorded to be."""
    batches: int
    """Recorded and not finished: their rows may be there in part."""
    copied: bool
    """Every span has its rows, and what it has of them is as of its position."""

    def exactly(self, position: Position) -> bool:
        """True when the target's rows are the source's as of this position."""
        return self.least == self.greatest == position and not self.batches and self.copied


def stands(cursor: Cursor, feed: FeedId) -> Stands | None:
    """As one statement sees them; None when the feed is not born, or closed."""
    found = cursor.execute(_STANDS, (feed,)).fetchone()
    return None if found is None else Stands(*found)


def held_upto(cursor: Cursor, feed: FeedId) -> Position | None:
    """The position beyond which nothing is applied now; None when the feed is not held."""
    found = cursor.execute(
        f"SELECT hold_upto FROM lockgate.feeds WHERE feed = %s AND {_HELD}", (feed,)
    ).fetchone()
    return None if found is None else found[0]


def held_by(cursor: Cursor, feed: FeedId) -> str | None:
    """The id of the hold that is on; None when the feed is not held."""
    found = cursor.execute(
        f"SELECT hold_id FROM lockgate.feeds WHERE feed = %s AND {_HELD}", (feed,)
    ).fetchone()
    return None if found is None else found[0]


def hold(
    cursor: Cursor, feed: FeedId, hold_id: str, upto: Position | None, seconds: float
) -> Position:
    """Hold the feed at `upto`, or where it is: where that is. Asked again, it lasts longer."""
    if lock_feed(cursor, feed) is None:
        raise _unborn(feed)
    held = _held(cursor, feed)
    if held is not None and held[0] != hold_id:
        raise EndpointBusy(
            f"the feed is held by {held[0]} for another {max(held[2], 1):.0f} s",
            object_=feed,
            hint="it is tried again; another comparison or the end of a move is under way",
            operation="hold a feed",
        )
    if held is None or held[1] != upto:  # else nobody has moved beyond it since
        lock_spans(cursor, feed)
        upto = _allowed(feed, upto, stands(cursor, feed))
    cursor.execute(
        "UPDATE lockgate.feeds SET hold_id = %s, hold_upto = %s, "
        "hold_until = clock_timestamp() + make_interval(secs => %s) WHERE feed = %s",
        (hold_id, upto, seconds, feed),
    )
    return upto


def release(cursor: Cursor, feed: FeedId, hold_id: str) -> bool:
    """Let it go on. False: this hold is not there; another's is left alone."""
    cursor.execute(
        "UPDATE lockgate.feeds SET hold_id = NULL, hold_upto = NULL, hold_until = NULL "
        "WHERE feed = %s AND hold_id = %s",
        (feed, hold_id),
    )
    return cursor.rowcount == 1


def take_over(cursor: Cursor, feed: FeedId, prefix: str, hold_id: str) -> None:
    """If the feed has a hold whose id begins like this, it is this one's from now on."""
    cursor.execute(
        "UPDATE lockgate.feeds SET hold_id = %s "
        "WHERE feed = %s AND starts_with(hold_id, %s) AND hold_id <> %s",
        (hold_id, feed, prefix, hold_id),
    )


def _held(cursor: Cursor, feed: FeedId) -> tuple[str, Position, float] | None:
    """Who holds the feed, where, and for how many seconds more. The feed's row is ours."""
    found = cursor.execute(
        "SELECT hold_id, hold_upto, extract(epoch FROM hold_until - clock_timestamp())::float8 "
        f"FROM lockgate.feeds WHERE feed = %s AND {_HELD}",
        (feed,),
    ).fetchone()
    return None if found is None else (found[0], found[1], found[2])


def _allowed(feed: FeedId, upto: Position | None, now: Stands | None) -> Position:
    if now is None:
        raise _unborn(feed)
    if upto is None:
        return now.greatest
    if upto < now.greatest:
        raise Conflict(
            f"the feed is beyond the position at which it is to be held: {now.greatest} > {upto}",
            object_=feed,
            hint="hold it where it is first, and then choose a position",
            operation="hold a feed",
        )
    return upto


def _unborn(feed: FeedId) -> Conflict:
    return Conflict(
        "the target has no such feed",
        object_=feed,
        hint="it must have begun, and not be removed; see `lockgate feed status`",
        operation="hold a feed",
    )
