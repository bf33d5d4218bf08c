"""What a task does at both ends of its own transaction at the sink.

    with open_session(url, feed, span.id) as connection, connection.cursor() as cursor:
        enter(cursor, feed, span.id, token, floors, share=False)      # first of all
        …write the rows…
        leave(cursor, feed, span.id, token, floors, to)               # last of all; then commit

    a part of a recorded batch                        a chunk of the copy
        enter(…, share=True)                              if enter_copy(…, chunk.no):
        if part_landed(cursor, …, part, parts, to):           …copy the rows…
            …write the part's rows…                           chunk_done(…)
        commit                                            commit

    many spans at once                                (see `together`)
        locked = ask_to_enter(connection, feed, spans)
        check_entered(locked.fetchall(), entrants)
        …write the rows…
        leave_all(connection, feed, entrants); commit

    an index or a constraint
        enter_build(cursor, feed, span, token); …make it…; commit

    rows of the position at which somebody holds the feed (see `hold`)
        enter_held(cursor, feed, table, hold_id, position); …write them…; commit

`enter` locks the span's row until the transaction ends, and compares token and floors *after* it
has the lock. So a newer owner, who writes its token into that row, waits for us or ends us; and
if it was first, we read its token and are `Refused`. Nothing of the data may be touched before
`enter`: neither read, lest it be old, nor locked, lest two wait for each other.

A refused task rolls back. What the refusal means is the owner's to decide: NEWER, GONE and CLOSED
end the dispatcher; after MOVED it claims again, and learns where the row stands; after HELD it goes
no further than the feed is held (see `hold`).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import psycopg
from psycopg.rows import TupleRow, tuple_row

from lockgate.endpoints.postgres.sink.hold import NOT_HELD, held_by, held_upto, stands
from lockgate.endpoints.postgres.sink.parts import part_range
from lockgate.endpoints.postgres.sink.rows import (
    Cursor,
    Refused,
    SpanRow,
    ask_for_spans,
    encoded,
    lock_span,
    pass_turnstile,
    pass_turnstiles,
    peek_feed,
    peek_span,
    span_row,
)
from lockgate.model.floors import Floors, Refusal, least, raised
from lockgate.model.ids import FeedId, SpanId, TableId, Token
from lockgate.model.positions import Position
from lockgate.model.spans import TRIGGER

__all__ = [
    "Entrant",
    "Refused",
    "ask_to_enter",
    "check_entered",
    "chunk_done",
    "enter",
    "enter_build",
    "enter_copy",
    "enter_held",
    "leave",
    "leave_all",
    "part_landed",
    "part_range",
]


def enter(
    cursor: psycopg.Cursor,
    feed: FeedId,
    span: SpanId,
    token: Token,
    floors: Floors,
    share: bool,
) -> None:
    """Lock the span's row, alone or beside others, if it is ours and stands where we start from.

    Shared, it is for a part of a recorded batch; alone, no batch may be recorded.
    """
    with _own(cursor) as own:
        pass_turnstile(own, feed, span)
        row = lock_span(own, feed, span, share=share)
    _check(row, token, floors, share=share)


def _check(row: SpanRow | None, token: Token, floors: Floors, *, share: bool) -> None:
    if row is None:
        raise Refused(Refusal.GONE)
    if row.token != token:
        raise Refused(Refusal.NEWER)
    if row.floors != floors or (row.batch_to is not None) != share:
        raise Refused(Refusal.MOVED)


def leave(
    cursor: psycopg.Cursor,
    feed: FeedId,
    span: SpanId,
    token: Token,
    floors: Floors,
    to: Position,
) -> Floors:
    """Move the row that was entered alone: everything up to `to` is in this transaction."""
    moved = raised(floors, to)
    with _own(cursor) as own:
        own.execute(
            "UPDATE lockgate.progress SET floors = %s::jsonb, position = %s "
            "WHERE feed = %s AND span = %s AND (epoch, seq, incarnation) = (%s, %s, %s) "
            "AND floors = %s::jsonb AND batch_to IS NULL AND " + NOT_HELD.format(to="%s"),
            (
                *(encoded(moved), least(moved), feed, span),
                *(token.epoch, token.seq, token.incarnation, encoded(floors)),
                *(to, feed),
            ),
        )
        if own.rowcount != 1:  # held; or it was not entered, or with other numbers
            upto = held_upto(own, feed)
            raise Refused(Refusal.MOVED if upto is None or to <= upto else Refusal.HELD)
    return moved


class Entrant(NamedTuple):
    """Who wants to move one span's row, from where to where."""

    span: SpanId
    token: Token
    floors: Floors
    to: Position


