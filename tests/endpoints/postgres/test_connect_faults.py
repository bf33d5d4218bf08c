"""What errors of a running session mean: each one made by a real server."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.faults import fault, faults
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import (
    DataRefused,
    EndpointBusy,
    EndpointRefused,
    EndpointUnavailable,
    LockgateError,
    MissingPrivilege,
    ObjectMissing,
    OutcomeUnknown,
    StorageFull,
    Terminal,
)
from tests.support.databases import fresh_database
from tests.support.proxy import FaultProxy

ODD = 'od"d; Tablé'


@pytest.fixture(scope="module")
def database(pg18: EmbeddedPostgres) -> Iterator[str]:
    with fresh_database(pg18) as url:
        yield url


@pytest.fixture
def session(database: str) -> Iterator[psycopg.Connection]:
    with connect(database, purpose="test", autocommit=True) as connection:
        connection.execute(
            sql.SQL(
                "CREATE TABLE {} (id int PRIMARY KEY, n smallint NOT NULL DEFAULT 0 CHECK (n < 9))"
            ).format(sql.Identifier(ODD))
        )
        connection.execute(sql.SQL("INSERT INTO {} VALUES (1)").format(sql.Identifier(ODD)))
        yield connection
    with connect(database, purpose="test", autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        connection.execute("GRANT USAGE ON SCHEMA public TO PUBLIC")


def raised(connection: psycopg.Connection, statement: str) -> LockgateError:
    query = sql.SQL(statement).format(t=sql.Identifier(ODD))  # type: ignore[arg-type]
    with (
        pytest.raises(LockgateError) as caught,
        faults(object_="public.orders", operation="apply"),
    ):
        connection.execute(query)
    assert caught.value.hint
    assert caught.value.operation == "apply"
    assert isinstance(caught.value.__cause__, psycopg.Error)
    return caught.value


@pytest.mark.parametrize(
    ("statement", "constraint", "column", "detail"),
    [
        ("INSERT INTO {t} VALUES (1)", f"{ODD}_pkey", "", "Key (id)=(1) already exists."),
        ("INSERT INTO {t} VALUES (2, 9)", f"{ODD}_n_check", "", "Failing row contains (2, 9)."),
        ("INSERT INTO {t} VALUES (3, NULL)", "", "n", "Failing row contains (3, null)."),
    ],
)
def test_a_row_that_breaks_a_constraint_is_named(
    session: psycopg.Connection, statement: str, constraint: str, column: str, detail: str
) -> None:
    error = raised(session, statement)
    assert isinstance(error, DataRefused)
    assert (error.constraint, error.column, error.detail) == (constraint, column, detail)
    assert error.table == 'public."od""d; Tablé"'
    assert error.as_dict()["detail"] == detail
    assert str(error).endswith(f"; {detail}")


@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO {t} VALUES (4, 70000)", "INSERT INTO {t} VALUES (('x' || 5)::int)", "SELECT 1/0"],
)
def test_a_value_that_does_not_fit_is_the_datas_fault(
    session: psycopg.Connection, statement: str
) -> None:
    assert isinstance(raised(session, statement), DataRefused)


def test_a_value_that_a_copy_cannot_read_has_a_place(session: psycopg.Connection) -> None:
    query = sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(ODD))
    with (
        pytest.raises(DataRefused) as caught,
        faults(object_="x", operation="y"),
        session.cursor().copy(query) as copy,
    ):
        copy.write("5\t1\n6\tmany\n")
    assert caught.value.detail == f'COPY {ODD}, line 2, column n: "many"'


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM not_there",
        "SELECT not_there FROM {t}",
        "SELECT pg_drop_replication_slot('not_there')",
        "ALTER PUBLICATION not_there ADD TABLE {t}",
        "CREATE TABLE not_there.t ()",
    ],
)
def test_what_is_gone_is_said_to_be_missing(session: psycopg.Connection, statement: str) -> None:
    assert isinstance(raised(session, statement), ObjectMissing)


def test_a_missing_privilege_names_what_it_is_on(session: psycopg.Connection) -> None:
    session.execute("SET ROLE pg_monitor")
    error = raised(session, "SELECT * FROM {t}")
    assert isinstance(error, MissingPrivilege)
    assert error.object == f"table {ODD}, public.orders"
    error = raised(session, "DROP TABLE {t}")
    assert isinstance(error, MissingPrivilege)
    assert error.object == f"table {ODD}, public.orders"
    assert isinstance(raised(session, "CREATE TABLE pg_catalog.x ()"), MissingPrivilege)


def test_a_read_only_session_takes_no_writes(session: psycopg.Connection) -> None:
    session.execute("SET default_transaction_read_only = on")
    error = raised(session, "INSERT INTO {t} VALUES (9)")
    assert isinstance(error, EndpointRefused)
    assert "no writes" in str(error)


def test_a_lock_that_is_held_may_be_free_later(session: psycopg.Connection, database: str) -> None:
    with connect(database, purpose="other") as other:
        other.execute(sql.SQL("LOCK TABLE {}").format(sql.Identifier(ODD)))
        session.execute("SET lock_timeout = '10ms'")
        assert isinstance(raised(session, "SELECT * FROM {t}"), EndpointBusy)
        session.execute("SET lock_timeout = 0; SET statement_timeout = '10ms'")
        assert isinstance(raised(session, "SELECT * FROM {t}"), EndpointBusy)


def test_a_lost_race_may_be_won_later(session: psycopg.Connection, database: str) -> None:
    table = sql.Identifier(ODD)
    with connect(database, purpose="other") as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute(sql.SQL("SELECT * FROM {}").format(table))
        session.execute(sql.SQL("UPDATE {} SET n = 1").format(table))
        assert isinstance(raised(other, "UPDATE {t} SET n = 2"), EndpointBusy)


def test_a_session_that_was_ended_may_be_opened_again(
    session: psycopg.Connection, database: str
) -> None:
    with connect(database, purpose="other", autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (session.info.backend_pid,))
    assert isinstance(raised(session, "SELECT 1"), EndpointUnavailable)
    assert isinstance(raised(session, "SELECT 1"), EndpointUnavailable)


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ("53100", StorageFull),
        ("53200", EndpointUnavailable),
        ("40P01", EndpointBusy),
        ("57P03", EndpointUnavailable),
        ("08006", EndpointUnavailable),
        ("XX001", Terminal),
        ("58030", Terminal),
        ("0A000", Terminal),
        ("55006", EndpointBusy),
    ],
)
def test_states_that_are_hard_to_bring_about(
    session: psycopg.Connection, state: str, error: type[LockgateError]
) -> None:
    found = raised(session, f"DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{state}'; END $$")
    assert type(found) is error


def test_a_mistake_in_calling_the_driver_is_not_tried_again(session: psycopg.Connection) -> None:
    with pytest.raises(psycopg.ProgrammingError) as caught:
        session.execute("CREATE TABLE x ()").fetchone()
    assert type(fault(caught.value, object_="x")) is Terminal


def test_what_is_not_the_drivers_passes_untouched() -> None:
    with pytest.raises(ZeroDivisionError), faults(object_="x", operation="y"):
        raise ZeroDivisionError


# --- commits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("forward", [True, False])
def test_a_connection_lost_in_a_commit_leaves_the_outcome_open(
    session: psycopg.Connection, database: str, forward: bool
) -> None:
    url = PostgresUrl.parse(database)
    with FaultProxy(url.host, int(url.port)) as proxy:
        through = database.replace(f":{url.port}/", f":{proxy.port}/")
        connection = connect(through, purpose="test")
        connection.execute(sql.SQL("INSERT INTO {} VALUES (2)").format(sql.Identifier(ODD)))
        proxy.cut_at(b"COMMIT", forward=forward)
        with pytest.raises(OutcomeUnknown), faults(object_="x", operation="y", committing=True):
            connection.commit()
        connection.close()


def test_a_commit_that_the_server_rolled_back_is_not_open(
    session: psycopg.Connection, database: str
) -> None:
    session.execute("CREATE TABLE once (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    with connect(database, purpose="test") as connection:
        connection.execute("INSERT INTO once VALUES (1), (1)")
        with pytest.raises(DataRefused), faults(object_="x", operation="y", committing=True):
            connection.commit()
        connection.rollback()
