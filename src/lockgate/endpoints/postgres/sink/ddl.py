"""write_ddl: change the tables, and move the rows of everybody concerned behind the change.

All in one transaction: PostgreSQL can roll back a DDL like anything else. Whether it was written
is told by the trigger's position, so whoever did not hear the answer asks again: it is done once.
"""

from collections.abc import Callable, Sequence
from typing import Final

import psycopg
from psycopg.sql import SQL, Composed

from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.sink.chunks import hand_over
from lockgate.endpoints.postgres.sink.hold import held_upto
from lockgate.endpoints.postgres.sink.rows import (
    Cursor,
    Refused,
    SpanRow,
    encoded,
    insert_spans,
    lock_feed,
    lock_spans,
    remove_spans,
)
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.floors import Refusal, least, raised
from lockgate.model.ids import FeedId, TableId, Token
from lockgate.model.positions import Position
from lockgate.model.spans import SpanSpec

__all__ = ["Statements", "write_ddl"]

Statements = Sequence[SQL | Composed] | Callable[[psycopg.Cursor], object]
"""What changes the target's tables: statements, or somebody who executes them on a cursor."""

_SHOWN_MAX: Final = 200


def write_ddl(
    cursor: Cursor,
    feed: FeedId,
    token: Token,
    ddl: Ddl,
    births: Sequence[SpanSpec],
    statements: Statements,
) -> Position:
    """Where the trigger stands afterwards: at the DDL, or past it if it was written before."""
    row = lock_feed(cursor, feed)
    if row is None or row.closed or row.position is None:
        raise Refused(Refusal.CLOSED)
    if row.token != token:
        raise Refused(Refusal.NEWER)
    if ddl.position <= row.position:
        return row.position
    upto = held_upto(cursor, feed)
    if upto is not None and ddl.position > upto:
        raise Refused(Refusal.HELD)
    concerned = lock_spans(cursor, feed, tables=None if ddl.every_table else ddl.tables)
    before = ddl.position - 1
    if row.position < before or any(_is_behind(span, before) for span in concerned):
        raise Refused(Refusal.BEHIND)
    _execute(cursor, feed, ddl, statements)
    _move(cursor, feed, ddl, concerned)
    if ddl.kind is DdlKind.CREATE:
        _give_birth(cursor, feed, token, ddl, births, concerned)
    ended = ddl.ended
    if gone := [span.spec.id for span in concerned if span.spec.table in ended]:
        remove_spans(cursor, feed, gone)
    cursor.execute("UPDATE lockgate.feeds SET position = %s WHERE feed = %s", (ddl.position, feed))
    return ddl.position


def _is_behind(span: SpanRow, before: Position) -> bool:
    """A batch that is recorded and not finished lies before the DDL, too."""
    return least(span.floors) < before or span.batch_to is not None


def _execute(cursor: Cursor, feed: FeedId, ddl: Ddl, statements: Statements) -> None:
    words = " ".join(ddl.statement.split()) or f"{ddl.kind.value} {', '.join(ddl.tables)}"
    about = words if len(words) <= _SHOWN_MAX else words[: _SHOWN_MAX - 1] + "…"
    with faults(object_=f"{feed}: {about}", operation="write a schema change"):
        if callable(statements):
            statements(cursor)
            return
        for statement in statements:
            cursor.execute(statement)


def _give_birth(
    cursor: Cursor,
    feed: FeedId,
    token: Token,
    ddl: Ddl,
    births: Sequence[SpanSpec],
    concerned: Sequence[SpanRow],
) -> None:
    """What a new table holds comes through the stream from its first row on.

    One that had another name until now has the rows that it had, and no others: how far its copy
    is goes with it, whatever else has its old name now.
    """
    had = {now: was for was, now in ddl.renames}
    before: dict[TableId, list[SpanRow]] = {}
    for span in concerned:
        before.setdefault(span.spec.table, []).append(span)
    pasts = [before.get(had[s.table], []) if s.table in had else [] for s in births]
    floor = token.floor()
    born = [
        SpanRow(
            spec,
            floor,
            ((spec.range, ddl.position),),
            copied=all(span.copied or span.built for span in past),
        )
        for spec, past in zip(births, pasts, strict=True)
    ]
    insert_spans(cursor, feed, born)
    for row, past in zip(born, pasts, strict=True):
        if not row.copied:
            hand_over(cursor, feed, past, row)


def _move(cursor: Cursor, feed: FeedId, ddl: Ddl, concerned: Sequence[SpanRow]) -> None:
    floors = [raised(span.floors, ddl.position) for span in concerned]
    cursor.execute(
        "UPDATE lockgate.progress p SET floors = a.floors::jsonb, position = a.position "
        "FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS a (span, floors, position) "
        "WHERE p.feed = %s AND p.span = a.span",
        (
            [span.spec.id for span in concerned],
            [encoded(floor) for floor in floors],
            [least(floor) for floor in floors],
            feed,
        ),
    )
