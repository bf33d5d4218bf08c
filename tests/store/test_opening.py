"""Opening a metastore: a new one, an old one, a newer one, and what is none at all."""

import contextlib
import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.batch import Joined, Landed, Loaded, Renewed
from lockgate.model.errors import (
    LockgateError,
    MetastoreTooNew,
    MetastoreUnavailable,
    MetastoreUnreadable,
    UsageError,
)
from lockgate.model.ids import NodeRef, Token
from lockgate.model.secret import Secret
from lockgate.store import tables
from lockgate.store.changelog.log import Changelog
from lockgate.store.changelog.rows import LogState
from lockgate.store.location import SqliteLocation, locate
from lockgate.store.metastore import SqlMetastore
from lockgate.store.migrations import MIGRATIONS, NEWEST, Migration, migrate
from lockgate.store.postgres import PostgresBackend
from lockgate.store.sqlite import SqliteBackend
from tests.support import actor
from tests.support.stores import FEED, LEASE_MS, Place, own, put, span, sqlite_url

NOBODY = 65534


def opened(url: str) -> SqlMetastore:
    return SqlMetastore.open(url, lease_ms=LEASE_MS, timeout_ms=2_000)


def refused(url: str, kind: type[LockgateError]) -> LockgateError:
    """The error that opening gives; it must say what to do and where."""
    with pytest.raises(kind) as caught:
        opened(url)
    assert type(caught.value) is kind
    assert caught.value.hint
    return caught.value


@contextlib.contextmanager
def engine_at(url: str) -> Iterator[sa.Engine]:
    """Direct access to the database that a metastore is in."""
    location = locate(url)
    backend = (
        SqliteBackend(location, 5_000)
        if isinstance(location, SqliteLocation)
        else PostgresBackend(location, 5_000)
    )
    backend.settle()
    try:
        yield backend.engine
    finally:
        backend.engine.dispose()


def make_old(url: str, version: int = 1) -> None:
    """A metastore as an older version made it, in use: a node leads, a feed has records."""
    with engine_at(url) as engine, engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(sa.schema.CreateSchema(tables.SCHEMA))
        migrate(connection, 0, MIGRATIONS[:version])
        far = 2**60
        for table, row in (
            (tables.scopes, {"scope": FEED, "fence": 1, "serial": 4}),
            (tables.scopes, {"scope": "node:a", "fence": 7, "serial": 0}),
            (tables.scopes, {"scope": "coordinator", "fence": 3, "serial": 0}),
            (tables.nodes, {"node": "a", "incarnation": 7, "expires_at": far}),
        ):
            connection.execute(sa.insert(table), row)
        connection.execute(
            sa.update(tables.leader).values(node="a", incarnation=7, term=3, expires_at=far)
        )


def version_at(url: str) -> list[int]:
    with engine_at(url) as engine, engine.connect() as connection:
        return [*connection.execute(sa.select(tables.schema_version.c.version)).scalars()]


def set_version(url: str, version: int) -> None:
    with engine_at(url) as engine, engine.begin() as connection:
        connection.execute(sa.update(tables.schema_version).values(version=version))


# --- versions -----------------------------------------------------------------------------------


def test_an_empty_place_becomes_a_metastore_of_today(sql: Place) -> None:
    opened(sql.url).close()
    assert version_at(sql.url) == [NEWEST]


def test_what_is_written_is_there_after_opening_again(sql: Place) -> None:
    with opened(sql.url) as store:
        own(store)
        assert isinstance(store.commit(put(1, span(1))), Landed)
    with opened(sql.url) as store:
        assert store.load(FEED) == Loaded(FEED, 1, 1, (span(1),))


@pytest.mark.parametrize("version", range(1, NEWEST))
def test_an_old_metastore_is_migrated_and_goes_on(sql: Place, version: int) -> None:
    make_old(sql.url, version)
    assert version_at(sql.url) == [version]
    with opened(sql.url) as store:
        assert store.load(FEED) == Loaded(FEED, 1, 4, ())
        assert isinstance(store.commit(put(5, span(1))), Landed)
        # The old lease still runs, and its holder still leads, under its old term.
        renewed = store.renew(NodeRef("a", 7), 0)
        assert isinstance(renewed, Renewed)
        assert renewed.leader is not None
        assert (renewed.leader.ref, renewed.leader.term) == (NodeRef("a", 7), 3)
        assert store.join("a", 0) == Joined(NodeRef("a", 8), 0)
        assert Changelog(store.transactions).claim("orders", Token(1, 1, 7), 5) == LogState(5, 0)
    assert version_at(sql.url) == [NEWEST]


def test_the_tables_are_those_that_the_code_knows(sql: Place) -> None:
    opened(sql.url).close()
    with engine_at(sql.url) as engine:
        inspector = sa.inspect(engine)
        schema = tables.SCHEMA if sql.kind == "postgres" else None
        for table in tables.schema_version.metadata.tables.values():
            there = [column["name"] for column in inspector.get_columns(table.name, schema=schema)]
            assert there == [column.name for column in table.c]


