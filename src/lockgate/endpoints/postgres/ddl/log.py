"""The log of schema changes at a source: put there, used by feeds, taken away.

    lockgate.ddl_log        what happened; travels in the stream of every feed
    lockgate.ddl_captures   the feeds, by publication, and the patterns of their tables
    lockgate.ddl_tables     watched tables as they were described last
    lockgate.ddl_identities tables that had no key and tell whole rows because of it
    lockgate.ddl_version    which version of all this is there
    event triggers          lockgate_ddl_end, lockgate_ddl_drop, lockgate_ddl_rewrite
    triggers                on partitions, for a TRUNCATE of one alone

Rows of the log are written in the very transaction of the DDL, so they arrive in order with the
rows of the tables. A new table that a feed's patterns match is put into the feed's publication by
the trigger, in that transaction too: its first row is captured.

Feeds of one source share the log. Each is known by its publication, which is its own alone: feeds
of two installations may bear one name, and so may a feed that was removed and the next one. The
last one that goes takes everything with it; what else lives in the schema (a metastore, the
progress of feeds that end here) is not touched. Who comes and who goes take turns.

Event triggers take a superuser (or what a provider has in its place). Without one there is no
log, and schema changes are taken from the stream's descriptions of tables.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import psycopg
from psycopg import errors, sql
from psycopg.types.json import Jsonb

from lockgate.endpoints.postgres.ddl.functions import TABLES, VERSION
from lockgate.endpoints.postgres.ddl.triggers import FUNCTIONS, TRIGGERS
from lockgate.endpoints.postgres.faults import faults
from lockgate.model.errors import MissingPrivilege, UsageError
from lockgate.model.ids import FeedId
from lockgate.model.patterns import parse_pattern
from lockgate.model.tables import TableName

__all__ = [
    "DDL_LOG",
    "add_capture",
    "install",
    "installed_version",
    "remains",
    "remove_capture",
    "remove_unused",
    "stragglers",
    "trim",
]

DDL_LOG: Final = TableName("lockgate", "ddl_log")
"""The table whose inserts are schema changes. Its deletes mean nothing."""

_TABLES: Final = (
    "lockgate.ddl_log, lockgate.ddl_captures, lockgate.ddl_tables, lockgate.ddl_identities, "
    "lockgate.ddl_version"
)

_LOCK_TIMEOUT: Final = "2s"

_LOCK: Final = 0x6C6F636B
"""Installing and removing take turns, by an advisory lock of this number."""


def installed_version(connection: psycopg.Connection) -> int | None:
    """The version of the log that is there; None when there is none."""
    with faults(object_=_label(connection), operation="look for the DDL log"):
        found = connection.execute("SELECT to_regclass('lockgate.ddl_version')").fetchone()
        if found is None or found[0] is None:
            return None
        row = connection.execute("SELECT max(version) FROM lockgate.ddl_version").fetchone()
        return row[0] if row else None


def install(connection: psycopg.Connection) -> int:
    """Have the log, of this version or a newer one that is there; answer which.

    Raises MissingPrivilege, and leaves nothing, where the role may not have event triggers.
    """
    try:
        with (
            faults(object_=_label(connection), operation="install the DDL log"),
            connection.transaction(),
        ):
            return _install(connection)
    except MissingPrivilege as error:
        raise MissingPrivilege(
            "schema changes cannot be logged at the source: the role may not have event triggers",
            object_=error.object,
            hint="let a superuser set the feed up, or go on without: column changes are then "
            "taken from the stream, and new tables are not noticed",
            operation=error.operation,
            cause=error.cause,
        ) from error


def _install(connection: psycopg.Connection) -> int:
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    now = installed_version(connection)
    if now is not None and now > VERSION:
        return now
    named = now is not None and _is_by_name(connection)
    if now == VERSION and not named and _whole() <= set(remains(connection)):
        return now
    row = connection.execute("SELECT to_regnamespace('lockgate') IS NULL").fetchone()
    made = bool(row and row[0])
    script = [
        # Whoever may not do this shall fail here, before anything else is tried.
        *(f"DROP EVENT TRIGGER IF EXISTS {name}" for name in TRIGGERS),
        *(["CREATE SCHEMA lockgate"] if made else []),
        *TABLES,
        *([_BY_PUBLICATION] if named else []),
        f"REVOKE ALL ON {_TABLES} FROM PUBLIC",
        *FUNCTIONS.values(),
        *(f"REVOKE ALL ON FUNCTION lockgate.{signature} FROM PUBLIC" for signature in FUNCTIONS),
        *TRIGGERS.values(),
        # Also for sessions that play a replica: their DDL changes tables like any other.
        *(f"ALTER EVENT TRIGGER {name} ENABLE ALWAYS" for name in TRIGGERS),
    ]
    connection.execute(";\n".join(script))
    if now is None:
        connection.execute("INSERT INTO lockgate.ddl_version VALUES (%s, %s)", (VERSION, made))
    else:
        connection.execute("UPDATE lockgate.ddl_version SET version = %s", (VERSION,))
    return VERSION


_BY_PUBLICATION: Final = (
    "ALTER TABLE lockgate.ddl_captures DROP CONSTRAINT ddl_captures_pkey, "
    'ALTER COLUMN publication TYPE text COLLATE "C", ADD PRIMARY KEY (publication)'
)


def _is_by_name(connection: psycopg.Connection) -> bool:
    """Feeds were told apart by their names alone, once."""
    row = connection.execute(
        "SELECT EXISTS (SELECT FROM pg_index i JOIN pg_attribute a "
        "ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] WHERE i.indisprimary "
        "AND i.indrelid = to_regclass('lockgate.ddl_captures') AND a.attname = 'feed')"
    ).fetchone()
    return bool(row and row[0])


def _whole() -> set[str]:
    functions = {f"function {signature.partition('(')[0]}" for signature in FUNCTIONS}
    tables = {f"table {name.strip().removeprefix('lockgate.')}" for name in _TABLES.split(",")}
    return functions | tables | {f"event trigger {name}" for name in TRIGGERS}


# --- feeds --------------------------------------------------------------------------------------


def add_capture(
    connection: psycopg.Connection,
    feed: FeedId,
    publication: str,
    tables: Sequence[str],
    rows: Mapping[str, str] | None = None,
) -> None:
    """Have the changes of the publication's tables logged, and new tables added to it.

    `tables` are the feed's patterns, `rows` its row filters by pattern. The publication is there,
    and gets the log's table. Do this in the transaction that made the publication: until it
    ends nobody can alter the tables that are in it, and nobody who leaves takes the log away.
    """
    patterns = {
        "tables": [[*_regexes(text), parse_pattern(text).leaves_out] for text in tables],
        "rows": [[*_regexes(text), where] for text, where in (rows or {}).items()],
    }
    with (
        faults(object_=f"{publication}, {_label(connection)}", operation="capture schema changes"),
        connection.transaction(),
    ):
        # The last feed may have gone, with everything, since the log was installed for this one.
        _install(connection)
        connection.execute(
            "INSERT INTO lockgate.ddl_captures VALUES (%s, %s, %s) ON CONFLICT (publication) "
            "DO UPDATE SET feed = excluded.feed, patterns = excluded.patterns",
            (feed, publication, Jsonb(patterns)),
        )
        published = connection.execute(
            "SELECT lockgate.ddl_published(%s, 'lockgate.ddl_log'::regclass)", (publication,)
        ).fetchone()
        if not (published and published[0]):
            connection.execute(
                sql.SQL("ALTER PUBLICATION {} ADD TABLE lockgate.ddl_log").format(
                    sql.Identifier(publication)
                )
            )
        connection.execute(_FORGET)
        # Partitions get a trigger. Who writes to them for long is not waited for with everybody
        # else behind: the set-up is tried again.
        connection.execute("SELECT set_config('lock_timeout', %s, true)", (_LOCK_TIMEOUT,))
        connection.execute(_WATCH_NEW)


_PUBLISHED: Final = """
    SELECT r.prrelid FROM lockgate.ddl_captures c
    JOIN pg_publication p ON p.pubname = c.publication
    JOIN pg_publication_rel r ON r.prpubid = p.oid
    WHERE r.prrelid IS DISTINCT FROM to_regclass('lockgate.ddl_log')
