"""The rows of the fence as values, and how they are locked.

**The turnstile.** PostgreSQL lets a new `FOR SHARE` in past a `FOR UPDATE` that waits already, so
an unbroken stream of share-mode tasks would keep a claim out for ever. Advisory locks queue. So
a task passes the turnstile of its feed and of its span (shared) before it locks the row, and
whoever wants to take over closes the turnstile (exclusive): new tasks line up behind it, those
inside finish or are ended, and whoever comes through afterwards reads the new token. Only the
row decides who may write; the turnstile decides who is next.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import psycopg
from psycopg.rows import TupleRow

from lockgate.model.floors import Floors, Refusal, least
from lockgate.model.ids import FeedId, SpanId, TableId, Token
from lockgate.model.positions import Position
from lockgate.model.spans import KeyRange, SpanSpec

__all__ = [
    "Cursor",
    "FeedRow",
    "Refused",
    "SpanRow",
    "ask_for_spans",
    "close_turnstile",
    "decoded",
    "encoded",
    "insert_spans",
    "lock_feed",
    "lock_span",
    "lock_spans",
    "pass_turnstile",
    "pass_turnstiles",
    "peek_feed",
    "peek_span",
    "remove_spans",
    "span_row",
]

Cursor = psycopg.Cursor[TupleRow]


class Refused(Exception):
    """The fence did not let it happen. Whoever catches this rolls back: nothing was changed."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.value)
        self.refusal = refusal


class FeedRow(NamedTuple):
    """The trigger's row, or the tombstone of a feed."""

    token: Token
    position: Position | None
    closed: bool


class SpanRow(NamedTuple):
    """What the sink knows of one span."""

    spec: SpanSpec
    token: Token
    floors: Floors
    batch_to: Position | None = None
    """Up to where the recorded batch goes, while there is one; its parts are rows of their own."""
    copy_run: int = 0
    """The number of the copy run that may land chunks."""
    built: bool = False
    """Its rows are copied, and what changes need beside them is made: above all the key."""
    copied: bool = False
    """The initial copy is over, and what was to be known of it is no longer needed."""


# --- floors as jsonb ------------------------------------------------------------------------------

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Floors)


def encoded(floors: Floors) -> str:
    """Floors as JSON; equal floors are equal as jsonb, and only they."""
    return _ENCODER.encode(floors).decode()


def decoded(text: str) -> Floors:
    """What `encoded` wrote."""
    return _DECODER.decode(text)


# --- the turnstile --------------------------------------------------------------------------------


