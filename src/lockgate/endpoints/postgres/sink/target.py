"""The target's table as it is: which of its columns the feed writes, and how it may.

Columns are matched by name. A generated column is the target's own business. An identity column
that is GENERATED ALWAYS takes our value in COPY and in INSERT, and in no UPDATE. Columns that the
feed knows nothing of keep what they have.
"""

from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from lockgate.endpoints.postgres.schema.identifiers import deparsed
from lockgate.model.errors import ObjectMissing
from lockgate.model.tables import TableName, TableShape

__all__ = ["Target", "TargetColumn", "inspect"]


@dataclass(frozen=True)
class TargetColumn:
    """A column of the target."""

    name: str
    number: int | None
    """Its place in the shape, if the feed has it."""
    generated: bool
    always_identity: bool
    required: bool
    """NOT NULL."""
    plain: bool
    """Of a type whose equal values are written alike, so that `=` is enough to tell rows apart."""
    kind: str
    """The name of its base type if that is PostgreSQL's own; `enum`; empty for all others."""
    base: str
    """Of a domain, the type below it as this session writes it; empty where there is none."""

    @property
    def name_sql(self) -> sql.Identifier:
        return sql.Identifier(self.name)

    @property
    def unconstrained_sql(self) -> sql.Composable:
        """The column as an expression of its base type, in the column's collation."""
        if not self.base:
            return self.name_sql
        return sql.SQL("{}::{}").format(self.name_sql, deparsed(self.base))


@dataclass(frozen=True)
class Target:
    """The table, and its columns that can be written, in its own order."""

    table: TableName
    columns: tuple[TargetColumn, ...]
    key: tuple[TargetColumn, ...]
    """In the key's order."""
    ruled: bool
    """There are rules (CREATE RULE)."""
    rows: int
    """About how many it has; 0 where they lie in partitions."""

    @property
    def name_sql(self) -> sql.Identifier:
        return sql.Identifier(self.table.schema, self.table.name)

    @property
    def fed(self) -> list[tuple[int, TargetColumn]]:
        """The columns that the feed writes, with their numbers in the shape."""
        return [(c.number, c) for c in self.columns if c.number is not None]

    @property
    def own(self) -> list[TargetColumn]:
        """The columns that only the target has."""
        return [column for column in self.columns if column.number is None]

    @property
    def rewrites(self) -> bool:
        """True when a value to be changed stands in a column that no UPDATE may set."""
        return any(c.always_identity for _, c in self.fed if c not in self.key)


_COLUMNS: Final = """
    SELECT a.attname, a.attgenerated <> '', a.attidentity = 'a', a.attnotnull,
           coalesce(l.collisdeterministic, true),
           CASE WHEN b.typtype = 'e' THEN 'enum'
                WHEN b.typtype = 'b' AND b.typnamespace = 'pg_catalog'::regnamespace
                THEN b.typname::text ELSE '' END,
           CASE WHEN b.oid <> a.atttypid THEN format_type(b.oid, b.modifier) ELSE '' END,
           c.relhasrules, c.rows
    FROM (
             SELECT c.oid, c.relhasrules, (
                 CASE WHEN c.relkind = 'p' THEN 0
                      WHEN c.reltuples > 0 AND c.relpages > 0
                      THEN pg_relation_size(c.oid) / current_setting('block_size')::int
                           * (c.reltuples / c.relpages)
                      ELSE pg_relation_size(c.oid) / 100 END
             )::bigint AS rows
             FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
             WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')
             OFFSET 0
         ) c
         JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
         CROSS JOIN LATERAL (
             WITH RECURSIVE base AS (
                 SELECT t.*, a.atttypmod AS modifier
                 FROM pg_catalog.pg_type t WHERE t.oid = a.atttypid
                 UNION ALL
                 SELECT t.*, base.typtypmod
                 FROM base JOIN pg_catalog.pg_type t ON t.oid = base.typbasetype
                 WHERE base.typtype = 'd'
             )
             SELECT * FROM base WHERE typtype <> 'd'
         ) b
         LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
    WHERE a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attnum
"""


_PLAIN: Final = frozenset(
    {"bool", "bytea", "date", "int2", "int4", "int8", "oid", "timestamp", "timestamptz", "uuid"}
)


def inspect(connection: psycopg.Connection, table: TableName, shape: TableShape) -> Target:
    """Ask the target's catalog. Raises ObjectMissing when the table, or a column, is not there."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        found = cursor.execute(_COLUMNS, (table.schema, table.name)).fetchall()
    if not found:
        raise ObjectMissing(
            "the target's table is not there",
            object_=str(table),
            hint="create it, or remove the table from the feed",
        )
    number = {column.name: i for i, column in enumerate(shape.columns)}
    every = [
        TargetColumn(
            name,
            number.get(name),
            generated,
            always,
            required,
            kind in _PLAIN or (kind in {"text", "varchar"} and deterministic),
            kind,
            base,
        )
        for name, generated, always, required, deterministic, kind, base, *_ in found
    ]
    by_name = {column.name: column for column in every}
    lost = [column.name for column in shape.columns if column.name not in by_name]
    if lost:
        raise ObjectMissing(
            f"the target's table has no column {', '.join(lost)}",
            object_=str(table),
            hint="add it at the target, or leave it out of the feed",
        )
    return Target(
        table,
        tuple(column for column in every if not column.generated),
        tuple(by_name[name] for name in shape.key),
        *found[0][-2:],
    )
