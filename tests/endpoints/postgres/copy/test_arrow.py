"""Rows of a chunk as Arrow: every value as the server has it, however the bytes are cut."""

import itertools
import string
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.copy.arrow import BLOCK_BYTES, read_chunk
from lockgate.endpoints.postgres.copy.session import SnapshotSession
from lockgate.endpoints.postgres.copy.snapshot import TableRewritten, held_snapshot
from lockgate.endpoints.postgres.copy.survey import CopyOrder, Surveyed, survey_source
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.sink.chunks import Chunk
from lockgate.endpoints.postgres.types import Unrepresentable, arrow_type
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import LockgateError
from lockgate.model.feed_config import Mask, MaskKind
from lockgate.model.ids import Token
from lockgate.model.selection import TableSelection
from lockgate.model.spans import SpanSpec
from lockgate.model.tables import TableName
from tests.support.dribble import Dribble
from tests.support.tls import TlsFront, make_certificate

NASTY = [
    *("", " ", "NULL", "\\N", "\\.", '"', '""', ",", ",,", "\n", "\r\n", "\r", '"\n"', '","', "\\"),
    *("\t", "a\nb,c\"d'e\\", "d\x01\x02", "\x7f", "aä€𝄞\U0010ffff", "d", "{}"),
    "\u2028 \u0085 \ufeff",
    "d" * 70_000,
    string.printable * 300,
]


@pytest.fixture(params=["bare", "tls"])
def url(
    request: pytest.FixtureRequest, pg18: EmbeddedPostgres, database: str, tmp_path: Path
) -> Iterator[str]:
    """The database in the clear, and behind TLS."""
    if request.param == "bare":
        yield database
        return
    certificate, key = make_certificate(tmp_path, "server", "127.0.0.1")
    with TlsFront(pg18.host, pg18.port, certificate, key) as front:
        yield database.replace(f":{pg18.port}/", f":{front.port}/") + "?sslmode=require"


def surveyed(url: str, table: str = "t", **more: Any) -> Surveyed:
    name = TableName("public", table)
    with psycopg.connect(url) as connection:
        cursor = connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table)))
        columns = tuple(column.name for column in cursor.description or ())
    columns = more.pop("columns", columns)
    selection = TableSelection(name, name, columns, **more)
    order = CopyOrder(SpanSpec("s", name.id), Token(1, 1, 1), selection)
    return survey_source(PostgresUrl.parse(url), "f", [order])[name]


@contextmanager
def snapshot(url: str) -> Iterator[SnapshotSession]:
    parsed = PostgresUrl.parse(url)
    with held_snapshot(parsed, "f", []) as held:
        session = SnapshotSession(parsed, "f", held.id)
        yield session
        session.close()


def read(
    url: str, look: Surveyed, chunk: Chunk | None = None, **options: Any
) -> tuple[pa.Table, int]:
    """All rows, and in how many blocks they came."""
    with snapshot(url) as session:
        blocks = list(
            read_chunk(session, look.table, look.shape.columns, chunk or Chunk(0), **options)
        )
        assert session.open().execute("SELECT 1").fetchone() == (1,)  # it goes on being of use
    schema = pa.schema([(each.name, arrow_type(each)) for each in look.shape.columns])
    return pa.concat_tables([schema.empty_table(), *blocks]), len(blocks)


def rows_of(found: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.fixture
def nasty(database: str) -> list[tuple[Any, ...]]:
    """The rows that the table t has."""
    rows: list[tuple[Any, ...]] = [(0, None, None), (1, None, ""), (2, "", None)]
    rows += [(n, *pair) for n, pair in enumerate(itertools.pairwise(NASTY), 3)]
    with psycopg.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b text)")
        cursor.executemany("INSERT INTO t VALUES (%s, %s, %s)", rows)
    return rows


@pytest.mark.parametrize("block_bytes", [1, 1000, BLOCK_BYTES])
def test_texts_are_what_they_are(
    url: str, database: str, nasty: list[tuple[Any, ...]], block_bytes: int
) -> None:
    found, _ = read(url, surveyed(database), ordered=True, block_bytes=block_bytes)
    assert rows_of(found) == nasty


@pytest.mark.parametrize("word", [b"d\0\0", b"\n", b'"'], ids=["head", "line", "quote"])
def test_rows_that_come_in_pieces_are_put_together(
    pg18: EmbeddedPostgres, database: str, nasty: list[tuple[Any, ...]], word: bytes
) -> None:
    with Dribble(pg18.host, pg18.port, word, 0.001) as front:
        slow = database.replace(f":{pg18.port}/", f":{front.port}/")
        found, _ = read(slow, surveyed(database), ordered=True, block_bytes=100)
        assert front.pauses
    assert rows_of(found) == nasty


def test_one_column_of_nulls_and_nothing_is_as_many_rows(database: str) -> None:
    """A line of one NULL is empty."""
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, a text)")
        connection.execute("INSERT INTO t VALUES (1, NULL), (2, ''), (3, '\\.'), (4, NULL)")
    found, _ = read(database, surveyed(database, columns=("a",)), ordered=True)
    assert found["a"].to_pylist() == [None, "", "\\.", None]