def _key(*names: str) -> int:
    """The number of a turnstile. Should two ever share one, they wait for each other now and then.

    The zero byte cannot be part of a name, so no two lists of names read alike.
    """
    digest = hashlib.blake2b("\0".join(("lockgate", *names)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def pass_turnstile(cursor: Cursor, feed: FeedId, span: SpanId) -> None:
    """Go in, and keep whoever wants to take over waiting until this transaction ends."""
    cursor.execute(
        "SELECT pg_advisory_xact_lock_shared(%s), pg_advisory_xact_lock_shared(%s)",
        (_key(feed), _key(feed, span)),
    )


def pass_turnstiles(cursor: Cursor, feed: FeedId, spans: Iterable[SpanId]) -> None:
    """The same for several spans: in the order in which whoever takes over closes them."""
    cursor.execute(
        "SELECT pg_advisory_xact_lock_shared(key) FROM unnest(%s::bigint[]) AS key",
        ([_key(feed), *(_key(feed, span) for span in sorted(spans))],),
    )


def close_turnstile(cursor: Cursor, feed: FeedId, spans: Iterable[SpanId] | None = None) -> None:
    """Let nobody in to these spans, or to any of the feed, and wait until they are empty."""
    keys = [_key(feed)] if spans is None else [_key(feed, span) for span in sorted(spans)]
    for key in keys:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (key,))


# --- the feed's row -------------------------------------------------------------------------------

_FEED: Final = (
    "SELECT epoch, seq, incarnation, position, closed FROM lockgate.feeds WHERE feed = %s"
)


def peek_feed(cursor: Cursor, feed: FeedId) -> FeedRow | None:
    """The feed's row as it was last committed; waits for nobody."""
    return _feed_row(cursor.execute(_FEED, (feed,)).fetchone())


def lock_feed(cursor: Cursor, feed: FeedId, *, share: bool = False) -> FeedRow | None:
    """The feed's row, locked."""
    asked = _FEED + (" FOR SHARE" if share else " FOR UPDATE")
    return _feed_row(cursor.execute(asked, (feed,)).fetchone())


def _feed_row(found: TupleRow | None) -> FeedRow | None:
    return None if found is None else FeedRow(Token(*found[:3]), found[3], found[4])


# --- the spans' rows ------------------------------------------------------------------------------

_SPANS: Final = (
    "SELECT span, table_id, low, high, epoch, seq, incarnation, floors::text, batch_to, "
    "copy_run, built, copied "
    "FROM lockgate.progress WHERE feed = %(feed)s "
)
_ONE: Final = _SPANS + "AND span = %(span)s "
_SOME: Final = (
    _SPANS
    + "AND (%(spans)s::text[] IS NULL OR span = ANY (%(spans)s)) "
    + "AND (%(tables)s::text[] IS NULL OR table_id = ANY (%(tables)s)) "
    + "ORDER BY span FOR UPDATE"
)


def peek_span(cursor: Cursor, feed: FeedId, span: SpanId) -> SpanRow | None:
    """The span's row as it was last committed; waits for nobody."""
    found = cursor.execute(_ONE, {"feed": feed, "span": span}).fetchone()
    return None if found is None else span_row(found)


def lock_span(cursor: Cursor, feed: FeedId, span: SpanId, *, share: bool = False) -> SpanRow | None:
    """A span's row, locked: what it says now, not what it said when we began to wait."""
    asked = _ONE + ("FOR SHARE" if share else "FOR UPDATE")
    found = cursor.execute(asked, {"feed": feed, "span": span}).fetchone()
    return None if found is None else span_row(found)


def lock_spans(
    cursor: Cursor,
    feed: FeedId,
    *,
    spans: Sequence[SpanId] | None = None,
    tables: Sequence[TableId] | None = None,
) -> list[SpanRow]:
    """All rows of a feed, or those of some spans or tables, locked one by one in order."""
    found = ask_for_spans(cursor, feed, spans=spans, tables=tables).fetchall()
    return [span_row(row) for row in found]


def ask_for_spans(
    cursor: Cursor,
    feed: FeedId,
    *,
    spans: Sequence[SpanId] | None = None,
    tables: Sequence[TableId] | None = None,
) -> Cursor:
    """The same without waiting, in a pipeline: the cursor brings what `span_row` reads."""
    wanted = {
        "feed": feed,
        "spans": None if spans is None else list(spans),
        "tables": None if tables is None else list(tables),
    }
    return cursor.execute(_SOME, wanted)


def span_row(found: Sequence[Any]) -> SpanRow:
    """A row as it was asked for."""
    span, table, low, high, epoch, seq, incarnation, floors, batch_to, *copy = found
    spec = SpanSpec(span, table, KeyRange(low, high))
    return SpanRow(spec, Token(epoch, seq, incarnation), decoded(floors), batch_to, *copy)


def insert_spans(cursor: Cursor, feed: FeedId, rows: Sequence[SpanRow]) -> None:
    """New rows, without batches."""
    cursor.execute(
        """
        INSERT INTO lockgate.progress (feed, span, table_id, low, high, epoch, seq, incarnation,
                                       floors, position, built, copied)
        SELECT %s, span, table_id, low, high, epoch, seq, incarnation, floors::jsonb, position,
               built, copied
        FROM unnest(%s::text[], %s::text[], %s::bytea[], %s::bytea[], %s::bigint[], %s::bigint[],
                    %s::bigint[], %s::text[], %s::bigint[], %s::boolean[], %s::boolean[])
             AS new (span, table_id, low, high, epoch, seq, incarnation, floors, position, built,
                     copied)
        """,
        (
            feed,
            [row.spec.id for row in rows],
            [row.spec.table for row in rows],
            [row.spec.range.low for row in rows],
            [row.spec.range.high for row in rows],
            [row.token.epoch for row in rows],
            [row.token.seq for row in rows],
            [row.token.incarnation for row in rows],
            [encoded(row.floors) for row in rows],
            [least(row.floors) for row in rows],
            [row.built for row in rows],
            [row.copied for row in rows],
        ),
    )


def remove_spans(cursor: Cursor, feed: FeedId, spans: Sequence[SpanId] | None = None) -> None:
    """Delete rows that are locked already, of some spans or all, and what hangs on them."""
    wanted = {"feed": feed, "spans": None if spans is None else list(spans)}
    which = "WHERE feed = %(feed)s AND (%(spans)s::text[] IS NULL OR span = ANY (%(spans)s))"
    cursor.execute("DELETE FROM lockgate.chunks " + which, wanted)
    cursor.execute("DELETE FROM lockgate.parts " + which, wanted)
    cursor.execute("DELETE FROM lockgate.progress " + which, wanted)