def ask_to_enter(connection: psycopg.Connection, feed: FeedId, spans: Sequence[SpanId]) -> Cursor:
    """Lock the rows of several spans alone, in their order; in a pipeline, without waiting.

    The cursor brings the rows, for `check_entered`.
    """
    pass_turnstiles(connection.cursor(row_factory=tuple_row), feed, spans)
    return ask_for_spans(connection.cursor(row_factory=tuple_row), feed, spans=spans)


def check_entered(found: Sequence[TupleRow], entrants: Sequence[Entrant]) -> None:
    """Raise what keeps one of them out: as `enter`, for each."""
    rows = {row.spec.id: row for row in map(span_row, found)}
    for one in entrants:
        _check(rows.get(one.span), one.token, one.floors, share=False)


def leave_all(connection: psycopg.Connection, feed: FeedId, entrants: Sequence[Entrant]) -> Cursor:
    """Move the rows of all who were entered; in a pipeline, without waiting.

    Whoever calls sees that the cursor counts as many rows, or rolls back.
    """
    moved = [raised(one.floors, one.to) for one in entrants]
    return connection.cursor(row_factory=tuple_row).execute(
        """
        UPDATE lockgate.progress p SET floors = a.moved::jsonb, position = a.position
        FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::text[],
                    %s::bigint[]) AS a (span, epoch, seq, incarnation, floors, moved, position)
        WHERE p.feed = %s AND p.span = a.span
          AND (p.epoch, p.seq, p.incarnation) = (a.epoch, a.seq, a.incarnation)
          AND p.floors = a.floors::jsonb AND p.batch_to IS NULL AND """
        + NOT_HELD.format(to="a.position"),
        (
            [one.span for one in entrants],
            [one.token.epoch for one in entrants],
            [one.token.seq for one in entrants],
            [one.token.incarnation for one in entrants],
            [encoded(one.floors) for one in entrants],
            [encoded(floors) for floors in moved],
            [least(floors) for floors in moved],
            *(feed, feed),
        ),
    )


def part_landed(
    cursor: psycopg.Cursor, feed: FeedId, span: SpanId, part: int, parts: int, to: Position
) -> bool:
    """Take the receipt for a part, to be had with the part's rows or not at all.

    False: it has been given out, the rows are there, there is nothing to do. Whoever asks while
    another attempt at the same part is under way waits for its end. The batch must be the one
    that is recorded: a straggler of a former batch, from the same floors to somewhere else, would
    take the receipt for changes that it does not have.
    """
    with _own(cursor) as own:
        own.execute(
            "SELECT q.landed FROM lockgate.parts q JOIN lockgate.progress p USING (feed, span) "
            "WHERE feed = %s AND span = %s AND q.part = %s "
            "AND p.batch_parts = %s AND p.batch_to = %s FOR UPDATE OF q",
            (feed, span, part, parts, to),
        )
        found = own.fetchone()
        if found is None:
            raise Refused(Refusal.MOVED)
        if found[0]:
            return False
        own.execute(
            "UPDATE lockgate.parts SET landed = true WHERE feed = %s AND span = %s AND part = %s",
            (feed, span, part),
        )
    return True