def test_no_column_is_as_many_rows(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        connection.execute("INSERT INTO t SELECT generate_series(1, 1000)")
    look = surveyed(database, columns=())
    with snapshot(database) as session:
        blocks = list(read_chunk(session, look.table, (), Chunk(0)))
    assert [(block.num_rows, block.num_columns) for block in blocks] == [(1000, 0)]


def test_as_many_columns_as_a_table_can_have(database: str) -> None:
    with psycopg.connect(database) as connection:
        columns = ", ".join(f"c{n} smallint DEFAULT {n}" for n in range(1599))
        connection.execute(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
        connection.execute("INSERT INTO t SELECT generate_series(1, 300)")
    found, _ = read(database, surveyed(database), block_bytes=100_000)
    assert found.num_rows == 300
    assert [found[n + 1][0].as_py() for n in range(1599)] == list(range(1599))


def test_a_value_larger_than_all_blocks_arrives(url: str, database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b bytea)")
        connection.execute(
            "INSERT INTO t SELECT n, repeat(md5(n::text), 30000), "
            "decode(repeat('d000', 9999), 'hex') FROM generate_series(1, 3) n"
        )
        wanted = connection.execute("SELECT * FROM t ORDER BY id").fetchall()
    found, blocks = read(url, surveyed(database), ordered=True, block_bytes=100_000)
    assert rows_of(found) == wanted
    assert blocks == 3


def test_memory_is_bounded_by_the_block_and_not_by_the_chunk(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, a text)")
        connection.execute(
            "INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 100000) n"
        )
    look = surveyed(database)
    with snapshot(database) as session:
        sizes = [
            block.nbytes
            for block in read_chunk(
                session, look.table, look.shape.columns, Chunk(0), block_bytes=1 << 20
            )
        ]
    assert sum(sizes) > 10_000_000
    assert max(sizes) < 3 << 20


def test_a_chunk_has_its_rows_and_no_others_in_order(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE t (a int, b text, PRIMARY KEY (b, a))")
        connection.execute("INSERT INTO t SELECT n, n % 7 FROM generate_series(1, 1000) n")
    look = surveyed(database, row_filter="a % 2 = 0")
    found, _ = read(database, look, Chunk(1, ("2", "100"), ("5", "3")), ordered=True)
    wanted = [(a, str(a % 7)) for a in range(2, 1001, 2)]
    wanted = [row for row in wanted if ("2", 100) <= row[::-1] < ("5", 3)]
    assert rows_of(found) == sorted(wanted, key=lambda row: row[::-1])


def test_masked_columns_are_texts(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, a int, b int, c bool)")
        connection.execute("INSERT INTO t VALUES (1, 2, 3, true), (2, NULL, NULL, NULL)")
    masks = {
        "a": Mask(MaskKind.NULL),
        "b": Mask(MaskKind.FIXED, 'x"\n'),
        "c": Mask(MaskKind.HASH),
    }
    found, _ = read(database, surveyed(database, masks=masks), ordered=True)
    assert found["a"].to_pylist() == [None, None]
    assert found["b"].to_pylist() == ['x"\n', 'x"\n']
    assert [value and len(value) for value in found["c"].to_pylist()] == [64, None]


def test_an_empty_chunk_has_no_blocks(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
    assert read(database, surveyed(database))[1] == 0


def test_rows_of_later_are_not_read(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1)")
        look = surveyed(database)
        with snapshot(database) as session:
            connection.execute("INSERT INTO t VALUES (2)")
            [block] = read_chunk(session, look.table, look.shape.columns, Chunk(0))
    assert block["id"].to_pylist() == [1]


def test_an_error_in_the_middle_of_the_rows_is_told(url: str, database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        connection.execute("INSERT INTO t SELECT generate_series(-50000, 50000)")
    look = surveyed(database, row_filter="1000 / id IS NOT NULL")
    with pytest.raises(LockgateError, match="division by zero") as failed:
        read(url, look, ordered=True, block_bytes=1000)
    assert "public.t" in failed.value.object


def test_a_column_that_became_another_is_found_out(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, a int, b int)")
        connection.execute("INSERT INTO t VALUES (1, 2, 3)")
        look = surveyed(database)
        connection.execute("ALTER TABLE t RENAME a TO c")
        connection.execute("ALTER TABLE t RENAME b TO a")
        connection.execute("ALTER TABLE t RENAME c TO b")
    with pytest.raises(TableRewritten, match="columns of the table were changed"):
        read(database, look)


def test_a_time_beyond_the_type_is_refused_by_column(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute('CREATE TABLE t (id int PRIMARY KEY, "At" timestamp)')
        connection.execute("INSERT INTO t VALUES (1, '294276-12-31')")
    with pytest.raises(Unrepresentable, match=r'public\.t\."At"'):
        read(database, surveyed(database))
