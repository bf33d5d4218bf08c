"""The steps that the change log's verbs are made of, inside one transaction of the caller."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
import sqlalchemy as sa

from lockgate.model.ids import SEQ_MAX, FeedId, Millis, Token
from lockgate.model.positions import Position
from lockgate.model.tables import TableShape
from lockgate.store.changelog.places import file_of, sharers
from lockgate.store.changelog.rows import Retention, SchemaChange, Segment
from lockgate.store.tables import changelog, log_shapes, schema_changes, segments, upsert

__all__ = [
    "ROWS_AT_ONCE",
    "LogRow",
    "as_row",
    "as_segment",
    "check",
    "continues",
    "end_within",
    "expendable",
    "is_tombstone",
    "leftovers",
    "lock",
    "look",
    "parts",
    "put",
    "shape_rows",
    "shapes_of",
    "size",
    "token_of",
    "whole_files",
]

ROWS_AT_ONCE: Final = 2_000
"""Rows per round trip: enough to be quick, and a bound on what is held in memory."""

LogRow = sa.Row[Any]

_T = TypeVar("_T")


def look(connection: sa.Connection, feed: FeedId) -> LogRow | None:
    """The log's row as it is."""
    return connection.execute(sa.select(changelog).where(changelog.c.feed == feed)).one_or_none()


def lock(connection: sa.Connection, feed: FeedId, start: Position) -> LogRow:
    """Lock the log's row until the transaction ends; made if missing, to begin at `start`."""
    asked = sa.select(changelog).where(changelog.c.feed == feed).with_for_update()
    row = connection.execute(asked).one_or_none()
    if row is None:
        # Two may make one row at once; the later waits here, then locks what the earlier left.
        connection.execute(
            upsert(connection, changelog, change=False),
            {
                "feed": feed,
                "epoch": 0,
                "seq": 0,
                "incarnation": 0,
                "floor": start,
                "resolved": start,
                "next_seq": 0,
            },
        )
        row = connection.execute(asked).one()
    return row


def put(connection: sa.Connection, feed: FeedId, **values: int) -> None:
    """Change the log's row."""
    connection.execute(sa.update(changelog).where(changelog.c.feed == feed).values(**values))


def token_of(row: LogRow) -> Token:
    """Whose the log is."""
    return Token(row.epoch, row.seq, row.incarnation)


def is_tombstone(row: LogRow) -> bool:
    """True when the log was forgotten."""
    return bool(row.seq == SEQ_MAX)


def parts(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """The same items, `ROWS_AT_ONCE` at a time."""
    for start in range(0, len(items), ROWS_AT_ONCE):
        yield items[start : start + ROWS_AT_ONCE]


# --- appending ----------------------------------------------------------------------------------


def check(
    added: Sequence[Segment],
    changes: Sequence[SchemaChange],
    resolved: Position,
    next_seq: int,
) -> None:
    """Raise ValueError for what no correct capture can append, whatever the log holds."""
    for one in added:
        if not (one.low <= one.high <= resolved and one.id < next_seq):
            raise ValueError(f"{one} does not lie within resolved {resolved}, next seq {next_seq}")
    for change in changes:
        if change.position > resolved:
            raise ValueError(f"a schema change at {change.position} is beyond {resolved}")


def continues(
    row: LogRow,
    added: Sequence[Segment],
    changes: Sequence[SchemaChange],
    resolved: Position,
    next_seq: int,
) -> bool:
    """True when all of this comes after everything that the log holds."""
    return (
        resolved >= row.resolved
        and next_seq >= row.next_seq
        and all(one.low > row.resolved and one.id >= row.next_seq for one in added)
        and all(change.position > row.resolved for change in changes)
    )


def as_row(feed: FeedId, one: Segment, now: Millis) -> dict[str, object]:
    """A segment as the metastore keeps it."""
    return {
        "feed": feed,
        "id": one.id,
        "table": one.table,
        "shape": one.shape,
        "path": one.path,
        "low": one.low,
        "high": one.high,
        "rows": one.rows,
        "bytes": one.bytes,
        "written_at": now,
    }


def as_segment(row: sa.Row[Any]) -> Segment:
    """A row of `segments` as what it stands for."""
    return Segment(
        id=row.id,
        table=row.table,
        shape=row.shape,
        path=row.path,
        low=row.low,
        high=row.high,
        rows=row.rows,
        bytes=row.bytes,
        written_at=row.written_at,
    )


def shape_rows(feed: FeedId, shapes: Mapping[int, TableShape]) -> list[dict[str, object]]:
    """Shapes as the metastore keeps them."""
    return [
        {"feed": feed, "number": number, "body": msgspec.json.encode(shape).decode()}
        for number, shape in shapes.items()
    ]


# --- reading ------------------------------------------------------------------------------------


def end_within(
    connection: sa.Connection, feed: FeedId, after: Position, end: Position, rows_max: int
) -> Position:
    """The last position up to which the segments after `after` hold about `rows_max` rows."""
    found = connection.execution_options(yield_per=ROWS_AT_ONCE).execute(
        sa.select(segments.c.high, segments.c.rows)
        .where(segments.c.feed == feed, segments.c.high > after)
        .order_by(segments.c.high)
    )
    rows = 0
    with found:
        for high, more in found:
            rows += more
            if high >= end:
                break
            if rows >= rows_max:
                return int(high)
    return end


def shapes_of(connection: sa.Connection, feed: FeedId) -> dict[int, TableShape]:
    """All shapes that the metastore keeps of a log."""
    found = connection.execute(
        sa.select(log_shapes.c.number, log_shapes.c.body).where(log_shapes.c.feed == feed)
    )
    return {number: msgspec.json.decode(body, type=TableShape) for number, body in found}


# --- trimming and forgetting --------------------------------------------------------------------


def size(connection: sa.Connection, feed: FeedId) -> int:
    """How many bytes the log's files have."""
    total = sa.select(sa.func.sum(segments.c.bytes)).where(segments.c.feed == feed)
    return int(connection.execute(total).scalar() or 0)


def expendable(old: Sequence[Segment], keep: Retention, now: Millis, total: int) -> list[Segment]:
    """Those of `old`, which is in order, that `keep` does not keep. `total` is the log's size.

    What is kept has no holes: after the first segment that stays, all others stay as well.
    """
    gone: list[Segment] = []
    for one in old:
        too_old = keep.age_ms is not None and one.written_at < now - keep.age_ms
        too_much = keep.bytes is not None and total > keep.bytes
        if not (too_old or too_much):
            break
        gone.append(one)
        total -= one.bytes
    return gone


def whole_files(gone: Sequence[Segment]) -> list[Segment]:
    """Those whose file has no segment that stays. (See `packs`.)"""
    going = Counter(file_of(one.path) for one in gone)
    return [one for one in gone if going[file_of(one.path)] == sharers(one.path)]


def leftovers(
    connection: sa.Connection, feed: FeedId
) -> list[tuple[sa.Table, "sa.Column[int]", list[int]]]:
    """Some rows of the log that are still there, by table and key; empty when there are none."""
    found = []
    for table, key in (
        (segments, segments.c.id),
        (schema_changes, schema_changes.c.position),
        (log_shapes, log_shapes.c.number),
    ):
        some = sa.select(key).where(table.c.feed == feed).limit(ROWS_AT_ONCE)
        if keys := [*connection.execute(some).scalars()]:
            found.append((table, key, keys))
    return found
