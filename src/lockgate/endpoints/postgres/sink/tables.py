"""The schema `lockgate` of a target database, and how it comes to be.

    lockgate.feeds     one row per feed: its trigger's token and position, and the hold on it;
                       closed, its tombstone
    lockgate.progress  one row per span: token, floors, position, and the recorded batch
    lockgate.parts     the parts of a recorded batch, and which of them have landed
    lockgate.chunks    the chunks of an initial copy, and under which snapshot each has landed
    lockgate.schema_version   one row: which migrations have run

A metastore may live in the same schema; its tables have other names. Nothing here drops the
schema. Names compare by code point, so that rows are locked in one order whatever the database's
collation is. Rows of `progress` change all the time and never grow: room is left on each page to
change them in place, without touching the index.
"""

from collections.abc import Sequence
from typing import Final

import psycopg

from lockgate.endpoints.postgres.faults import fault
from lockgate.endpoints.postgres.sink.rows import Cursor
from lockgate.model.errors import EndpointRefused, MissingPrivilege, Terminal

__all__ = ["MIGRATIONS", "OLDEST_SERVER", "Migration", "prepare"]

Migration = Sequence[str]
"""The statements that take version n-1 to n. Written once and never changed."""

OLDEST_SERVER: Final = 14

MIGRATIONS: Final[tuple[Migration, ...]] = (
    (
        """
        CREATE TABLE lockgate.feeds (
            feed text COLLATE "C" PRIMARY KEY,
            epoch bigint NOT NULL,
            seq bigint NOT NULL,
            incarnation bigint NOT NULL,
            position bigint,
            closed boolean NOT NULL DEFAULT false
        )
        """,
        """
        CREATE TABLE lockgate.progress (
            feed text COLLATE "C",
            span text COLLATE "C",
            table_id text COLLATE "C" NOT NULL,
            low bytea NOT NULL,
            high bytea,
            epoch bigint NOT NULL,
            seq bigint NOT NULL,
            incarnation bigint NOT NULL,
            floors jsonb NOT NULL,
            position bigint NOT NULL,
            batch_to bigint,
            batch_parts integer,
            copy_run bigint NOT NULL DEFAULT 0,
            built boolean NOT NULL DEFAULT false,
            copied boolean NOT NULL DEFAULT false,
            PRIMARY KEY (feed, span),
            CHECK ((batch_to IS NULL) = (batch_parts IS NULL))
        ) WITH (fillfactor = 50)
        """,
        """
        CREATE TABLE lockgate.parts (
            feed text COLLATE "C",
            span text COLLATE "C",
            part integer,
            low bytea NOT NULL,
            high bytea,
            landed boolean NOT NULL DEFAULT false,
            PRIMARY KEY (feed, span, part)
        )
        """,
        """
        CREATE TABLE lockgate.chunks (
            feed text COLLATE "C",
            span text COLLATE "C",
            no integer,
            low text[],
            high text[],
            keys_low bytea NOT NULL,
            keys_high bytea,
            snapshot text,
            rows bigint NOT NULL DEFAULT 0,
            bytes bigint NOT NULL DEFAULT 0,
            done boolean NOT NULL DEFAULT false,
            PRIMARY KEY (feed, span, no),
            CHECK (done = (snapshot IS NOT NULL))
        )
        """,
    ),
    (
        """
        ALTER TABLE lockgate.feeds
            ADD COLUMN hold_id text,
            ADD COLUMN hold_upto bigint,
            ADD COLUMN hold_until timestamptz
        """,
    ),
)
"""MIGRATIONS[n - 1] makes version n."""

_LOCK: Final = 0x10C6_6A7E
"""The metastore's migration lock too: both make the schema, and one has to wait for the other."""


