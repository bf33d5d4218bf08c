"""Discovery: which tables a database has, and all that is to know of the chosen ones.

A handful of queries, however many tables: a round trip per table would cost minutes where
there are thousands of them.

The server's deparsing functions read the catalog as it is *now*, not as of a snapshot. Whoever
needs definitions that belong to one point of the log (the start of a slot) keeps the tables as
they are meanwhile: `hold_still`.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.schema.catalog import DESCRIBE
from lockgate.endpoints.postgres.schema.definitions import TableDefinition
from lockgate.endpoints.postgres.schema.identifiers import identifier
from lockgate.endpoints.postgres.schema.notes import Note
from lockgate.model.errors import EndpointBusy, ObjectMissing, UsageError
from lockgate.model.tables import Identity, TableName
from lockgate.model.value import Value

__all__ = [
    "DEFINITION",
    "TableSize",
    "bare_names",
    "describe",
    "discover",
    "findings",
    "hold_still",
    "sizes",
    "tables",
]

_TABLES: Final = """
SELECT n.nspname, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
  AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'lockgate')
  AND NOT EXISTS (
    SELECT FROM pg_depend d
    WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
ORDER BY 1, 2
"""

_DESCRIBE: Final = (
    "SELECT description::text FROM (" + DESCRIBE.replace(":oids", "%s::oid[]") + ") AS d"
)

DEFINITION: Final = msgspec.json.Decoder(TableDefinition)

_LOOKS: Final = 5
"""So often tables are looked at that others change meanwhile."""

_OIDS: Final = """
SELECT c.oid, n.nspname, c.relname
FROM unnest(%s::text[], %s::text[]) AS w(schema, name)
JOIN pg_namespace n ON n.nspname = w.schema
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
WHERE c.relkind IN ('r', 'p')
"""

_SIZES: Final = """
SELECT w.root, sum(s.rows)::int8, sum(s.bytes)::int8
FROM unnest(%s::oid[], %s::oid[], %s::int[]) AS w(root, leaf, columns)
JOIN pg_class c ON c.oid = w.leaf
CROSS JOIN LATERAL (SELECT pg_relation_size(c.oid) AS main,
                           coalesce(pg_relation_size(nullif(c.reltoastrelid, 0)), 0) AS toast) f
CROSS JOIN LATERAL (
    SELECT f.main + f.toast AS bytes,
           CASE WHEN f.main = 0 THEN 0
                WHEN c.reltuples >= 0 AND c.relpages > 0
                THEN c.reltuples / c.relpages * (f.main / current_setting('block_size')::int)
                ELSE f.main / (28 + 12 * w.columns) END AS rows
) s
GROUP BY 1
"""
"""As the planner does: rows per page when last analysed, times the pages there are now."""


class TableSize(Value, frozen=True):
    """How much there is to copy, roughly."""

    rows: int
    bytes: int


@contextmanager
def bare_names(connection: psycopg.Connection) -> Iterator[None]:
    """A transaction in which the server writes every name with its schema."""
    with connection.transaction():
        row = connection.execute("SELECT current_setting('search_path')").fetchone()
        # Compiling a query that runs once takes longer than the query.
        connection.execute(
            "SELECT set_config('search_path', 'pg_catalog, pg_temp', true), "
            "set_config('jit', 'off', true)"
        )
        yield
        # The transaction may be part of a longer one, which goes on with its own path.
        connection.execute("SELECT set_config('search_path', %s, true)", (row and row[0],))


def tables(connection: psycopg.Connection) -> list[TableName]:
    """Every table that could be chosen: no system, temporary, foreign or extension's tables.

    A partition is not a table of its own here: rows travel as rows of the partitioned table.
    """
    with faults(object_=_label(connection), operation="list tables"):
        return [TableName(*row) for row in connection.execute(_TABLES)]


def discover(
    connection: psycopg.Connection, names: Iterable[TableName]
) -> dict[TableName, TableDefinition]:
    """The definitions of the named tables. Raises when one is missing or is a partition."""
    wanted = list(dict.fromkeys(names))
    found = describe(connection, wanted)
    missing = [name for name in wanted if name not in found]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise ObjectMissing(
            f"there is no such table{more}",
            object_=f"{missing[0]}, {_label(connection)}",
            hint="see that the name is written as the database has it: schema.table, with "
            "double quotes around a part that is not in lower case",
        )
    for definition in found.values():
        if definition.partition_of is not None:
            root = TableName(*definition.partition_of)
            raise UsageError(
                "this is a partition, and rows travel as rows of the partitioned table",
                object_=str(definition.table),
                hint=f"choose {root} instead",
            )
    return found


def describe(
    connection: psycopg.Connection, names: Sequence[TableName]
) -> dict[TableName, TableDefinition]:
    """The definitions of those of the named tables that exist, by name, in the names' order.

    EndpointBusy when tables change as often as they are looked at, or in a transaction whose
    snapshot is from before such a change.
    """
    columns = [name.schema for name in names], [name.name for name in names]
    found: list[TableDefinition] = []
    label = _label(connection)
    for look in range(_LOOKS):
        try:
            with faults(object_=label, operation="read the catalog"), bare_names(connection):
                oids = [row[0] for row in connection.execute(_OIDS, columns)]
                found = _described(connection, oids)
            break
        except EndpointBusy as busy:
            # Of a table that is going, the server's functions say that it cannot be opened.
            going = isinstance(busy.__cause__, psycopg.errors.InternalError_)
            if not (going or isinstance(busy, _Overtaken)) or look == _LOOKS - 1:
                raise
    by_name = {definition.table: definition for definition in found}
    return {name: by_name[name] for name in names if name in by_name}


class _Overtaken(EndpointBusy):
    """Somebody renamed or dropped something in the middle of a look: its parts do not fit."""


def _described(connection: psycopg.Connection, oids: Sequence[int]) -> list[TableDefinition]:
    # As text: the driver would make Python objects of the JSON first.
    query = connection.execute(_DESCRIBE, (list(oids),))
    try:
        return [DEFINITION.decode(row[0]) for row in query]
    except msgspec.ValidationError as error:
        raise _Overtaken(
            "tables are renamed, altered or dropped while they are looked at",
            object_=_label(connection),
            hint="ask again when that is over",
            operation="read the catalog",
        ) from error


def sizes(
    connection: psycopg.Connection, definitions: Iterable[TableDefinition]
) -> dict[TableName, TableSize]:
    """Rows and bytes of tables, estimated; of partitioned ones over all their partitions."""
    chosen = {definition.oid: definition for definition in definitions}
    parts = [
        (oid, leaf, len(definition.columns))
        for oid, definition in chosen.items()
        for leaf in ([p.oid for p in definition.leaves] if definition.kind == "p" else [oid])
    ]
    arrays = [[part[i] for part in parts] for i in range(3)]
    found = {definition.table: TableSize(0, 0) for definition in chosen.values()}
    with faults(object_=_label(connection), operation="read sizes"):
        for oid, rows, size in connection.execute(_SIZES, arrays):
            found[chosen[oid].table] = TableSize(rows, size)
    return found


@contextmanager
def hold_still(
    connection: psycopg.Connection, names: Sequence[TableName], *, timeout_ms: int = 10_000
) -> Iterator[None]:
    """A transaction in which nobody changes or drops these tables; reading and writing go on.

    It takes the locks of a plain SELECT and has no transaction id, so a replication slot that is
    made meanwhile does not wait for it. DDL does: keep it short.
    """
    label = _label(connection)
    with connection.transaction():
        with faults(object_=label, operation="hold tables still"):
            connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{timeout_ms}ms",))
            for start in range(0, len(names), 500):
                chunk = sql.SQL(", ").join(identifier(n) for n in names[start : start + 500])
                connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(chunk))
        yield


def findings(definition: TableDefinition) -> list[Note]:
    """What keeps this table from being replicated, or is worth knowing."""
    name = str(definition.table)
    found: list[Note] = []
    if definition.persistence == "u":
        found.append(
            Note(
                "unlogged",
                name,
                "the table is unlogged: its changes are not in the source's log",
                f"ALTER TABLE {name} SET LOGGED, or leave it out",
                blocking=True,
            )
        )
    if definition.identity is Identity.NOTHING:
        found.append(_silent(definition, name))
    if definition.replica_identity == "f" and any(
        leaf.replica_identity != "f" for leaf in definition.leaves
    ):
        leaf = next(leaf for leaf in definition.leaves if leaf.replica_identity != "f")
        found.append(
            Note(
                "identity-differs",
                name,
                f"its replica identity is full, but not that of its partition {leaf.table}",
                f"ALTER TABLE {leaf.table} REPLICA IDENTITY FULL",
                blocking=True,
            )
        )
    if any(leaf.kind == "f" for leaf in definition.partitions):
        found.append(
            Note(
                "foreign-partition",
                name,
                "some of its partitions are foreign tables, whose changes are in no log of ours",
                "detach them, or leave the table out",
                blocking=True,
            )
        )
    if definition.inherits or definition.has_children:
        found.append(
            Note(
                "inheritance",
                name,
                "it inherits, or is inherited from; at the target it stands alone, "
                "with rows of its own only",
            )
        )
    if definition.row_security:
        found.append(
            Note(
                "row-security",
                name,
                "row security is on: a role that does not bypass it copies the rows it may see",
                "ALTER ROLE … BYPASSRLS for the role that reads",
            )
        )
    return found


def _silent(definition: TableDefinition, name: str) -> Note:
    if definition.silent_leaves:
        name = str(definition.silent_leaves[0].table)
        why = f"its partition {name} has no replica identity"
    elif definition.replica_identity == "n":
        why = "its replica identity is nothing"
    elif definition.primary_key is None:
        why = "it has no primary key"
    else:
        why = "its primary key is deferrable"
    return Note(
        "no-identity",
        str(definition.table),
        f"{why}: updates and deletes at the source would fail once it is published",
        f"give it a primary key, or ALTER TABLE {name} REPLICA IDENTITY FULL",
        blocking=True,
    )


def _label(connection: psycopg.Connection) -> str:
    info = connection.info
    return f"{info.host}:{info.port}/{info.dbname}"
