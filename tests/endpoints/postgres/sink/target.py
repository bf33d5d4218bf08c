"""A target with a feed of two spans, and the few words that tests of the fence need."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from lockgate.endpoints.postgres.sink.advance import Advance
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.sink.gate import enter, leave
from lockgate.endpoints.postgres.sink.rows import Refused, SpanRow, lock_spans, peek_feed
from lockgate.endpoints.postgres.sink.session import Limits, open_session
from lockgate.model.floors import Floors, Refusal
from lockgate.model.ids import Token
from lockgate.model.positions import Position
from lockgate.model.spans import TRIGGER_SPEC, WHOLE, Birth, KeyRange, SpanSpec

A = SpanSpec("a", "t00")
B = SpanSpec("b", "t01")
LOW = SpanSpec("low", "t00", KeyRange(b"", b"\x80"))
HIGH = SpanSpec("high", "t00", KeyRange(b"\x80", None))

AT_ONCE = Limits(grace_s=0.2, patience_s=30.0)
"""Whoever is inside is ended soon: for tests in which somebody is."""
NEVER = Limits(grace_s=60.0)
"""Nobody is ended while a test runs."""


_NUMBERS = itertools.count(1)


def token(epoch: int = 1, seq: int = 1, incarnation: int = 1) -> Token:
    return Token(epoch, seq, incarnation)


class Target:
    """A feed of its own with two tables in a prepared database, born at 0 under 1.1.1."""

    def __init__(self, url: str, limits: Limits = NEVER) -> None:
        self.url = url
        self.feed = f"orders{next(_NUMBERS)}"
        self.sink = PostgresSink(url, limits)
        self.admin = psycopg.connect(url, autocommit=True, application_name="a person")
        self.sink.prepare()
        for table in (A.table, B.table):
            self.admin.execute(
                f"CREATE TABLE {self.name(table)} (key int PRIMARY KEY, value bigint)"
            )
        self.claim(TRIGGER_SPEC, token(), birth=Birth(0, (A, B)))

    def close(self) -> None:
        self.admin.close()
        self.sink.disconnect()

    def name(self, table: str) -> str:
        """The table at the target."""
        return f"{self.feed}_{table}"

    def claim(self, spec: SpanSpec, by: Token, **more: object) -> Floors | Refusal:
        return self.sink.claim(self.feed, spec, by, **more)  # type: ignore[arg-type]

    def floors(self, spec: SpanSpec, by: Token) -> Floors:
        """Claim, and take it for granted that it is granted."""
        found = self.claim(spec, by)
        assert isinstance(found, tuple), found
        return found

    @contextmanager
    def session(self, span: str = "a") -> Iterator[psycopg.Connection]:
        """A session of a task."""
        connection = open_session(self.url, self.feed, span)
        try:
            yield connection
        finally:
            connection.close()

    def apply(
        self, spec: SpanSpec, by: Token, floors: Floors, to: Position, key: int | None = None
    ) -> Floors | Refusal:
        """What a task does that applies a batch alone."""
        with self.session(spec.id) as connection, connection.cursor() as cursor:
            try:
                enter(cursor, self.feed, spec.id, by, floors, share=False)
                if key is not None:
                    self.write(cursor, spec.table, key, to)
                moved = leave(cursor, self.feed, spec.id, by, floors, to)
                connection.commit()
            except Refused as refused:
                return refused.refusal
            return moved

    def write(self, cursor: psycopg.Cursor, table: str, key: int, value: int) -> None:
        cursor.execute(
            f"INSERT INTO {self.name(table)} VALUES (%s, %s) ON CONFLICT (key) DO UPDATE "
            "SET value = excluded.value",
            (key, value),
        )

    def advance(self, spec: SpanSpec, by: Token, floors: Floors, to: Position) -> Floors | Refusal:
        return self.sink.advance(self.feed, [Advance(spec.id, by, floors, to)])[spec.id]

    def advance_trigger(self, to: Position, by: Token | None = None) -> Floors | Refusal:
        found = self.claim(TRIGGER_SPEC, by or token())
        assert isinstance(found, tuple), found
        return self.advance(TRIGGER_SPEC, by or token(), ((WHOLE, found[0][1]),), to)

    def rows(self, table: str = "t00") -> dict[int, int]:
        return dict(self.admin.execute(f"SELECT key, value FROM {self.name(table)}").fetchall())

    def spans(self) -> dict[str, SpanRow]:
        """All rows of the feed's spans."""
        with self.admin.transaction(), self.admin.cursor() as cursor:
            return {row.spec.id: row for row in lock_spans(cursor, self.feed)}

    def trigger(self) -> Position | None:
        with self.admin.cursor() as cursor:
            row = peek_feed(cursor, self.feed)
        return None if row is None else row.position

    def waiting(self, pid: int | None = None) -> list[int]:
        """The sessions that wait for a lock."""
        found = self.admin.execute(
            "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND datname = current_database() AND pid = coalesce(%s, pid)",
            (pid,),
        ).fetchall()
        return [one for (one,) in found]
