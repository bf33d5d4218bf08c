"""A source to fetch changes from, and what came out of it, told apart without a decoder."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import psycopg

from lockgate.endpoints.postgres.source import publication, slot
from lockgate.endpoints.postgres.source.chunks import Chunk
from lockgate.endpoints.postgres.source.names import publication_name, slot_name
from lockgate.endpoints.postgres.source.publication import Published
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.positions import Position
from lockgate.model.tables import TableName
from tests.support.waiting import until

TABLE = TableName("public", "t")


class Place(NamedTuple):
    """A database with the table `t`, which is published and has a slot."""

    connection: psycopg.Connection
    url: PostgresUrl
    slot: str
    publication: str
    start: Position
    """Where the slot stands."""

    def write(self, rows: int, text: str = "x", first: int | None = None) -> None:
        """Insert rows in one transaction."""
        self.connection.execute(
            "INSERT INTO t (text) SELECT %s || i FROM generate_series(1, %s) i", (text, rows)
        )

    def state(self) -> slot.SlotState:
        """The slot, now."""
        return slot.check(self.connection, self.slot)

    def end(self) -> Position:
        """The end of the source's log, as far as it is on disk."""
        row = self.connection.execute(
            "SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint"
        ).fetchone()
        assert row is not None
        return int(row[0])


@contextmanager
def place(url: str, name: str = "feed") -> Iterator[Place]:
    """A place in a database; gone afterwards, if the server is still there."""
    at = PostgresUrl.parse(url)
    with psycopg.connect(url, autocommit=True) as connection:
        home = connection.info.dbname
        connection.execute("CREATE TABLE t (id bigserial PRIMARY KEY, text text)")
        own = publication_name(name, home)
        publication.create(connection, own, [Published(TABLE)])
        made = slot.create(connection, slot_name(name, home))
        yield Place(connection, at, made.name, own, made.confirmed)
        if connection.closed:
            return
        slot.drop(connection, made.name, 0.0)
        publication.drop(connection, own)
        connection.execute("DROP TABLE IF EXISTS t")


class Reader(Protocol):
    """What chunks come from."""

    def read(self, timeout_s: float) -> Chunk | None: ...


def messages(chunk: Chunk) -> list[bytes]:
    """The messages of a chunk."""
    data = chunk.buffer.tobytes()
    pairs = zip(chunk.starts.tolist(), chunk.ends.tolist(), strict=True)
    return [data[start:end] for start, end in pairs]


def texts(found: list[bytes]) -> list[bytes]:
    """The last column of all inserted rows."""
    return [_last_column(each) for each in found if each[:1] == b"I"]


def collect(
    reader: Reader, enough: Callable[[list[bytes]], bool], timeout_s: float = 60.0
) -> list[bytes]:
    """Messages, until there are enough of them."""
    found: list[bytes] = []

    def read() -> bool:
        chunk = reader.read(0.05)
        if chunk is not None:
            found.extend(messages(chunk))
        return enough(found)

    until(read, timeout_s, 0.0)
    return found


def inserts(count: int) -> Callable[[list[bytes]], bool]:
    """Enough: so many rows, and the end of their transaction."""
    return lambda found: len(texts(found)) >= count and found[-1][:1] == b"C"


def _last_column(insert: bytes) -> bytes:
    """Of a row of two columns, both of them there."""
    at = 8
    for _ in range(2):
        size = int.from_bytes(insert[at + 1 : at + 5], "big")
        value, at = insert[at + 5 : at + 5 + size], at + 5 + size
    return value
