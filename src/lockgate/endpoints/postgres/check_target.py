"""Looking at a target: can tables be made and written there, behind the fence."""

from collections.abc import Iterable, Iterator
from typing import Final

import psycopg

from lockgate.endpoints.postgres.check import Server, common, error, look, ok, warning
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import LockgateError
from lockgate.model.findings import Finding, from_error
from lockgate.model.secret import Secret
from lockgate.model.tables import TableName, quoted

__all__ = ["check_target"]

_OWN_SCHEMA: Final = "lockgate"

_SCHEMAS: Final = """
SELECT w.schema, n.oid IS NOT NULL,
       coalesce(has_schema_privilege(n.oid, 'CREATE'), false)
         AND coalesce(has_schema_privilege(n.oid, 'USAGE'), false)
FROM unnest(%s::text[]) AS w(schema)
LEFT JOIN pg_namespace n ON n.nspname = w.schema
ORDER BY 1
"""

_TABLES: Final = """
SELECT n.nspname::text, c.relname::text, c.relkind::text,
       ARRAY(SELECT p FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) AS p
             WHERE NOT has_table_privilege(c.oid, p)),
       pg_has_role(c.relowner, 'USAGE')
FROM unnest(%s::text[], %s::text[]) AS w(schema, name)
JOIN pg_namespace n ON n.nspname = w.schema
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
ORDER BY 1, 2
"""


def check_target(
    url: PostgresUrl | str | Secret, *, targets: Iterable[TableName] = ()
) -> list[Finding]:
    """Everything there is to say of an endpoint as a target, and of these tables there.

    Never raises for what the server says: an endpoint that cannot be reached is a finding.
    """
    url = PostgresUrl.parse(url)
    found: list[Finding] = []
    try:
        with connect(url, purpose="test") as connection:
            server = look(connection, url.label)
            found += common(connection, server, url)
            found += _server(connection, server)
            wanted = list(targets)
            found += _schemas(connection, server, wanted)
            found += _tables(connection, server, wanted)
    except LockgateError as failed:
        found.append(from_error(failed))
    return found


def _server(connection: psycopg.Connection, server: Server) -> Iterator[Finding]:
    label = server.label
    with faults(object_=label, operation="test"):
        row = connection.execute("SELECT current_setting('transaction_read_only')").fetchone()
        connection.rollback()
    if server.standby:
        yield error("writable", "the server is a standby", label, "name the primary in the URL")
    elif row == ("on",):
        hint = "ALTER ROLE … SET default_transaction_read_only = off; or look for a full disk"
        yield error("writable", "transactions are read-only here", label, hint)
    else:
        yield ok("writable", "the server takes writes", label)
    if server.encoding == "UTF8":
        yield ok("encoding", "the database has the encoding UTF8", label)
    else:
        yield error(
            "encoding",
            f"the database has the encoding {server.encoding}: not every text has a place in it",
            label,
            "make a database with ENCODING 'UTF8' TEMPLATE template0",
        )
    if server.may_make_temporary:
        yield ok("temporary", f"{server.role} may make temporary tables", label)
    else:
        yield error(
            "temporary",
            f"{server.role} may make no temporary tables, in which changes are staged",
            label,
            "GRANT TEMPORARY ON DATABASE … TO …",
        )
    if _may_silence_triggers(connection, server):
        what = "triggers and foreign keys can be switched off while changes are applied"
        yield ok("session-replication-role", what, label)
    else:
        yield warning(
            "session-replication-role",
            f"{server.role} may not set session_replication_role: triggers at the target fire, "
            "and foreign keys are checked, for replicated rows too",
            label,
            "GRANT SET ON PARAMETER session_replication_role TO …"
            if server.major >= 15
            else "before PostgreSQL 15 this needs a superuser",
        )


def _may_silence_triggers(connection: psycopg.Connection, server: Server) -> bool:
    with faults(object_=server.label, operation="test"):
        try:
            with connection.transaction(force_rollback=True):
                connection.execute("SET LOCAL session_replication_role = replica")
        except psycopg.errors.InsufficientPrivilege:
            return False
        finally:
            connection.rollback()
    return True


def _schemas(
    connection: psycopg.Connection, server: Server, wanted: list[TableName]
) -> Iterator[Finding]:
    names = sorted({_OWN_SCHEMA, *(table.schema for table in wanted)})
    with faults(object_=server.label, operation="test"):
        rows = connection.execute(_SCHEMAS, (names,)).fetchall()
        connection.rollback()
    for name, there, usable in rows:
        shown = quoted(name)
        if there and usable:
            yield ok("schema", f"{server.role} may make tables in it", shown)
        elif there:
            hint = f"GRANT USAGE, CREATE ON SCHEMA {shown} TO …"
            yield error("schema", f"{server.role} may make no tables in it", shown, hint)
        elif server.may_create:
            yield ok("schema", f"{server.role} may make it", shown)
        else:
            hint = f"GRANT CREATE ON DATABASE … TO …, or make the schema {shown} for the role"
            yield error("schema", f"{server.role} may not make it", shown, hint)


def _tables(
    connection: psycopg.Connection, server: Server, wanted: list[TableName]
) -> Iterator[Finding]:
    arrays = [table.schema for table in wanted], [table.name for table in wanted]
    with faults(object_=server.label, operation="test"):
        rows = connection.execute(_TABLES, arrays).fetchall()
        connection.rollback()
    for schema, name, kind, lacking, owned in rows:
        table = TableName(schema, name).id
        if kind not in {"r", "p"}:
            hint = "give the table another name at the target, by rename in the configuration"
            yield error("not-a-table", "something else has this name", table, hint)
            continue
        if lacking:
            hint = f"GRANT {', '.join(lacking)} ON {table} TO …"
            yield error("write", f"{server.role} lacks {', '.join(lacking)} on it", table, hint)
        if not owned:
            yield warning(
                "owner",
                f"{server.role} does not own it: schema changes cannot be applied to it",
                table,
                f"ALTER TABLE {table} OWNER TO …",
            )
        if not lacking and owned:
            yield ok("table", "it is there, and may be written", table)
