"""What counts as gone for ever, and what does not: whoever answers anything is there."""

import contextlib
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres import gone
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.gone import gone_why
from lockgate.endpoints.postgres.url import PostgresUrl


def why(url: str) -> str:
    return gone_why(PostgresUrl.parse(url))


def at(port: int) -> str:
    return f"postgres://u@127.0.0.1:{port}/db"


@pytest.fixture
def deaf() -> Iterator[int]:
    """A port at which somebody takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_server_that_lets_us_in_is_there(database: str) -> None:
    assert why(database) == ""


def test_a_port_where_nobody_listens_is_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert why(at(port)) == "Connection refused"


def test_a_server_that_is_silent_is_gone_whatever_its_url_says(
    deaf: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gone, "LOOK_S", 2)
    assert "timeout expired" in why(f"{at(deaf)}?connect_timeout=600")


def test_a_host_that_nobody_knows_is_gone() -> None:
    assert "not known" in why("postgres://u@no-such-host.invalid/db")


def test_a_socket_that_is_not_there_is_gone() -> None:
    assert why("postgres://u@%2Fno%2Fsuch%2Ffolder/db") == "No such file or directory"


def test_a_database_that_was_dropped_is_gone(database: str) -> None:
    assert "does not exist" in why(f"{database}_that_nobody_made")


def test_a_database_that_takes_no_connections_is_there(database: str) -> None:
    name = urlsplit(database).path[1:]
    closed = f"{name}_closed"
    with psycopg.connect(database, autocommit=True) as admin:
        make = sql.SQL("CREATE DATABASE {} ALLOW_CONNECTIONS false")
        admin.execute(make.format(sql.Identifier(closed)))
        try:
            assert why(f"{database}_closed") == ""
        finally:
            admin.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(closed)))


def test_wrong_credentials_are_an_answer(database: str) -> None:
    parts = urlsplit(database)
    host = parts.netloc.rpartition("@")[2]
    assert why(f"postgres://nobody:wrong@{host}{parts.path}") == ""


def test_a_server_without_room_is_there() -> None:
    settings = {
        "fsync": "off",
        "max_connections": 2,
        "superuser_reserved_connections": 0,
        "reserved_connections": 0,
        "autovacuum_worker_slots": 1,
        "max_wal_senders": 0,
    }
    with EmbeddedPostgres(settings=settings) as server, contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(psycopg.connect(server.url()))
        with pytest.raises(psycopg.OperationalError, match="too many clients"):
            psycopg.connect(server.url())
        assert why(server.url()) == ""


REFUSED = 'connection failed: connection to server at "::1", port 5 failed: Connection refused'
STARTING = (
    'connection failed: connection to server at "127.0.0.1", port 5 failed: '
    "FATAL:  the database system is starting up"
)
FOREIGN = STARTING.replace("the database system is starting up", "das System startet gerade")
ALL = "Multiple connection attempts failed. All failures were:"


@pytest.mark.parametrize(
    ("words", "is_gone"),
    [
        (REFUSED, True),
        (STARTING, False),
        (FOREIGN, False),
        (f"{REFUSED}\n\tIs the server running?\n{ALL}\n- host: 'h': {REFUSED}", True),
        (f"{REFUSED}\n{ALL}\n- host: 'h': {REFUSED}\n- host: 'h': {FOREIGN}", False),
        ("connection failed: server closed the connection unexpectedly", False),
        ("failed to resolve host 'h': [Errno -3] Temporary failure in name resolution", False),
        ("", False),
    ],
)
def test_every_address_has_to_say_that_it_is_gone(words: str, is_gone: bool) -> None:
    assert bool(gone._told(words)) is is_gone
