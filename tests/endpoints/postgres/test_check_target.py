"""Looking at real servers as targets: each finding is brought about for real."""

from collections.abc import Iterable

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.check_target import check_target
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.findings import Finding, Severity, worst
from lockgate.model.tables import TableName
from tests.support.roles import role

ODD = TableName('s"; --ü', 't"; DROP TABLE %s;')


def one(findings: Iterable[Finding], code: str, object_: str = "") -> Finding:
    found = [f for f in findings if f.code == code and (not object_ or f.object == object_)]
    assert len(found) == 1, (code, found)
    return found[0]


def run(url: str, *statements: str, who: str = "") -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        for statement in statements:
            admin.execute(
                sql.SQL(statement).format(  # type: ignore[arg-type]
                    who=sql.Identifier(who or "postgres"),
                    db=sql.Identifier(PostgresUrl.parse(url).database),
                    schema=sql.Identifier(ODD.schema),
                    table=sql.Identifier(ODD.schema, ODD.name),
                )
            )


def test_a_superuser_finds_all_well(database_of: str) -> None:
    found = check_target(database_of, targets=[TableName("public", "t"), ODD])
    assert worst(found) is Severity.OK
    codes = {f.code for f in found}
    assert {"writable", "encoding", "temporary", "session-replication-role", "schema"} <= codes
    assert one(found, "schema", '"s""; --ü"').what == "postgres may make it"
    assert one(found, "schema", "lockgate").what == "postgres may make it"


def test_nothing_is_left_behind(database: str) -> None:
    check_target(database, targets=[ODD])
    with psycopg.connect(database) as admin:
        query = "SELECT count(*) FROM pg_namespace WHERE nspname IN ('lockgate', %s)"
        assert admin.execute(query, (ODD.schema,)).fetchone() == (0,)


def test_a_role_without_privileges_is_told_what_it_lacks(database: str) -> None:
    run(database, "REVOKE TEMPORARY ON DATABASE {db} FROM PUBLIC", "CREATE SCHEMA {schema}")
    with role(database) as (name, url):
        found = check_target(url, targets=[ODD, TableName("fresh", "t")])
        assert one(found, "schema", '"s""; --ü"').what == f"{name} may make no tables in it"
        assert one(found, "schema", "lockgate").what == f"{name} may not make it"
        assert one(found, "schema", "fresh").severity is Severity.ERROR
        assert one(found, "temporary").severity is Severity.ERROR
        assert one(found, "session-replication-role").severity is Severity.WARNING


def test_the_grants_that_the_hints_name_are_enough(database: str) -> None:
    with role(database) as (name, url):
        run(
            database,
            "GRANT CREATE ON DATABASE {db} TO {who}",
            "GRANT SET ON PARAMETER session_replication_role TO {who}",
            who=name,
        )
        assert worst(check_target(url, targets=[TableName("fresh", "t")])) is Severity.OK
        run(database, "REVOKE ALL ON PARAMETER session_replication_role FROM {who}", who=name)


def test_tables_that_are_there_are_looked_at(database: str) -> None:
    run(
        database,
        "CREATE SCHEMA {schema}",
        "CREATE TABLE {table} (id int)",
        "CREATE VIEW {schema}.v AS SELECT 1 AS x",
        "CREATE TABLE {schema}.mine (id int)",
    )
    targets = [ODD, TableName(ODD.schema, "v"), TableName(ODD.schema, "mine")]
    with role(database) as (name, url):
        run(
            database,
            "GRANT USAGE, CREATE ON SCHEMA {schema} TO {who}",
            "GRANT SELECT, INSERT ON {table} TO {who}",
            "ALTER TABLE {schema}.mine OWNER TO {who}",
            who=name,
        )
        found = check_target(url, targets=targets)
        assert one(found, "write").object == ODD.id
        assert "GRANT UPDATE, DELETE, TRUNCATE ON" in one(found, "write").hint
        assert one(found, "owner").severity is Severity.WARNING
        assert one(found, "not-a-table").object == TableName(ODD.schema, "v").id
        assert one(found, "table").object == TableName(ODD.schema, "mine").id


def test_a_database_that_takes_no_writes_is_found(pg18: EmbeddedPostgres, database: str) -> None:
    run(database, "ALTER DATABASE {db} SET default_transaction_read_only = on")
    assert one(check_target(database), "writable").severity is Severity.ERROR


def test_a_database_in_another_encoding_is_refused(pg18: EmbeddedPostgres) -> None:
    run(pg18.url(), "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    try:
        found = one(check_target(pg18.url("latin")), "encoding")
        assert (found.severity, "LATIN1" in found.what) == (Severity.ERROR, True)
    finally:
        run(pg18.url(), "DROP DATABASE latin")


@pytest.mark.parametrize("url", ["postgres://u:hunter2@127.0.0.1:1/db"])
def test_a_server_that_is_not_there_is_a_finding(url: str) -> None:
    found = check_target(url)
    assert [(f.severity, f.code) for f in found] == [(Severity.ERROR, "endpoint-unavailable")]
    assert "hunter2" not in str(found)