def test_a_migration_that_fails_leaves_the_old_metastore(sql: Place) -> None:
    make_old(sql.url)

    def breaks(connection: sa.Connection) -> None:
        MIGRATIONS[1](connection)
        raise RuntimeError("halfway")

    broken: tuple[Migration, ...] = (MIGRATIONS[0], breaks)
    with (
        engine_at(sql.url) as engine,
        pytest.raises(RuntimeError, match="halfway"),
        engine.begin() as connection,
    ):
        migrate(connection, 1, broken)
    assert version_at(sql.url) == [1]
    opened(sql.url).close()
    assert version_at(sql.url) == [NEWEST]


def test_a_newer_metastore_is_left_alone(sql: Place) -> None:
    opened(sql.url).close()
    set_version(sql.url, NEWEST + 1)
    error = refused(sql.url, MetastoreTooNew)
    assert f"version {NEWEST + 1}" in str(error)
    assert "newer" in error.hint
    assert version_at(sql.url) == [NEWEST + 1]


@pytest.mark.parametrize("version", [0, -1])
def test_a_version_that_never_was_is_not_believed(sql: Place, version: int) -> None:
    opened(sql.url).close()
    set_version(sql.url, version)
    refused(sql.url, MetastoreUnreadable)


@pytest.mark.parametrize("prepare", [lambda url: None, make_old], ids=["empty", "old"])
def test_processes_that_open_one_home_at_once_all_get_in(
    sql: Place, prepare: Callable[[str], None]
) -> None:
    prepare(sql.url)
    openers = [actor.start("open", sql.url) for _ in range(3)]
    for opener in openers:
        assert actor.said(opener) == "ready"
    for opener in openers:
        actor.go(opener)
    for opener in openers:
        assert actor.end(opener) == ["opened"]
    assert version_at(sql.url) == [NEWEST]


def test_threads_that_open_one_home_at_once_all_get_in(sql: Place) -> None:
    gate = threading.Barrier(6)
    outcomes: list[object] = []

    def work() -> None:
        gate.wait(30)
        try:
            SqlMetastore.open(sql.url, lease_ms=LEASE_MS, timeout_ms=20_000).close()
            outcomes.append("opened")
        except BaseException as error:
            outcomes.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert outcomes == ["opened"] * 6


# --- SQLite: what is no metastore ---------------------------------------------------------------


def test_the_file_is_nobody_elses_to_read(home: Path) -> None:
    opened(sqlite_url(home)).close()
    assert (home / "metastore.db").stat().st_mode & 0o077 == 0


def test_the_log_is_written_ahead_and_flushed(home: Path) -> None:
    with opened(sqlite_url(home)) as store, store._backend.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2


def test_garbage_is_not_a_metastore(home: Path) -> None:
    garbage = b"this is not a database, whatever its name says" * 100
    (home / "metastore.db").write_bytes(garbage)
    error = refused(sqlite_url(home), MetastoreUnreadable)
    assert str(home / "metastore.db") in str(error)
    assert (home / "metastore.db").read_bytes() == garbage


def test_somebody_elses_database_is_not_a_metastore(home: Path) -> None:
    with contextlib.closing(sqlite3.connect(home / "metastore.db")) as other:
        other.execute("CREATE TABLE customers (id INTEGER)")
    refused(sqlite_url(home), MetastoreUnreadable)
    with contextlib.closing(sqlite3.connect(home / "metastore.db")) as other:
        assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("customers",)]


def test_a_damaged_metastore_is_not_used(home: Path) -> None:
    opened(sqlite_url(home)).close()
    whole = (home / "metastore.db").read_bytes()
    (home / "metastore.db").write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    refused(sqlite_url(home), MetastoreUnreadable)


def test_a_directory_is_not_a_metastore(home: Path) -> None:
    (home / "metastore.db").mkdir()
    refused(sqlite_url(home), MetastoreUnreadable)