def prepare(cursor: Cursor, label: str, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring the schema to the newest version, in the caller's transaction.

    Any number of processes may do this at once. Where nothing is to be done, nothing is locked
    and no right to create anything is needed.
    """
    _check_server(cursor, label)
    version = _version(cursor, label)
    if version < len(migrations):
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        version = _version(cursor, label)
        _migrate(cursor, label, version, migrations)
    elif version > len(migrations):
        raise Terminal(
            "a newer Lockgate has prepared this target",
            object_=label,
            hint=f"use the newer one: version {version} is there, {len(migrations)} is known here",
            operation="prepare the target",
        )
    _check_rights(cursor, label)


def _check_server(cursor: Cursor, label: str) -> None:
    version = cursor.connection.info.server_version
    if version < OLDEST_SERVER * 10_000:
        raise EndpointRefused(
            f"PostgreSQL {version // 10_000} is too old",
            object_=label,
            hint=f"use PostgreSQL {OLDEST_SERVER} or newer",
            operation="prepare the target",
        )
    if _scalar(cursor, "SELECT pg_is_in_recovery()"):
        raise EndpointRefused(
            "the server takes no writes",
            object_=label,
            hint="a standby cannot be a target; name the primary in the URL",
            operation="prepare the target",
        )


def _version(cursor: Cursor, label: str) -> int:
    """The version that is there; 0 when there is none, and so nothing of ours.

    Asked of the catalog's tables: `to_regclass` and its like answer from a cache, which may not
    have heard yet what somebody made while we waited for them.
    """
    found = cursor.execute(
        "SELECT n.oid IS NOT NULL, has_schema_privilege(n.oid, 'USAGE'), c.oid IS NOT NULL "
        "FROM (VALUES (1)) AS one "
        "LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = 'lockgate' "
        "LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = 'schema_version'"
    ).fetchone()
    assert found is not None
    exists, usable, versioned = found
    if exists and not usable:
        raise _unprivileged(label, "USAGE, CREATE ON SCHEMA lockgate")
    if not versioned:
        return 0
    version = _scalar(cursor, "SELECT max(version) FROM lockgate.schema_version")
    return version if isinstance(version, int) else 0


def _scalar(cursor: Cursor, query: str) -> object:
    found = cursor.execute(query).fetchone()
    return None if found is None else found[0]


def _migrate(cursor: Cursor, label: str, version: int, migrations: Sequence[Migration]) -> None:
    try:
        if version == 0:
            cursor.execute("CREATE SCHEMA IF NOT EXISTS lockgate")
            cursor.execute(
                "CREATE TABLE lockgate.schema_version (one smallint PRIMARY KEY CHECK (one = 1), "
                "version integer NOT NULL)"
            )
            cursor.execute("INSERT INTO lockgate.schema_version VALUES (1, 0)")
        for number, statements in enumerate(migrations, start=1):
            if number > version:
                for statement in statements:
                    cursor.execute(statement)
                cursor.execute("UPDATE lockgate.schema_version SET version = %s", (number,))
    except psycopg.errors.InsufficientPrivilege as error:
        raise _unprivileged(label, "CREATE ON DATABASE (or ON SCHEMA lockgate)", error) from error
    except psycopg.errors.DuplicateTable as error:
        raise Terminal(
            "the schema lockgate holds tables that Lockgate did not make",
            object_=label,
            hint="give the target a database of its own, or rename those tables",
            operation="prepare the target",
            cause=str(error),
        ) from error
    except psycopg.Error as error:
        raise fault(error, object_=label, operation="prepare the target") from error


def _check_rights(cursor: Cursor, label: str) -> None:
    found = cursor.execute(
        "SELECT DISTINCT name FROM unnest(%s::text[]) AS name, unnest(%s::text[]) AS privilege "
        "WHERE NOT has_table_privilege('lockgate.' || name, privilege) ORDER BY name",
        (["feeds", "progress", "parts", "chunks"], ["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ).fetchall()
    if found:
        names = ", ".join(f"lockgate.{name}" for (name,) in found)
        raise _unprivileged(label, f"SELECT, INSERT, UPDATE, DELETE ON {names}")


def _unprivileged(label: str, what: str, cause: BaseException | None = None) -> MissingPrivilege:
    return MissingPrivilege(
        "the role may not keep Lockgate's tables in the target",
        object_=label,
        hint=f"as an owner of the database: GRANT {what} TO the role that the URL names",
        operation="prepare the target",
        cause=cause,
    )
