"""Looking at an endpoint before anybody relies on it: `lockgate endpoint test`.

    check_source.py    can its tables be captured and copied
    check_target.py    can tables be made and written there
    here               what both sides ask, and whether two addresses lead to one place

Every thing that is looked at becomes a finding, the good ones too: people see what was checked.
What cannot be read off the catalog for certain, because hosted servers have rules of their own,
is tried: in a transaction that is rolled back, or on a connection that only says hello.
Nothing is left behind.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import psycopg

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.findings import Finding, Severity

__all__ = ["VERSIONS", "Server", "common", "error", "look", "ok", "same_database", "warning"]

VERSIONS: Final = range(14, 19)
"""What Lockgate is made for."""

_LOCAL: Final = ("127.", "::1", "localhost", "/")
_CONNECTIONS_MIN: Final = 8
"""What a feed may need at once at one end: capture, copy and apply tasks, a look now and then."""

_SERVER: Final = """
SELECT current_user::text, r.rolsuper, pg_is_in_recovery(), pg_encoding_to_char(d.encoding)::text,
       has_database_privilege(d.oid, 'CREATE'), has_database_privilege(d.oid, 'TEMP'),
       current_setting('max_connections')::int
         - current_setting('superuser_reserved_connections')::int
         - (SELECT sum(numbackends) FROM pg_stat_database)::int
FROM pg_database d, pg_roles r
WHERE d.datname = current_database() AND r.rolname = current_user
"""


class Server(NamedTuple):
    """What both sides ask first."""

    label: str
    major: int
    role: str
    superuser: bool
    standby: bool
    encoding: str
    may_create: bool
    may_make_temporary: bool
    connections_left: int


def ok(code: str, what: str, object_: str) -> Finding:
    return Finding(Severity.OK, code, what, object_)


def warning(code: str, what: str, object_: str, hint: str) -> Finding:
    return Finding(Severity.WARNING, code, what, object_, hint)


def error(code: str, what: str, object_: str, hint: str) -> Finding:
    return Finding(Severity.ERROR, code, what, object_, hint)


def look(connection: psycopg.Connection, label: str) -> Server:
    """The server, as the connection's role sees it."""
    with faults(object_=label, operation="test"):
        row = connection.execute(_SERVER).fetchone()
        connection.rollback()
    assert row is not None, "a session has a database and a role"
    return Server(label, connection.info.server_version // 10_000, *row)


def common(connection: psycopg.Connection, server: Server, url: PostgresUrl) -> Iterable[Finding]:
    """What is looked at on either side."""
    label = server.label
    yield ok("connected", f"connected as {server.role}", label)
    yield _encryption(connection, label, url)
    if server.major in VERSIONS:
        yield ok("version", f"PostgreSQL {server.major}", label)
    elif server.major < VERSIONS[0]:
        yield error(
            "version",
            f"PostgreSQL {server.major} is too old",
            label,
            f"use {VERSIONS[0]} to {VERSIONS[-1]}",
        )
    else:
        yield warning(
            "version",
            f"PostgreSQL {server.major} is newer than what Lockgate was tried with",
            label,
            f"{VERSIONS[0]} to {VERSIONS[-1]} are known to work",
        )
    if server.connections_left < _CONNECTIONS_MIN:
        yield warning(
            "connections",
            f"the server has room for {max(0, server.connections_left)} more connections",
            label,
            f"a feed may need {_CONNECTIONS_MIN} at once; raise max_connections",
        )


def _encryption(connection: psycopg.Connection, label: str, url: PostgresUrl) -> Finding:
    host = url.parameters().get("host", "")
    if connection.pgconn.ssl_in_use:
        return ok("encryption", "the connection is encrypted", label)
    if host.startswith(_LOCAL):
        return ok("encryption", "the connection stays on this machine", label)
    return warning(
        "encryption",
        "the connection is not encrypted: rows can be read on their way",
        label,
        "add sslmode=verify-full&sslrootcert=… to the URL",
    )


def same_database(one: PostgresUrl, other: PostgresUrl) -> bool:
    """True when both addresses lead to one database, under whatever names."""
    return _identity(one) == _identity(other)


def _identity(url: PostgresUrl) -> tuple[str, int]:
    # Not the system identifier: a server that was restored from a disk's snapshot has its
    # original's. No two servers started in the same microsecond.
    query = (
        "SELECT pg_postmaster_start_time()::text, d.oid FROM pg_database d "
        "WHERE d.datname = current_database()"
    )
    with (
        connect(url, purpose="test", autocommit=True) as connection,
        faults(object_=url.label, operation="test"),
    ):
        row = connection.execute(query).fetchone()
    assert row is not None, "a session has a database"
    return row[0], row[1]
