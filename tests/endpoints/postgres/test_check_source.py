"""Looking at real servers as sources: each finding is brought about for real."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.check import common, look, same_database
from lockgate.endpoints.postgres.check_source import check_source
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.feed_config import FeedConfig, read_config
from lockgate.model.findings import Finding, Severity, worst
from tests.support.databases import fresh_database
from tests.support.roles import role

ODD = 'T"; DROP TABLE %s; --ü' + "漢" * 13 + "x"
assert len(ODD.encode()) == 63


def of(findings: Iterable[Finding], code: str) -> list[Finding]:
    return [finding for finding in findings if finding.code == code]


def one(findings: Iterable[Finding], code: str) -> Finding:
    found = of(findings, code)
    assert len(found) == 1, (code, found)
    return found[0]


def run(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        for statement in statements:
            admin.execute(sql.SQL(statement).format(odd=sql.Identifier(ODD)))  # type: ignore[arg-type]


def config(url: str, **more: Any) -> FeedConfig:
    document = {"name": "f", "source": url, "target": "t", "tables": ["public.*"]} | more
    return read_config(document)


@pytest.fixture(scope="module")
def shop(pg18: EmbeddedPostgres) -> Iterator[str]:
    """A database with a table of every sort."""
    with fresh_database(pg18) as url:
        run(
            url,
            "CREATE TABLE good (id int PRIMARY KEY, region text, secret text)",
            "CREATE TABLE {odd} (id int PRIMARY KEY, {odd} text)",
            "CREATE TABLE keyless (a int)",
            "CREATE TABLE whole (a int)",
            "ALTER TABLE whole REPLICA IDENTITY FULL",
            "CREATE TABLE silent (id int PRIMARY KEY)",
            "ALTER TABLE silent REPLICA IDENTITY NOTHING",
            "CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY)",
            "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)",
            "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (9)",
            "CREATE VIEW a_view AS SELECT 1 AS x",
            "CREATE MATERIALIZED VIEW a_copy AS SELECT 1 AS x",
            "CREATE SCHEMA lockgate",
            "CREATE TABLE lockgate.own (id int)",
        )
        yield url


# --- the server ---------------------------------------------------------------------------------


def test_a_superuser_on_a_server_that_is_set_up_finds_all_well(database_of: str) -> None:
    run(database_of, "CREATE TABLE good (id int PRIMARY KEY)")
    found = check_source(database_of, tables=["public.*"])
    assert {f.code for f in found if f.severity is not Severity.OK} == {"slot-wal-limit"}
    for code in ("connected", "encryption", "version", "wal-level", "slots", "wal-senders"):
        assert one(found, code).severity is Severity.OK
    for code in ("replication", "create", "event-trigger", "encoding", "tables"):
        assert one(found, code).severity is Severity.OK
    assert one(found, "version").what in {"PostgreSQL 16", "PostgreSQL 18"}
    assert one(found, "tables").what == "1 of 1 chosen tables are well"
    assert worst(found) is Severity.WARNING


def test_findings_are_for_machines_too(shop: str) -> None:
    found = check_source(shop, tables=["public.*"])
    documents = msgspec.json.decode(msgspec.json.encode(found))
    assert documents[0] == {
        "severity": "ok",
        "code": "connected",
        "what": "connected as postgres",
        "object": PostgresUrl.parse(shop).label,
        "hint": "",
    }
    assert all(document["hint"] for document in documents if document["severity"] != "ok")


def test_nothing_is_left_behind(shop: str) -> None:
    check_source(shop, config=config(shop, tables=["public.good"], rows={"public.good": "id > 1"}))
    with psycopg.connect(shop) as admin:
        for catalog in ("pg_publication", "pg_event_trigger", "pg_replication_slots"):
            assert admin.execute(f"SELECT count(*) FROM {catalog}").fetchone() == (0,)
        query = "SELECT count(*) FROM pg_proc WHERE proname LIKE 'lockgate%'"
        assert admin.execute(query).fetchone() == (0,)


def test_a_server_that_is_not_set_up_says_so() -> None:
    settings = {
        "fsync": "off",
        "wal_level": "replica",
        "max_wal_senders": 0,
        "max_replication_slots": 0,
        "max_slot_wal_keep_size": "1GB",
        "idle_replication_slot_timeout": "1h",
        "max_connections": 9,
    }
    with EmbeddedPostgres(settings=settings) as server:
        found = check_source(server.url())
        for code in ("wal-level", "slots", "wal-senders", "replication"):
            assert one(found, code).severity is Severity.ERROR
        assert "wal_level = logical" in one(found, "wal-level").hint
        for code in ("slot-wal-limit", "slot-idle-timeout", "connections"):
            assert one(found, code).severity is Severity.WARNING
        assert "3600 s" in one(found, "slot-idle-timeout").what
        small = config("s", wal_warn_bytes=2**28, wal_stop_bytes=2**29)
        assert (
            one(check_source(server.url(), config=small), "slot-wal-limit").severity is Severity.OK
        )

        server.stop()
        (server.directory / "data" / "standby.signal").touch(0o666)
        server.start()
        found = check_source(server.url())
        assert one(found, "standby").severity is Severity.ERROR


def test_a_server_that_is_not_there_is_a_finding(pg18: EmbeddedPostgres) -> None:
    found = check_source("postgres://u:hunter2@127.0.0.1:1/db")
    assert [(f.severity, f.code) for f in found] == [(Severity.ERROR, "endpoint-unavailable")]
    found = check_source(pg18.url().replace(pg18.password.reveal(), "hunter2"))
    assert [(f.severity, f.code) for f in found] == [(Severity.ERROR, "endpoint-refused")]
    assert "hunter2" not in str(found)


@pytest.mark.parametrize(("major", "severity"), [(13, "error"), (14, "ok"), (19, "warning")])
def test_versions(shop: str, major: int, severity: str) -> None:
    url = PostgresUrl.parse(shop)
    with connect(url, purpose="test") as connection:
        server = look(connection, url.label)._replace(major=major)
        assert one(common(connection, server, url), "version").severity.value == severity


def test_an_open_line_to_another_machine_is_warned_about(shop: str) -> None:
    url = PostgresUrl.parse(shop)
    with connect(url, purpose="test") as connection:
        server = look(connection, url.label)
        far = msgspec.structs.replace(url, host="db.example")
        assert one(common(connection, server, far), "encryption").severity is Severity.WARNING


def test_a_database_without_an_encoding_is_warned_about(pg18: EmbeddedPostgres) -> None:
    run(pg18.url(), "CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0")
    try:
        found = check_source(pg18.url("bytes"))
        assert one(found, "encoding").severity is Severity.WARNING
    finally:
        run(pg18.url(), "DROP DATABASE bytes")


# --- the role -----------------------------------------------------------------------------------


def test_a_role_without_privileges_is_told_what_it_lacks(shop: str) -> None:
    with role(shop) as (name, url):
        found = check_source(url, tables=["public.good"])
        for code in ("replication", "create", "select", "owner"):
            assert one(found, code).severity is Severity.ERROR, code
            assert name in one(found, code).what
        assert one(found, "event-trigger").severity is Severity.WARNING
        assert one(found, "connected").what == f"connected as {name}"


def test_a_role_with_what_it_needs_is_well(shop: str) -> None:
    with role(shop, "REPLICATION") as (name, url):
        who = sql.Identifier(name)
        with psycopg.connect(shop, autocommit=True) as admin:
            database = sql.Identifier(PostgresUrl.parse(shop).database)
            admin.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(database, who))
            admin.execute(sql.SQL("CREATE SCHEMA mine AUTHORIZATION {}").format(who))
            admin.execute(sql.SQL("CREATE TABLE mine.t (id int PRIMARY KEY)"))
            admin.execute(sql.SQL("ALTER TABLE mine.t OWNER TO {}").format(who))
        found = check_source(url, tables=["mine.*"])
        assert not [f for f in found if f.severity is Severity.ERROR]
        assert one(found, "event-trigger").severity is Severity.WARNING


def test_columns_that_may_be_read_are_enough_when_the_rest_is_left_out(shop: str) -> None:
    with role(shop) as (name, url):
        with psycopg.connect(shop, autocommit=True) as admin:
            admin.execute(
                sql.SQL("GRANT SELECT (id, region) ON good TO {}").format(sql.Identifier(name))
            )
        whole = one(check_source(url, tables=["public.good"]), "select")
        assert whole.what.endswith("may not read secret")
        without = config(url, tables=["public.good"], leave_out=["public.good.secret"])
        assert not of(check_source(url, config=without), "select")


def test_rows_hidden_by_a_policy_are_found(database: str) -> None:
    with role(database) as (name, url):
        who = sql.Identifier(name)
        run(database, "CREATE TABLE t (id int PRIMARY KEY)")
        run(database, "ALTER TABLE t ENABLE ROW LEVEL SECURITY")
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute(sql.SQL("GRANT SELECT ON t TO {}").format(who))
        assert one(check_source(url, tables=["public.t"]), "row-security").object == "public.t"
        assert not of(check_source(database, tables=["public.t"]), "row-security")


def test_a_schema_that_may_not_be_used_is_found(database: str) -> None:
    run(database, "CREATE SCHEMA closed", "CREATE TABLE closed.t (id int PRIMARY KEY)")
    with role(database) as (_, url):
        found = check_source(url, tables=["closed.*"])
        assert "GRANT USAGE ON SCHEMA closed" in one(found, "schema-usage").hint


# --- the tables ---------------------------------------------------------------------------------


def test_every_sort_of_table_has_its_finding(shop: str) -> None:
    found = check_source(shop, tables=["*.*"])
    by_object = {f.object: (f.severity.value, f.code) for f in found if f.object[:6] == "public"}
    assert by_object == {
        "public.keyless": ("error", "no-identity"),
        "public.whole": ("warning", "no-key"),
        "public.silent": ("error", "no-identity"),
        "public.unlogged": ("error", "unlogged"),
        "public.a_view": ("warning", "not-a-table"),
        "public.a_copy": ("warning", "not-a-table"),
    }
    assert "REPLICA IDENTITY FULL" in next(f.hint for f in found if f.object == "public.keyless")
    assert one(found, "tables").what == "3 of 7 chosen tables are well"


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("public.a_view", "not-a-table"),
        ("public.a_copy", "not-a-table"),
        ("public.parts_1", "partition"),
        ("public.missing", "no-table"),
        ("publik.*", "no-table"),
        ("orders", "selection"),
        ("lockgate.own", "selection"),
    ],
)
def test_what_was_asked_for_and_cannot_be_is_an_error(shop: str, pattern: str, code: str) -> None:
    assert one(check_source(shop, tables=[pattern]), code).severity is Severity.ERROR


def test_a_configuration_that_does_not_fit_the_tables_is_found(shop: str) -> None:
    bad = config(shop, tables=["public.good"], masks={"public.good.id": "hash"})
    finding = one(check_source(shop, config=bad), "selection")
    assert finding.object == "public.good.id"


# --- row filters --------------------------------------------------------------------------------


def filtered(url: str, table: str, condition: str) -> Finding:
    chosen = config(url, tables=[table], rows={table: condition})
    return one(check_source(url, config=chosen), "row-filter")


def test_a_filter_by_the_key_is_well(shop: str, pg16: EmbeddedPostgres) -> None:
    assert filtered(shop, "public.good", "id > 7 AND id % 2 = 1").severity is Severity.OK
    with fresh_database(pg16) as url:
        run(url, "CREATE TABLE good (id int PRIMARY KEY)")
        assert filtered(url, "public.good", "id > 7").severity is Severity.OK


def test_a_filter_by_another_column_would_break_the_sources_updates(shop: str) -> None:
    finding = filtered(shop, "public.good", "region = 'eu'")
    assert finding.severity is Severity.ERROR
    assert "reads region" in finding.what
    assert filtered(shop, "public.whole", "a = 1").severity is Severity.OK


def test_a_filter_with_odd_names_is_tried_as_it_is(shop: str) -> None:
    table = f'public."{ODD.replace(chr(34), chr(34) * 2)}"'
    finding = filtered(shop, table, f'{table[7:]} = $q$ " ; -- ) %s $q$')
    assert (finding.severity, finding.object) == (Severity.ERROR, table)
    assert "reads" in finding.what


@pytest.mark.parametrize("condition", ["no_such_column = 1", "id > random()", "id", "id >"])
def test_a_filter_that_the_server_does_not_take_is_found(shop: str, condition: str) -> None:
    finding = filtered(shop, "public.good", condition)
    assert finding.severity is Severity.ERROR
    assert "does not take" in finding.what


# --- two addresses ------------------------------------------------------------------------------


def test_one_database_is_known_under_two_addresses(
    shop: str, database: str, pg16: EmbeddedPostgres
) -> None:
    here = PostgresUrl.parse(shop)
    assert same_database(here, PostgresUrl.parse(shop.replace("127.0.0.1", "localhost")))
    assert not same_database(here, PostgresUrl.parse(database))
    assert not same_database(here, PostgresUrl.parse(pg16.url()))