def enter_copy(
    cursor: psycopg.Cursor, feed: FeedId, span: SpanId, token: Token, chunk: int, run: int = 0
) -> bool:
    """Lock the span's row beside others if it is ours, and the chunk against other attempts at it.

    False: the chunk has landed already, there is nothing to do. A task of an earlier run of the
    same owner is refused: it reads under a snapshot that the span may have moved past since.
    """
    with _own(cursor) as own:
        pass_turnstile(own, feed, span)
        row = lock_span(own, feed, span, share=True)
        if row is None:
            raise Refused(Refusal.GONE)
        if row.token != token:
            raise Refused(Refusal.NEWER)
        if row.copy_run != run:
            raise Refused(Refusal.MOVED)
        own.execute(
            "SELECT done FROM lockgate.chunks WHERE feed = %s AND span = %s AND no = %s FOR UPDATE",
            (feed, span, chunk),
        )
        found = own.fetchone()
    if found is None:
        raise Refused(Refusal.MOVED)
    return not found[0]


def enter_build(cursor: psycopg.Cursor, feed: FeedId, span: SpanId, token: Token) -> None:
    """Keep whoever takes over waiting until this transaction ends, if the span's row is ours.

    A build may take long, and its owner's own verbs go on meanwhile, so the row is not locked. It
    need not be: nobody writes another token before the turnstile is empty.
    """
    with _own(cursor) as own:
        pass_turnstile(own, feed, span)
        row = peek_feed(own, feed) if span == TRIGGER else peek_span(own, feed, span)
    if row is None:
        raise Refused(Refusal.GONE)
    if row.token != token:
        raise Refused(Refusal.NEWER)


def enter_held(
    cursor: psycopg.Cursor, feed: FeedId, table: TableId, hold_id: str, position: Position
) -> None:
    """Keep a table's spans where they are until this transaction ends, if that is at `position`.

    For somebody who holds the feed there and writes what the source had there: rows and position
    stay of one moment. He may have been paused since he took the hold, so both are looked at here,
    with the rows locked: nobody moves them now, whatever becomes of the hold. Locked they are in
    share mode, for several may write at once; the feed's own row is left free, and so the hold can
    be kept up. No span of the table can come to be meanwhile, for it would be made of these.
    """
    with _own(cursor) as own:
        spans = [row[0] for row in own.execute(_OF_TABLE, (feed, table))]
        if not spans:
            raise Refused(Refusal.GONE)
        pass_turnstiles(own, feed, spans)
        locked = [row[0] for row in own.execute(_OF_TABLE + " FOR SHARE", (feed, table))]
        found = stands(own, feed)
        if found is None:
            raise Refused(Refusal.CLOSED)
        if locked != spans or held_by(own, feed) != hold_id or not found.exactly(position):
            raise Refused(Refusal.MOVED)


_OF_TABLE: Final = (
    "SELECT span FROM lockgate.progress WHERE feed = %s AND table_id = %s ORDER BY span"
)


def chunk_done(
    cursor: psycopg.Cursor,
    feed: FeedId,
    span: SpanId,
    chunk: int,
    *,
    snapshot: str,
    rows: int,
    bytes_: int,
) -> None:
    """Record that a chunk has landed, with the snapshot (`xmin:xmax:xip,…`) it was read under."""
    with _own(cursor) as own:
        own.execute(
            "UPDATE lockgate.chunks SET done = true, snapshot = %s, rows = %s, bytes = %s "
            "WHERE feed = %s AND span = %s AND no = %s AND NOT done",
            (snapshot, rows, bytes_, feed, span, chunk),
        )
        if own.rowcount != 1:  # it was not entered
            raise Refused(Refusal.MOVED)


def _own(cursor: psycopg.Cursor) -> Cursor:
    """A cursor in the same transaction, whatever the caller's makes of rows."""
    return cursor.connection.cursor(row_factory=tuple_row)
