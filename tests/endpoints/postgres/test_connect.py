"""Connections to real servers: how they are set up, and what is said when there is none."""

import tempfile
import traceback
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.connect import TEXT_FORMS, application_name, connect
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import EndpointRefused, EndpointUnavailable, MissingPrivilege, UsageError
from tests.support.roles import role

ODD = "a'b\"c; DROP ROLE x--ü 漢\\"


def setting(connection: psycopg.Connection, name: str) -> str:
    found = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
    assert found is not None
    return str(found[0])


# --- how they are set up ------------------------------------------------------------------------


def test_text_forms_do_not_depend_on_defaults(database_of: str) -> None:
    name = PostgresUrl.parse(database_of).database
    with connect(database_of, purpose="test", autocommit=True) as admin:
        for key, value in {
            "TimeZone": "Asia/Tokyo",
            "DateStyle": "SQL, DMY",
            "IntervalStyle": "iso_8601",
            "extra_float_digits": "0",
            "bytea_output": "escape",
            "client_encoding": "LATIN1",
            "xmloption": "document",
        }.items():
            admin.execute(
                sql.SQL("ALTER DATABASE {} SET {} = {}").format(
                    sql.Identifier(name), sql.Identifier(key), sql.Literal(value)
                )
            )
    with connect(database_of, purpose="test") as connection:
        found = {key: setting(connection, key).replace(" ", "") for key in TEXT_FORMS}
        assert found == TEXT_FORMS
        assert setting(connection, "client_encoding") == "UTF8"
        assert setting(connection, "xmloption") == "content"
        connection.execute("RESET ALL")
        assert setting(connection, "TimeZone") == "UTC"


def test_a_connection_says_what_it_is_for(database: str) -> None:
    with connect(database, purpose="feed/span 7") as connection:
        assert setting(connection, "application_name") == "lockgate feed/span 7"
    with connect(database, purpose="ü" * 80 + "\n") as connection:
        assert setting(connection, "application_name") == application_name("ü" * 80 + "\n")
        assert len(setting(connection, "application_name")) == 63


def test_settings_of_a_session_may_hold_spaces_and_backslashes(database: str) -> None:
    options = {"search_path": 'public, "a b\\c"', "statement_timeout": "5s"}
    with connect(database, purpose="test", options=options) as connection:
        assert setting(connection, "search_path") == 'public, "a b\\c"'
        assert setting(connection, "statement_timeout") == "5s"


def test_options_of_the_url_come_through_and_text_forms_win(database: str) -> None:
    url = f"{database}?options=-c%20work_mem%3D7MB%20-c%20TimeZone%3DAsia/Tokyo"
    with connect(url, purpose="test") as connection:
        assert setting(connection, "work_mem") == "7MB"
        assert setting(connection, "TimeZone") == "UTC"


def test_a_policy_that_hides_rows_makes_reading_fail(database: str) -> None:
    with role(database) as (name, url):
        with connect(database, purpose="test") as admin:
            admin.execute("CREATE TABLE t AS SELECT 1 AS id")
            admin.execute("ALTER TABLE t ENABLE ROW LEVEL SECURITY")
            admin.execute(sql.SQL("GRANT SELECT ON t TO {}").format(sql.Identifier(name)))
        with (
            connect(url, purpose="test") as connection,
            pytest.raises(MissingPrivilege, match="row-level security"),
            faults(object_="t", operation="read"),
        ):
            connection.execute("SELECT * FROM t")


def test_a_backslash_in_a_literal_means_itself(database: str) -> None:
    name = PostgresUrl.parse(database).database
    with connect(database, purpose="test", autocommit=True) as admin:
        admin.execute(
            sql.SQL("ALTER DATABASE {} SET standard_conforming_strings = off").format(
                sql.Identifier(name)
            )
        )
    with connect(database, purpose="test") as connection:
        assert connection.execute(r"SELECT 'a\nb'").fetchone() == (r"a\nb",)


def test_a_dead_peer_is_noticed_by_the_kernel(database: str) -> None:
    with connect(f"{database}?keepalives_idle=77", purpose="test") as connection:
        said = connection.info.get_parameters()
    assert said["keepalives_idle"] == "77"
    assert {"keepalives_interval", "keepalives_count", "tcp_user_timeout"} <= said.keys()
    assert said["connect_timeout"] == "10"


def test_autocommit_is_asked_for(database: str) -> None:
    with connect(database, purpose="test") as connection:
        assert not connection.autocommit
    with connect(database, purpose="test", autocommit=True) as connection:
        assert connection.autocommit


