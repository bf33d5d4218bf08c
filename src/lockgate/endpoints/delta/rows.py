"""The rows that a feed has at a lake, and what may happen to them. Pure: rows in, rows out.

What `lockgate.feeds`, `lockgate.progress` and `lockgate.chunks` are in a database is one document
here (`Document`), because a lake has no transaction over several tables but this one. Every step
answers the document afterwards; what is not allowed raises `Refused`, and nothing has changed.

A span's data and how far it is are committed together in its ingest table, and its position here
follows: what really counts is the greater of the two. A table is one span in a lake.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from lockgate.endpoints.delta.files import DataFile
from lockgate.model.ddl import Ddl
from lockgate.model.floors import Refusal
from lockgate.model.ids import NO_TOKEN, SpanId, TableId, Token
from lockgate.model.positions import Position
from lockgate.model.spans import Birth, SpanSpec
from lockgate.model.value import Value

__all__ = [
    "ChunkRow",
    "FeedRows",
    "Refused",
    "SpanRow",
    "advanced",
    "anew",
    "changed",
    "claimed",
    "closed",
    "feed_claimed",
    "mine",
    "owned",
    "schema_changed",
]

Edge = tuple[str, ...] | None


class Refused(Exception):
    """The fence did not let it happen."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.value)
        self.refusal = refusal


class ChunkRow(Value, frozen=True):
    """A part of a table's first copy."""

    no: int
    low: Edge = None
    high: Edge = None
    files: tuple[DataFile, ...] = ()
    """What it brought; no table names them before the whole copy lands."""
    rows: int = 0
    bytes: int = 0
    snapshot: str | None = None
    done: bool = False


class SpanRow(Value, frozen=True):
    """One table of the feed: whose it is, which incarnation, how far, and its copy."""

    spec: SpanSpec
    token: Token
    position: Position
    incarnation: int
    copy_run: int = 0
    chunks: tuple[ChunkRow, ...] = ()
    copied: bool = False
    dropped: bool = False
    """Somebody dropped the table in the lake: its changes are passed by."""
    ingest: str = ""
    """Whose ingest of the table is the span's (`ingest_of`). Empty, in rows of before there was one
    per feed: the home's."""
    landed: Position = 0
    """How far its ingest has said that it is, at the least: there are changes up to here. A row
    from before this was kept says 0."""


class FeedRows(Value, frozen=True):
    """Everything of one feed. `position` is None before its birth and after its end."""

    version: int = 1
    """Of this document's form."""
    token: Token = NO_TOKEN
    position: Position | None = None
    closed: bool = False
    spans: dict[SpanId, SpanRow] = msgspec.field(default_factory=dict)

    @property
    def least(self) -> Position | None:
        """Up to where everything is applied, at the least; None: not born."""
        if self.position is None:
            return None
        return min([self.position, *(row.position for row in self.spans.values())])


# --- claiming ------------------------------------------------------------------------------------


def feed_claimed(
    rows: FeedRows,
    token: Token,
    birth: Birth | None,
    joined: Mapping[TableId, int],
    ingest: str,
) -> FeedRows:
    """The trigger's row is ours; with it, if the feed is not born yet, its first rows are made.

    `joined` are incarnations that others have made, of tables that the feed takes part in.
    `ingest` is whose ingests the rows are about, here and below.
    """
    unborn = rows.closed or rows.position is None
    if rows.closed and rows.token.epoch >= token.epoch:
        raise Refused(Refusal.CLOSED)
    fresh = rows.token == NO_TOKEN and not rows.closed
    if token < rows.token or (unborn and token == rows.token and not fresh):
        raise Refused(Refusal.NEWER)
    if not unborn:
        return rows if rows.token == token else msgspec.structs.replace(rows, token=token)
    if birth is None:
        raise Refused(Refusal.GONE)
    # Under its maker's epoch, or a dispatcher of a closed owner could claim a row that was born
    # after the close, under the span's same name.
    spans = {
        spec.id: SpanRow(
            spec,
            token.floor(),
            birth.position,
            joined.get(spec.table, birth.position),
            ingest=ingest,
        )
        for spec in birth.spans
    }
    return FeedRows(token=token, position=birth.position, spans=spans)