"""
_FORGET: Final = f"DELETE FROM lockgate.ddl_tables WHERE root NOT IN ({_PUBLISHED})"
_WATCH_NEW: Final = f"""
SELECT lockgate.ddl_watch(d) FROM lockgate.ddl_describe(ARRAY(
    SELECT prrelid FROM ({_PUBLISHED}) AS p
    WHERE prrelid NOT IN (SELECT oid FROM lockgate.ddl_tables))) AS d
"""


def stragglers(connection: psycopg.Connection, publication: str) -> list[TableName]:
    """Tables that a feed's patterns match and its publication does not have.

    A transaction that was running when the capture was added did not see it. Look once the slot
    is made, which waits for such transactions.
    """
    with faults(object_=_label(connection), operation="look for tables"):
        found = connection.execute(
            "SELECT n.nspname, r.relname FROM lockgate.ddl_captures c, pg_class r "
            "JOIN pg_namespace n ON n.oid = r.relnamespace "
            "WHERE c.publication = %s AND r.relkind IN ('r', 'p') AND NOT r.relispartition "
            "AND r.relpersistence = 'p' AND n.nspname !~ '^pg_' "
            "AND n.nspname NOT IN ('information_schema', 'lockgate') "
            "AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass "
            "AND d.objid = r.oid AND d.deptype = 'e') "
            "AND NOT lockgate.ddl_published(c.publication, r.oid) "
            "AND lockgate.ddl_matches(c.patterns, n.nspname, r.relname) ORDER BY 1, 2",
            (publication,),
        )
        return [TableName(*row) for row in found]


def remove_capture(connection: psycopg.Connection, publication: str) -> bool:
    """Log nothing for this publication's feed any more. True when it was the last one, and the log
    is gone.

    The publication should be gone before, or is left with an empty log in it.
    """
    label = _label(connection)
    with faults(object_=label, operation="remove the DDL log"), connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        if installed_version(connection) is None:
            _remove(connection)
            return True
        connection.execute(
            "DELETE FROM lockgate.ddl_captures WHERE publication = %s", (publication,)
        )
        row = connection.execute("SELECT count(*) FROM lockgate.ddl_captures").fetchone()
        connection.execute(_FORGET)
        _let_go(connection, _SILENT_ONCE, "ALTER TABLE {} REPLICA IDENTITY DEFAULT")
        connection.execute(
            "DELETE FROM lockgate.ddl_identities i USING pg_class c "
            "WHERE c.oid = i.oid AND c.relreplident = 'd'"
        )
        if row and row[0]:
            for name in _GUARDS:
                _let_go(connection, _UNGUARDED, f"DROP TRIGGER {name} ON {{}}", name)
            return False
        _remove(connection)
        return True


def remove_unused(connection: psycopg.Connection) -> bool:
    """Take the log away if it was installed for a feed that never came. False: somebody reads it,
    or there is none."""
    label = _label(connection)
    with faults(object_=label, operation="remove the DDL log"), connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        if installed_version(connection) is None:
            return False
        row = connection.execute("SELECT EXISTS (SELECT FROM lockgate.ddl_captures)").fetchone()
        if row == (True,):
            return False
        _remove(connection)
        return True


_SILENT_ONCE: Final = """
SELECT n.nspname, c.relname FROM lockgate.ddl_identities i
JOIN pg_class c ON c.oid = i.oid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relreplident = 'f' AND NOT EXISTS (
    SELECT FROM pg_publication p LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid
    WHERE p.puballtables OR r.prrelid IN (c.oid, pg_partition_root(c.oid)))
