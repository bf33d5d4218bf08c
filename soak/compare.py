"""Every row of every table on both sides: which are missing, extra, different."""

from collections import Counter
from typing import Final, NamedTuple

import psycopg
from psycopg import sql

__all__ = ["Difference", "compare"]

_TABLES: Final = """
SELECT c.relname::text, coalesce(
    (SELECT array_agg(a.attname::text ORDER BY array_position(i.indkey::int[], a.attnum::int))
       FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
      WHERE i.indrelid = c.oid AND i.indisprimary), '{}')
FROM pg_class c WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'r' ORDER BY 1
"""
_EXAMPLES: Final = 5
_KEYLESS: Final = "{}"


class Difference(NamedTuple):
    """One table on both sides."""

    table: str
    rows: int
    missing: int
    extra: int
    different: int
    examples: list[str]

    @property
    def equal(self) -> bool:
        return not (self.missing or self.extra or self.different)


def compare(source: str, target: str, schema: str = "public") -> list[Difference]:
    """All tables of both sides; a table that one side lacks is wholly missing or extra."""
    with psycopg.connect(source) as one, psycopg.connect(target) as other:
        ours, theirs = _tables(one, schema), _tables(other, schema)
        return [
            _compare(
                table,
                _rows(one, schema, table, ours.get(table)),
                _rows(
                    other,
                    schema,
                    table,
                    ours.get(table, theirs.get(table)) if table in theirs else None,
                ),
            )
            for table in sorted({*ours, *theirs})
        ]


def _tables(connection: psycopg.Connection, schema: str) -> dict[str, list[str]]:
    """Tables, and the columns of their keys."""
    return dict(connection.execute(_TABLES, (schema,)).fetchall())


def _rows(
    connection: psycopg.Connection, schema: str, table: str, key: list[str] | None
) -> Counter[tuple[str, str]]:
    """Each row as its key and a digest of all of it, and how often it is there."""
    if key is None:
        return Counter()
    columns = [sql.SQL("{}::text").format(sql.Identifier(name)) for name in key]
    query = sql.SQL("SELECT ARRAY[{}]::text[]::text, md5(to_jsonb(t)::text) FROM {} t").format(
        sql.SQL(", ").join(columns), sql.Identifier(schema, table)
    )
    return Counter((row[0], row[1]) for row in connection.execute(query))


def _compare(
    table: str, ours: Counter[tuple[str, str]], theirs: Counter[tuple[str, str]]
) -> Difference:
    missing, extra = ours - theirs, theirs - ours
    lacking: Counter[str] = Counter()
    surplus: Counter[str] = Counter()
    for (key, _), count in missing.items():
        lacking[key] += count
    for (key, _), count in extra.items():
        surplus[key] += count
    # A key that is there on both sides with other values is one row that differs. Where there is
    # no key, nothing can be said to have become something else.
    changed = {key: min(lacking[key], surplus[key]) for key in lacking if key != _KEYLESS}
    different = sum(changed.values())
    examples = [f"missing {key}" for key, _ in missing] + [f"extra {key}" for key, _ in extra]
    return Difference(
        table,
        ours.total(),
        missing.total() - different,
        extra.total() - different,
        different,
        examples[:_EXAMPLES],
    )
