"""What a move's tables are made of: each table, and every partition below it.

A statement fires the triggers of the table that it names, and of no other: one that names a
partition passes the guard of the partitioned table. So both have one.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from lockgate.endpoints.postgres.sink.rows import Cursor
from lockgate.model.errors import ObjectMissing
from lockgate.model.tables import TableName
from lockgate.model.value import Value

__all__ = ["Relation", "relations"]

_FIND: Final = """
SELECT rn.nspname::text, r.relname::text, m.oid, mn.nspname::text, m.relname::text
FROM unnest(%s::text[], %s::text[]) AS w(schema, name)
JOIN pg_namespace rn ON rn.nspname = w.schema
JOIN pg_class r ON r.relnamespace = rn.oid AND r.relname = w.name AND r.relkind IN ('r', 'p')
CROSS JOIN LATERAL (
    SELECT r.oid UNION SELECT t.relid::oid FROM pg_partition_tree(r.oid) AS t) AS tree(oid)
JOIN pg_class m ON m.oid = tree.oid AND m.relkind IN ('r', 'p')
JOIN pg_namespace mn ON mn.oid = m.relnamespace
"""


class Relation(Value, frozen=True):
    """A table of the move, or a partition of one."""

    root: TableName
    """The table of the move."""
    oid: int
    table: TableName


def relations(
    cursor: Cursor, tables: Iterable[TableName], *, skip_missing: bool = False
) -> list[Relation]:
    """All of them, in the one order in which they are always locked.

    Raises ObjectMissing when a table is not there, unless such are to be skipped.
    """
    wanted = sorted(set(tables))
    rows = cursor.execute(_FIND, _columns(wanted)).fetchall()
    found = [Relation(TableName(r[0], r[1]), r[2], TableName(r[3], r[4])) for r in rows]
    missing = sorted(set(wanted) - {each.root for each in found})
    if missing and not skip_missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise ObjectMissing(
            f"there is no such table{more}",
            object_=str(missing[0]),
            hint="see that nobody dropped or renamed it",
            operation="find the tables of a move",
        )
    # Code points, not the database's collation: two databases, and two callers, agree. The table
    # comes before its partitions, as it does for whoever writes through it.
    return sorted(found, key=lambda each: (each.root, each.table != each.root, each.table))


def _columns(tables: Sequence[TableName]) -> tuple[list[str], list[str]]:
    return [each.schema for each in tables], [each.name for each in tables]