def test_a_replication_connection_speaks_the_replication_protocol(database_of: str) -> None:
    with connect(database_of, purpose="test", replication=True) as connection:
        found = connection.execute("IDENTIFY_SYSTEM").fetchone()
        assert found is not None
        assert found[3] == PostgresUrl.parse(database_of).database


def test_roles_and_databases_with_odd_names_are_reached(pg18: EmbeddedPostgres) -> None:
    with connect(pg18.url(), purpose="test", autocommit=True) as admin:
        names = sql.Identifier(ODD)
        admin.execute(sql.SQL("CREATE DATABASE {}").format(names))
        admin.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(names, sql.Literal("p " + ODD))
        )
    try:
        odd = quote(ODD, safe="")
        url = f"postgres://{odd}:{quote('p ' + ODD, safe='')}@{pg18.host}:{pg18.port}/{odd}"
        with connect(url, purpose=ODD) as connection:
            found = connection.execute("SELECT current_user::text, current_database()::text")
            assert found.fetchone() == (ODD, ODD)
    finally:
        with connect(pg18.url(), purpose="test", autocommit=True) as admin:
            admin.execute(sql.SQL("DROP DATABASE {}").format(names))
            admin.execute(sql.SQL("DROP ROLE {}").format(names))


def test_a_unix_socket_is_a_host() -> None:
    with tempfile.TemporaryDirectory(prefix="lg") as place:  # short: socket paths are limited
        Path(place).chmod(0o777)
        settings = {"fsync": "off", "unix_socket_directories": place}
        with EmbeddedPostgres(settings=settings) as server:
            password = server.password.reveal()
            url = f"postgres://postgres:{password}@/postgres?host={place}&port={server.port}"
            with connect(url, purpose="test") as connection:
                assert connection.info.host == place


# --- when there is none -------------------------------------------------------------------------


def refused(url: str, **more: bool) -> EndpointRefused:
    with pytest.raises(EndpointRefused) as caught:
        connect(url, purpose="test", **more).close()
    assert caught.value.hint
    return caught.value


def test_a_wrong_password_is_final_and_shown_nowhere(pg18: EmbeddedPostgres) -> None:
    error = refused(pg18.url().replace(pg18.password.reveal(), "hunter2"))
    assert "credentials" in str(error)
    assert "hunter2" not in "".join(traceback.format_exception(error)) + repr(error.as_dict())
    assert error.object == PostgresUrl.parse(pg18.url()).label


def test_a_password_in_the_servers_words_is_masked(pg18: EmbeddedPostgres) -> None:
    # A password that is also the role's name comes back in the server's message.
    error = refused(f"postgres://hunter2:hunter2@{pg18.host}:{pg18.port}/postgres")
    assert error.__context__ is None
    assert "hunter2" not in "".join(traceback.format_exception(error))
    assert "***" in str(error)


def test_no_such_database_is_final(pg18: EmbeddedPostgres) -> None:
    assert "no such database" in str(refused(pg18.url("not_there")))


def test_a_role_that_may_not_replicate_is_told_so(database: str) -> None:
    with role(database) as (_, url):
        assert isinstance(refused(url, replication=True), MissingPrivilege)


def test_an_option_that_the_server_does_not_have_is_final(database: str) -> None:
    error = refused(f"{database}?options=-c%20no_such_setting%3D1")
    assert "option" in str(error)


def test_tls_that_the_server_does_not_speak_is_final(database: str) -> None:
    assert "TLS" in str(refused(f"{database}?sslmode=require"))


def test_a_server_that_is_down_may_come_back() -> None:
    with EmbeddedPostgres(settings={"fsync": "off"}) as server:
        server.stop()
        with pytest.raises(EndpointUnavailable) as caught:
            connect(server.url(), purpose="test")
        assert caught.value.object == PostgresUrl.parse(server.url()).label
        server.start()
        connect(server.url(), purpose="test").close()


def test_an_unknown_host_may_become_known() -> None:
    with pytest.raises(EndpointUnavailable, match="does not answer"):
        connect("postgres://u@no-such-host.invalid/db", purpose="test")


def test_a_full_server_may_have_room_later() -> None:
    settings = {
        "fsync": "off",
        "max_connections": 2,
        "superuser_reserved_connections": 0,
        "reserved_connections": 0,
        "autovacuum_worker_slots": 1,
        "max_wal_senders": 0,
    }
    with (
        EmbeddedPostgres(settings=settings) as server,
        connect(server.url(), purpose="one"),
        connect(server.url(), purpose="two"),
        pytest.raises(EndpointUnavailable, match="no room"),
    ):
        connect(server.url(), purpose="three")


def test_an_address_that_cannot_be_read_is_wrong_usage() -> None:
    with pytest.raises(UsageError):
        connect("postgres://db", purpose="test")
