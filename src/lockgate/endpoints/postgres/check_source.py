"""Looking at a source: can its log be read, and the chosen tables be captured and copied."""

from collections.abc import Iterator, Sequence
from typing import Final

import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.check import Server, common, error, look, ok, warning
from lockgate.endpoints.postgres.check_tables import check_tables
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import EndpointUnavailable, LockgateError, MissingPrivilege
from lockgate.model.feed_config import WAL_STOP_BYTES, FeedConfig
from lockgate.model.findings import Finding, from_error
from lockgate.model.secret import Secret

__all__ = ["check_source"]

_LOG: Final = """
SELECT current_setting('wal_level'),
       current_setting('max_replication_slots')::int
         - (SELECT count(*) FROM pg_replication_slots)::int,
       current_setting('max_wal_senders')::int
         - (SELECT count(*) FROM pg_stat_replication)::int,
       (SELECT setting::int8 FROM pg_settings WHERE name = 'max_slot_wal_keep_size'),
       (SELECT setting::int8 FROM pg_settings WHERE name = 'idle_replication_slot_timeout')
"""
_MIB: Final = 2**20


def check_source(
    url: PostgresUrl | str | Secret,
    *,
    tables: Sequence[str] = (),
    config: FeedConfig | None = None,
) -> list[Finding]:
    """Everything there is to say of an endpoint as a source.

    Of its tables, those that `config` or the patterns `tables` choose; none without either.
    Never raises for what the server says: an endpoint that cannot be reached is a finding.
    """
    url = PostgresUrl.parse(url)
    found: list[Finding] = []
    try:
        with connect(url, purpose="test", options={"lock_timeout": "2s"}) as connection:
            server = look(connection, url.label)
            found += common(connection, server, url)
            found += _log(connection, server, config)
            found += _replication(url, server)
            found += _rights(connection, server)
            found += check_tables(connection, server, tables, config)
    except LockgateError as failed:
        found.append(from_error(failed))
    return found


def _log(
    connection: psycopg.Connection, server: Server, config: FeedConfig | None
) -> Iterator[Finding]:
    label = server.label
    if server.standby:
        yield error(
            "standby",
            "the server is a standby: publications and the log of schema changes need a primary",
            label,
            "name the primary in the URL",
        )
    if server.encoding == "SQL_ASCII":
        yield warning(
            "encoding",
            "the database has the encoding SQL_ASCII: a text in it need not be valid UTF-8",
            label,
            "a row with such a text stops its table; correct it, or leave the column out",
        )
    else:
        yield ok("encoding", f"the database has the encoding {server.encoding}", label)
    with faults(object_=label, operation="test"):
        row = connection.execute(_LOG).fetchone()
        connection.rollback()
    assert row is not None, "a query without FROM has a row"
    level, slots, senders, keep_mib, idle_s = row
    if level == "logical":
        yield ok("wal-level", "wal_level is logical", label)
    else:
        yield error(
            "wal-level",
            f"wal_level is {level}: the log does not say which rows were changed",
            label,
            "ALTER SYSTEM SET wal_level = logical, then restart the server "
            "(Amazon RDS: rds.logical_replication = 1)",
        )
    for code, left, name, setting in (
        ("slots", slots, "replication slots", "max_replication_slots"),
        ("wal-senders", senders, "WAL senders", "max_wal_senders"),
    ):
        if left > 0:
            yield ok(code, f"{left} {name} are left", label)
        else:
            hint = f"raise {setting} and restart the server, or drop what is not used any more"
            yield error(code, f"no {name} are left; a feed takes one", label, hint)
    yield from _limits(label, keep_mib, idle_s, config)


def _limits(
    label: str, keep_mib: int, idle_s: int | None, config: FeedConfig | None
) -> Iterator[Finding]:
    """Settings by which the server takes a feed's log away, or never does."""
    stop = config.wal_stop_bytes if config else WAL_STOP_BYTES
    if keep_mib < 0:
        yield warning(
            "slot-wal-limit",
            "max_slot_wal_keep_size is not set: while Lockgate does not run, the log of a feed "
            "can fill the server's disk",
            label,
            "set it to what the disk can spare: ALTER SYSTEM SET max_slot_wal_keep_size = '100GB'",
        )
    elif keep_mib * _MIB < stop:
        yield warning(
            "slot-wal-limit",
            f"max_slot_wal_keep_size is {keep_mib} MB, less than wal_stop_bytes of the feed: "
            "the server may take the log away before the feed stops by itself",
            label,
            "raise it, or lower wal_warn_bytes and wal_stop_bytes of the feed below it",
        )
    else:
        yield ok("slot-wal-limit", f"max_slot_wal_keep_size is {keep_mib} MB", label)
    if idle_s:
        yield warning(
            "slot-idle-timeout",
            f"idle_replication_slot_timeout is {idle_s} s: a feed that is stopped for longer "
            "has to be copied anew",
            label,
            "set it to 0, or longer than a feed may be stopped",
        )


def _replication(url: PostgresUrl, server: Server) -> Iterator[Finding]:
    """Hosted servers grant this by roles of their own, so it is tried."""
    try:
        with (
            connect(url, purpose="test", replication=True) as connection,
            faults(object_=server.label, operation="test"),
        ):
            connection.execute("IDENTIFY_SYSTEM")
        yield ok("replication", f"{server.role} may read the log", server.label)
    except MissingPrivilege:
        yield error(
            "replication",
            f"{server.role} may not read the log",
            server.label,
            "ALTER ROLE … REPLICATION (Amazon RDS: GRANT rds_replication TO …)",
        )
    except EndpointUnavailable as failed:
        yield error(
            "replication", f"the log cannot be read now: {failed}", server.label, failed.hint
        )
    except LockgateError as failed:
        hint = "see that pg_hba.conf lets this role in from here, also for replication"
        yield error("replication", f"the log cannot be read: {failed}", server.label, hint)


def _rights(connection: psycopg.Connection, server: Server) -> Iterator[Finding]:
    if server.may_create:
        yield ok("create", f"{server.role} may make schemas and publications", server.label)
    else:
        yield error(
            "create",
            f"{server.role} may make no publication, nor the schema `lockgate` for the log of "
            "schema changes",
            server.label,
            "GRANT CREATE ON DATABASE … TO …",
        )
    if _may_make_event_triggers(connection, server):
        yield ok("event-trigger", "schema changes can be logged as they happen", server.label)
    else:
        yield warning(
            "event-trigger",
            f"{server.role} may make no event trigger: changes of columns are seen with the next "
            "row that is changed, other schema changes are not seen",
            server.label,
            "let a superuser set the feed up, or make schema changes at the target by hand",
        )


def _may_make_event_triggers(connection: psycopg.Connection, server: Server) -> bool:
    name = sql.Identifier("lockgate_test")
    with faults(object_=server.label, operation="test"):
        try:
            with connection.transaction(force_rollback=True):
                connection.execute(
                    sql.SQL(
                        "CREATE FUNCTION pg_temp.{}() RETURNS event_trigger "
                        "LANGUAGE plpgsql AS 'BEGIN END'"
                    ).format(name)
                )
                connection.execute(
                    sql.SQL(
                        "CREATE EVENT TRIGGER {} ON ddl_command_end EXECUTE FUNCTION pg_temp.{}()"
                    ).format(name, name)
                )
        except psycopg.errors.InsufficientPrivilege:
            return False
    return True
