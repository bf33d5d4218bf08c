"""Rows through the pipe: all of them, whatever they look like, and errors told by their side."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.copy.pipe import Piped, SourceError, pipe
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from tests.support.dribble import Dribble
from tests.support.tls import TlsFront, make_certificate
from tests.support.waiting import until

_QUIET = {"client_min_messages": "error"}


@contextmanager
def _ends(source: str, target: str) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    with (
        connect(source, purpose="source", options=_QUIET) as one,
        connect(target, purpose="target", options=_QUIET) as two,
    ):
        yield one, two


def _run(
    one: psycopg.Connection, two: psycopg.Connection, query: str, form: str = "binary"
) -> Piped:
    out = sql.SQL("COPY ({}) TO STDOUT (FORMAT {})").format(sql.SQL(query), sql.SQL(form))
    into = sql.SQL("COPY t FROM STDIN (FORMAT {})").format(sql.SQL(form))
    return pipe(one, out, two, into)


@pytest.fixture(params=["forwarded", "by row"])
def urls(
    request: pytest.FixtureRequest, pg18: EmbeddedPostgres, database: str, tmp_path: Path
) -> Iterator[tuple[str, str]]:
    """Where to read and where to write: in the clear, and behind TLS."""
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int8 PRIMARY KEY CHECK (id <> 777777), v text)")
    if request.param == "forwarded":
        yield database, database
        return
    certificate, key = make_certificate(tmp_path, "server", "127.0.0.1")
    with TlsFront(pg18.host, pg18.port, certificate, key) as front:
        through = database.replace(f":{pg18.port}/", f":{front.port}/")
        yield f"{through}?sslmode=require", database
        assert front.handshakes


@pytest.mark.parametrize("form", ["binary", "text"])
@pytest.mark.parametrize("rows", [0, 1, 100_000])
def test_all_rows_arrive_as_they_are(urls: tuple[str, str], form: str, rows: int) -> None:
    query = f"SELECT i, repeat('ä' || i, i::int % 20) FROM generate_series(1::int8, {rows}) i"
    with _ends(*urls) as (one, two):
        done = _run(one, two, query, form)
        assert (done.rows_read, done.rows_written) == (rows, rows)
        assert done.bytes >= rows * 5
        two.commit()
        assert one.execute("SELECT 1").fetchone() == (1,)
        differences = two.execute(
            sql.SQL(
                "SELECT count(*) FROM (({0} EXCEPT SELECT * FROM t)"
                " UNION ALL (SELECT * FROM t EXCEPT {0})) d"
            ).format(sql.SQL(query))
        ).fetchone()
        assert differences == (0,)
        assert two.execute("SELECT count(*) FROM t").fetchone() == (rows,)


def test_a_row_wider_than_all_buffers_arrives(urls: tuple[str, str]) -> None:
    with _ends(*urls) as (one, two):
        _run(one, two, "SELECT i, repeat(md5(i::text), 100000) FROM generate_series(1::int8, 3) i")
        found = two.execute("SELECT id FROM t WHERE v = repeat(md5(id::text), 100000)").fetchall()
        assert found == [(1,), (2,), (3,)]


def test_an_error_of_the_source_is_told_as_such(urls: tuple[str, str]) -> None:
    query = "SELECT i, (100 / (50000 - i))::text FROM generate_series(1::int8, 90000) i"
    with _ends(*urls) as (one, two):
        with pytest.raises(SourceError) as failed:
            _run(one, two, query)
        assert isinstance(failed.value.error, psycopg.errors.DivisionByZero)
        assert failed.value.error.diag.message_primary == "division by zero"


def test_a_statement_that_the_source_refuses_is_told_as_such(urls: tuple[str, str]) -> None:
    with _ends(*urls) as (one, two):
        with pytest.raises(SourceError) as failed:
            _run(one, two, "SELECT id, v FROM nobody")
        assert failed.value.error.sqlstate == "42P01"


def test_an_error_of_the_target_stops_the_stream(urls: tuple[str, str]) -> None:
    """Long before the source is at its end: the rest would fill every buffer."""
    query = "SELECT i, repeat('x', 1000) FROM generate_series(777770::int8, 850000) i"
    with _ends(*urls) as (one, two):
        with pytest.raises(psycopg.errors.CheckViolation) as failed:
            _run(one, two, query)
        assert failed.value.diag.constraint_name == "t_id_check"


def test_a_missing_target_table_is_told(urls: tuple[str, str]) -> None:
    with _ends(*urls) as (one, two):
        two.execute("DROP TABLE t")
        with pytest.raises(psycopg.errors.UndefinedTable):
            _run(one, two, "SELECT 1::int8, 'x'")


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_server_that_ends_the_session_is_noticed(urls: tuple[str, str], side: str) -> None:
    query = "SELECT generate_series(1::int8, 100000000), repeat('x', 5000)"
    failed: list[BaseException] = []

    def run(one: psycopg.Connection, two: psycopg.Connection) -> None:
        try:
            _run(one, two, query)
        except BaseException as error:
            failed.append(error)

    with _ends(*urls) as (one, two), psycopg.connect(urls[1], autocommit=True) as admin:
        pid = (one if side == "source" else two).info.backend_pid
        thread = threading.Thread(target=run, args=(one, two))
        thread.start()
        until(
            lambda: admin.execute(
                "SELECT FROM pg_stat_progress_copy WHERE pid = %s AND tuples_processed > 1000",
                (two.info.backend_pid,),
            ).fetchall(),
            60,
        )
        admin.execute("SELECT pg_terminate_backend(%s)", (pid,))
        thread.join(60)
        assert not thread.is_alive()
        assert isinstance(failed[0], SourceError if side == "source" else psycopg.OperationalError)


_FAKE = b"c\0\0\0\x04C\0\0\0\x0bCOPY 2\0Z\0\0\0\x05T"
_FAKE_ERROR = b"E\0\0\0\x1eSERROR\0VERROR\0C22012\0Mno!\0\0Z\0\0\0\x05E"


@pytest.mark.parametrize("fake", [_FAKE, _FAKE_ERROR, b"Z\0\0\0\x05T"])
def test_values_that_look_like_the_end_are_values(
    pg18: EmbeddedPostgres, database: str, fake: bytes
) -> None:
    """The reader wakes up right behind each of them, with nothing else to read."""
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE s (id int8, v bytea); CREATE TABLE t (LIKE s)")
        for number in range(4):
            connection.execute("INSERT INTO s VALUES (%s, %s)", (number, b"x" * number * 90 + fake))
    with Dribble(pg18.host, pg18.port, fake) as dribble:
        through = database.replace(f":{pg18.port}/", f":{dribble.port}/")
        with _ends(through, database) as (one, two):
            done = _run(one, two, "SELECT * FROM s ORDER BY id")
            assert dribble.pauses >= 4
            assert (done.rows_read, done.rows_written) == (4, 4)
            assert two.execute("SELECT * FROM s EXCEPT SELECT * FROM t").fetchall() == []


def test_a_stream_that_comes_in_small_pieces_arrives(pg18: EmbeddedPostgres, database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int8, v text)")
    with Dribble(pg18.host, pg18.port, b"\0", pause_s=0.0) as dribble:
        through = database.replace(f":{pg18.port}/", f":{dribble.port}/")
        with _ends(through, database) as (one, two):
            done = _run(one, two, "SELECT i, 'v' || i FROM generate_series(1::int8, 50) i")
            assert done.rows_written == 50
            assert dribble.pauses > 500
