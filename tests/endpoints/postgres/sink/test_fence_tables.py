"""The schema `lockgate` at a target: made once, migrated, refused with a hint."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.sink.tables import MIGRATIONS, prepare
from lockgate.model.errors import EndpointRefused, MissingPrivilege, Terminal
from lockgate.model.spans import TRIGGER_SPEC, WHOLE, Birth, SpanSpec
from lockgate.store.metastore import SqlMetastore
from tests.endpoints.postgres.sink.target import token

NEWEST = len(MIGRATIONS)


def _version(url: str) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT version FROM lockgate.schema_version").fetchall()
    assert len(found) == 1
    return int(found[0][0])


def _works(url: str) -> None:
    with PostgresSink(url) as sink:
        birth = Birth(0, (SpanSpec("a", "t"),))
        assert sink.claim("works", TRIGGER_SPEC, token(), birth=birth) == ((WHOLE, 0),)


def test_preparing_makes_the_tables_and_again_changes_nothing(database_of: str) -> None:
    with PostgresSink(database_of) as sink:
        sink.prepare()
        assert _version(database_of) == NEWEST
        _works(database_of)
        sink.prepare()
        assert sink.claim("works", TRIGGER_SPEC, token()) == ((WHOLE, 0),)


def test_many_prepare_at_once(database: str) -> None:
    together = Barrier(6)

    def run(_: int) -> None:
        with PostgresSink(database) as sink:
            together.wait()
            sink.prepare()

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(run, range(6)))
    assert _version(database) == NEWEST
    _works(database)


def test_a_metastore_and_a_target_share_the_schema_in_either_order(
    database: str, database16: str
) -> None:
    for first, url in ((True, database), (False, database16)):
        for target in (first, not first):
            if target:
                with PostgresSink(url) as sink:
                    sink.prepare()
            else:
                SqlMetastore.open(url, lease_ms=10_000).close()
        _works(url)


def test_an_older_target_is_migrated(database: str) -> None:
    """With a migration that does not exist yet, on a target as it is today."""
    later = [*MIGRATIONS, ["ALTER TABLE lockgate.feeds ADD COLUMN later int"]]
    with PostgresSink(database) as sink:
        sink.prepare()
        _works(database)
        for _ in range(2):
            with psycopg.connect(database) as connection, connection.cursor() as cursor:
                prepare(cursor, "target", later)
        assert _version(database) == NEWEST + 1
        with pytest.raises(Terminal, match="a newer Lockgate"):
            sink.prepare()


def test_a_migration_that_fails_leaves_the_target_as_it_was(database: str) -> None:
    with PostgresSink(database) as sink:
        sink.prepare()
    broken = [*MIGRATIONS, ["ALTER TABLE lockgate.feeds ADD COLUMN later int", "nonsense"]]
    with psycopg.connect(database) as connection, connection.cursor() as cursor:
        with pytest.raises(Terminal):
            prepare(cursor, "target", broken)
        connection.rollback()
    assert _version(database) == NEWEST


# --- what is missing ------------------------------------------------------------------------------


def _as_role(url: str, name: str, *grants: str) -> str:
    """The URL for a role with nothing but these grants."""
    with psycopg.connect(url, autocommit=True) as admin:
        role = sql.Identifier(name)
        admin.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(role))
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'p'").format(role))
        for grant in grants:
            admin.execute(sql.SQL("GRANT {} TO {}").format(sql.SQL(grant), role))
    return f"postgresql://{name}:p@{url.split('@')[1]}"


def test_without_the_right_to_create_a_schema_the_hint_says_what_to_grant(database: str) -> None:
    url = _as_role(database, "poor")
    with PostgresSink(url) as sink, pytest.raises(MissingPrivilege) as error:
        sink.prepare()
    assert "CREATE ON DATABASE" in error.value.hint


def test_with_a_schema_that_may_not_be_used_the_hint_says_so(database: str) -> None:
    with PostgresSink(database) as sink:
        sink.prepare()
    url = _as_role(database, "outsider")
    with PostgresSink(url) as sink, pytest.raises(MissingPrivilege) as error:
        sink.prepare()
    assert "ON SCHEMA lockgate" in error.value.hint


def test_with_tables_that_may_not_be_written_the_hint_names_them(database: str) -> None:
    with PostgresSink(database) as sink:
        sink.prepare()
    grants = ("USAGE ON SCHEMA lockgate", "SELECT ON ALL TABLES IN SCHEMA lockgate")
    url = _as_role(database, "reader", *grants)
    with PostgresSink(url) as sink, pytest.raises(MissingPrivilege) as error:
        sink.prepare()
    assert "lockgate.progress" in error.value.hint


def test_a_role_that_owns_nothing_can_use_what_somebody_prepared(database: str) -> None:
    with PostgresSink(database) as sink:
        sink.prepare()
    grants = (
        "USAGE ON SCHEMA lockgate",
        "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA lockgate",
    )
    url = _as_role(database, "tenant", *grants)
    with PostgresSink(url) as sink:
        sink.prepare()
    _works(url)


def test_somebody_elses_tables_are_not_taken_over(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE SCHEMA lockgate; CREATE TABLE lockgate.progress (mine int)")
    with PostgresSink(database) as sink, pytest.raises(Terminal, match="did not make"):
        sink.prepare()


def test_a_standby_is_refused() -> None:
    with EmbeddedPostgres(18, settings={"fsync": "off"}) as server:
        with PostgresSink(server.url()) as sink:
            sink.prepare()
        server.stop()
        (server.directory / "data" / "standby.signal").touch()
        server.start()
        with PostgresSink(server.url()) as sink, pytest.raises(EndpointRefused, match="no writes"):
            sink.prepare()