def test_a_directory_that_is_not_there_is_named(home: Path) -> None:
    error = refused(sqlite_url(home / "missing"), MetastoreUnreadable)
    assert "directory exists" in error.hint


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """As somebody whom permissions bind, also when the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_home() -> Iterator[Path]:
    """A directory that everybody can reach."""
    home = Path(tempfile.mkdtemp(prefix="lockgate-test-", dir="/tmp"))
    yield home
    for path in (home, *home.iterdir()):
        path.chmod(0o755)
    shutil.rmtree(home)


def test_a_read_only_directory_cannot_hold_a_metastore(open_home: Path) -> None:
    open_home.chmod(0o555)
    with unprivileged():
        error = refused(sqlite_url(open_home), MetastoreUnreadable)
    assert "may read and write" in error.hint
    assert not [*open_home.iterdir()]


@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_a_metastore_that_may_not_be_written_is_not_opened(open_home: Path, mode: int) -> None:
    opened(sqlite_url(open_home)).close()
    (open_home / "metastore.db").chmod(mode)
    open_home.chmod(0o777)
    with unprivileged():
        refused(sqlite_url(open_home), MetastoreUnreadable)
    (open_home / "metastore.db").chmod(0o600)
    opened(sqlite_url(open_home)).close()


def test_a_metastore_that_somebody_holds_is_busy(home: Path) -> None:
    opened(sqlite_url(home)).close()
    with contextlib.closing(sqlite3.connect(home / "metastore.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(MetastoreUnavailable):
            SqlMetastore.open(sqlite_url(home), lease_ms=LEASE_MS, timeout_ms=50)


def test_an_empty_home_that_somebody_is_making_is_waited_for(home: Path) -> None:
    # Turning the write-ahead log on is the one place where SQLite does not wait by itself.
    holding, opening = threading.Event(), threading.Event()

    def hold() -> None:
        with contextlib.closing(sqlite3.connect(home / "metastore.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            holding.set()
            opening.wait(10)
            other.rollback()

    holder = threading.Thread(target=hold)
    holder.start()
    assert holding.wait(10)
    threading.Timer(0.2, opening.set).start()
    opened(sqlite_url(home)).close()
    assert opening.is_set()
    holder.join()


# --- PostgreSQL: what is no metastore -----------------------------------------------------------


def test_a_server_that_is_not_there_is_unavailable() -> None:
    error = refused("postgresql://u:hunter2@127.0.0.1:1/db", MetastoreUnavailable)
    assert error.object == "postgresql://127.0.0.1:1/db"


def test_the_schema_may_hold_tables_of_a_target(database: str) -> None:
    with psycopg.connect(database) as admin:
        admin.execute("CREATE SCHEMA lockgate")
        admin.execute("CREATE TABLE lockgate.progress (feed text)")
    opened(database).close()


def test_a_schema_with_half_a_metastore_is_unreadable(database: str) -> None:
    with psycopg.connect(database) as admin:
        admin.execute("CREATE SCHEMA lockgate")
        admin.execute("CREATE TABLE lockgate.records (feed text)")
    refused(database, MetastoreUnreadable)


def test_a_user_without_privileges_is_told(postgres: EmbeddedPostgres, database: str) -> None:
    with psycopg.connect(database) as admin:
        admin.execute("DROP ROLE IF EXISTS weak")
        admin.execute("CREATE ROLE weak LOGIN PASSWORD 'hunter2'")
    url = database.replace(postgres.password.reveal(), "hunter2").replace("//postgres:", "//weak:")
    error = refused(url, MetastoreUnreadable)
    assert "create and use the schema" in error.hint


# --- URLs and secrets ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:hunter2@127.0.0.1:1/db",
        "postgresql://u@127.0.0.1:1/db?password=hunter2",
        "postgresql://u:hunter2@127.0.0.1:port/db",
        "postgresql://u:hunter2:hunter2@x@127.0.0.1:1/db",
        "postgresql://u:hunter2@127.0.0.1:1/db?nonsense=1",
        "mysql://u:hunter2@127.0.0.1:1/db",
        "hunter2",
        "postgresql://u:x:hunter2",
    ],
)
def test_a_password_is_in_no_error(url: str) -> None:
    for given in (url, Secret(url)):
        with pytest.raises(LockgateError) as caught:
            SqlMetastore.open(given, lease_ms=LEASE_MS, timeout_ms=1_000)
        error = caught.value
        chain = [error]
        while follow := (chain[-1].__cause__ or chain[-1].__context__):
            chain.append(follow)
        for one in chain:
            assert "hunter2" not in f"{one} {one!r} {getattr(one, '__notes__', '')}"
        assert "hunter2" not in str(error.as_dict())


def test_a_wrong_password_is_not_shown(postgres: EmbeddedPostgres) -> None:
    url = postgres.url().replace(postgres.password.reveal(), "hunter2")
    error = refused(url, MetastoreUnavailable)
    assert "hunter2" not in str(error.as_dict())
    assert "password" in error.hint


def test_the_label_shows_no_credentials(postgres: EmbeddedPostgres, database: str) -> None:
    with opened(database) as store:
        assert store.label == f"postgresql://127.0.0.1:{postgres.port}/postgres"


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "sqlite:///x?mode=ro", "mysql://h/d", "", "x"]
)
def test_a_url_that_names_no_metastore_is_wrong_usage(url: str) -> None:
    refused(url, UsageError)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_postgres_goes_by_all_its_names(database: str, scheme: str) -> None:
    opened(database.replace("postgresql", scheme, 1)).close()