def claimed(rows: FeedRows, span: SpanId, token: Token) -> FeedRows:
    """The span's row is ours from here on."""
    row = _there(rows, span)
    if token < row.token:
        raise Refused(Refusal.NEWER)
    return rows if row.token == token else _with(rows, msgspec.structs.replace(row, token=token))


def closed(rows: FeedRows, token: Token, *, forget: bool) -> FeedRows:
    """Void every lower token; with `forget`, leave a tombstone only."""
    if rows.token.epoch > token.epoch:
        raise Refused(Refusal.NEWER)
    highest = max(rows.token, token)
    if forget:
        return FeedRows(token=highest, closed=True)
    spans = {
        span: msgspec.structs.replace(row, token=max(row.token, token))
        for span, row in rows.spans.items()
    }
    return msgspec.structs.replace(rows, token=highest, spans=spans)


# --- moving --------------------------------------------------------------------------------------


def mine(rows: FeedRows, span: SpanId, token: Token) -> SpanRow:
    """The span's row, if it is the token's."""
    row = _there(rows, span)
    if row.token != token:
        raise Refused(Refusal.NEWER)
    return row


def owned(rows: FeedRows, token: Token) -> Position:
    """Where the feed stands, if it is the token's."""
    if rows.closed or rows.position is None:
        raise Refused(Refusal.CLOSED)
    if rows.token != token:
        raise Refused(Refusal.NEWER)
    return rows.position


def advanced(
    rows: FeedRows, moves: Mapping[SpanId, Position], landed: Mapping[SpanId, Position]
) -> FeedRows:
    """These spans have nothing up to there, or, of `landed`, it is in their tables. Never back."""
    spans = dict(rows.spans)
    for span, to in moves.items():
        row = spans.get(span)
        if row is not None and row.position < to:
            spans[span] = msgspec.structs.replace(row, position=to)
    for span, at in landed.items():
        row = spans.get(span)
        if row is not None and row.landed < at:
            spans[span] = msgspec.structs.replace(row, landed=at)
    return msgspec.structs.replace(rows, spans=spans)


def changed(
    rows: FeedRows, span: SpanId, token: Token, how: Callable[[SpanRow], SpanRow]
) -> FeedRows:
    """The same with one row of the token's changed."""
    row = mine(rows, span, token)
    new = how(row)
    return rows if new == row else _with(rows, new)


# --- schema changes ------------------------------------------------------------------------------


def schema_changed(
    rows: FeedRows,
    token: Token,
    ddl: Ddl,
    births: Sequence[SpanSpec],
    renewed: Iterable[TableId],
    ingest: str,
) -> FeedRows:
    """Everybody concerned is behind the change; new tables have rows, ended ones have none.

    `renewed` are tables that go on as another incarnation, to be copied once more.
    """
    owned(rows, token)
    ended = ddl.ended
    renewed = frozenset(renewed)
    spans: dict[SpanId, SpanRow] = {}
    for span, row in rows.spans.items():
        if not ddl.concerns(row.spec.table):
            spans[span] = row
        elif row.spec.table in renewed:
            spans[span] = _behind(anew(row, ddl.position, ingest), ddl)
        elif row.spec.table not in ended:
            spans[span] = _behind(row, ddl)
    came = {now for _, now in ddl.renames}
    for spec in births:
        # What a new table holds comes through the stream from its first row on; one that had
        # another name until now has rows already.
        copied = spec.table not in came
        at = ddl.position
        spans[spec.id] = SpanRow(spec, token.floor(), at, at, copied=copied, ingest=ingest)
    return msgspec.structs.replace(rows, spans=spans, position=ddl.position)


def anew(row: SpanRow, incarnation: int, ingest: str) -> SpanRow:
    """The row of the same table in a newer incarnation, of which nothing is copied."""
    if row.incarnation >= incarnation:
        return row
    return SpanRow(row.spec, row.token, row.position, incarnation, row.copy_run, ingest=ingest)


def _behind(row: SpanRow, ddl: Ddl) -> SpanRow:
    return msgspec.structs.replace(row, position=max(row.position, ddl.position))


def _there(rows: FeedRows, span: SpanId) -> SpanRow:
    row = rows.spans.get(span)
    if row is None:
        raise Refused(Refusal.GONE)
    return row


def _with(rows: FeedRows, row: SpanRow) -> FeedRows:
    return msgspec.structs.replace(rows, spans={**rows.spans, row.spec.id: row})