"""
"""Tables that had no key, and that nobody publishes any more."""

_GUARDED: Final = """
SELECT n.nspname, c.relname FROM pg_trigger g
JOIN pg_class c ON c.oid = g.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE g.tgname = %s
"""
_UNGUARDED: Final = f"{_GUARDED} AND c.oid NOT IN (SELECT oid FROM lockgate.ddl_tables)"
_GUARDS: Final = ("lockgate_truncating", "lockgate_truncated")


def _let_go(connection: psycopg.Connection, tables: str, statement: str, *parameters: str) -> bool:
    """Leave tables of users as they were. Who holds one for long is not waited for.

    False when something stayed, which does no harm.
    """
    whole = True
    for schema, name in connection.execute(tables, parameters or None).fetchall():
        try:
            with connection.transaction():
                connection.execute("SELECT set_config('lock_timeout', %s, true)", (_LOCK_TIMEOUT,))
                connection.execute(sql.SQL(statement).format(sql.Identifier(schema, name)))
        except errors.LockNotAvailable:
            whole = False
    return whole


def _remove(connection: psycopg.Connection) -> None:
    made = False
    if installed_version(connection) is not None:
        row = connection.execute("SELECT bool_or(made_schema) FROM lockgate.ddl_version").fetchone()
        made = bool(row and row[0])
    connection.execute("; ".join(f"DROP EVENT TRIGGER IF EXISTS {name}" for name in TRIGGERS))
    free = [_let_go(connection, _GUARDED, f"DROP TRIGGER {n} ON {{}}", n) for n in _GUARDS]
    script = [
        f"DROP FUNCTION IF EXISTS lockgate.{signature}"
        for signature in reversed(FUNCTIONS)
        if all(free) or signature != "ddl_on_truncate()"
    ]
    connection.execute("; ".join([*script, f"DROP TABLE IF EXISTS {_TABLES}"]))
    if made:
        # Others may have moved into the schema since: then it stays.
        try:
            with connection.transaction():
                connection.execute("DROP SCHEMA lockgate")
        except errors.DependentObjectsStillExist:
            pass


def remains(connection: psycopg.Connection) -> list[str]:
    """What of the log is in the database, by name."""
    with faults(object_=_label(connection), operation="look for the DDL log"):
        found = connection.execute(
            "SELECT 'event trigger ' || evtname FROM pg_event_trigger "
            "WHERE evtname ~ '^lockgate_ddl_' "
            "UNION ALL SELECT 'function ' || p.proname FROM pg_proc p "
            "JOIN pg_namespace n ON n.oid = p.pronamespace "
            "WHERE n.nspname = 'lockgate' AND p.proname ~ '^ddl_' "
            "UNION ALL SELECT 'table ' || c.relname FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = 'lockgate' AND c.relkind = 'r' AND c.relname ~ '^ddl_' "
            "UNION ALL SELECT 'trigger ' || g.tgname || ' on ' || g.tgrelid::regclass "
            "FROM pg_trigger g WHERE g.tgname IN ('lockgate_truncating', 'lockgate_truncated') "
            "ORDER BY 1"
        )
        return [row[0] for row in found]


def trim(connection: psycopg.Connection, keep: int = 1000) -> int:
    """Delete all but the last `keep` rows of the log; they have long travelled. How many went."""
    with faults(object_=_label(connection), operation="trim the DDL log"):
        return connection.execute(
            "DELETE FROM lockgate.ddl_log WHERE id <= (SELECT max(id) FROM lockgate.ddl_log) - %s",
            (keep,),
        ).rowcount


def _regexes(text: str) -> list[str]:
    """A pattern's parts as regular expressions that Python and PostgreSQL read alike."""
    pattern = parse_pattern(text)
    if any("\0" in part.pattern for part in pattern.parts):
        raise UsageError("a name holds a zero byte", object_=text, hint="see its spelling")
    return [part.pattern for part in pattern.parts]


def _label(connection: psycopg.Connection) -> str:
    return f"{connection.info.host}:{connection.info.port}/{connection.info.dbname}"
