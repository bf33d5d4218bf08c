"""Where a table is cut into chunks.

Any cuts are right; good ones give chunks of about one size that are cheap to read. A chunk is
read through the key's index. Where rows lie in the order of their keys that touches each page
once; where they do not (random keys), each chunk touches most pages, so there are fewer.

    no key                     pages, in equal shares: read straight off
    one integer, dense         equal steps between least and greatest
    everything else            percentiles of a sample of pages, in the source's own order
"""

import itertools
import math
from collections.abc import Sequence
from typing import Final, LiteralString

import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.copy.items import CopyTable
from lockgate.endpoints.postgres.copy.statements import from_table
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.schema.discover import TableSize
from lockgate.endpoints.postgres.sink.chunks import Edge

__all__ = ["CHUNK_ROWS", "plan_edges"]

CHUNK_ROWS: Final = 200_000
_CHUNK_BYTES: Final = 256 << 20
"""A chunk of wide rows has fewer of them."""
_CHUNKS_MAX: Final = 10_000
_SCATTERED: Final = 10
"""So much larger are chunks of a table whose rows do not lie in the order of their keys."""
_ORDERED: Final = 0.8
"""From this correlation on they do."""
_DENSE: Final = 0.5
_PAGES_PER_CHUNK: Final = 100
"""Sampled for each cut: rows of one page have neighbouring keys and count as one."""
_INTEGERS: Final = frozenset({20, 21, 23})


def plan_edges(
    connection: psycopg.Connection,
    table: CopyTable,
    size: TableSize,
    *,
    chunk_rows: int = CHUNK_ROWS,
    slots: int = 1,
) -> list[tuple[Edge, Edge]]:
    """Intervals that cover the whole table, in its order. The first and last are open."""
    with faults(object_=str(table.source), operation="plan the copy"):
        cuts = _cuts(connection, table, size, chunk_rows, slots)
    edges: list[Edge] = [None, *cuts, None]
    return list(itertools.pairwise(edges))


def _cuts(
    connection: psycopg.Connection,
    table: CopyTable,
    size: TableSize,
    chunk_rows: int,
    slots: int,
) -> Sequence[Edge]:
    count = max(math.ceil(size.rows / chunk_rows), math.ceil(size.bytes / _CHUNK_BYTES))
    count = min(count, _CHUNKS_MAX)
    if count <= 1:
        return []
    if not table.key:
        # Where rows lie differs from leaf to leaf, and leaves come and go.
        return [] if table.partitioned else _page_cuts(connection, table, count)
    if not _in_order(connection, table):
        count = max(math.ceil(count / _SCATTERED), min(slots, count))
    if count <= 1:
        return []
    count = math.ceil(count / slots) * slots  # or the last ones would leave slots idle
    if len(table.key) == 1 and table.key[0].column.type_id in _INTEGERS:
        found = _even_cuts(connection, table, size, count)
        if found is not None:
            return found
    return _sampled_cuts(connection, table, size, count)


def _page_cuts(connection: psycopg.Connection, table: CopyTable, count: int) -> list[Edge]:
    row = connection.execute(
        "SELECT pg_relation_size(c.oid) / current_setting('block_size')::int "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname = %s",
        (table.source.schema, table.source.name),
    ).fetchone()
    pages = int(row[0]) if row else 0
    cuts = sorted({pages * number // count for number in range(1, count)} - {0})
    return [(f"({page},0)",) for page in cuts]


def _in_order(connection: psycopg.Connection, table: CopyTable) -> bool:
    """Do rows lie in the order of the key's first column? Without statistics: if it is a number.

    Partitions count each for itself: a chunk is read from one after the other.
    """
    row = connection.execute(
        "WITH root AS (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "              WHERE n.nspname = %s AND c.relname = %s) "
        "SELECT sum(abs(s.correlation) * c.reltuples) / nullif(sum(c.reltuples), 0) "
        "FROM (SELECT oid FROM root UNION "
        "      SELECT p.relid FROM root, pg_partition_tree(root.oid) p) AS t "
        "JOIN pg_class c ON c.oid = t.oid AND c.reltuples > 0 "
        "JOIN pg_namespace n ON n.oid = c.relnamespace "
        "JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname "
        "WHERE s.attname = %s AND NOT s.inherited",
        (table.source.schema, table.source.name, table.key[0].column.name),
    ).fetchone()
    if row is None or row[0] is None:
        return table.key[0].column.type_id in _INTEGERS
    return float(row[0]) >= _ORDERED


def _even_cuts(
    connection: psycopg.Connection, table: CopyTable, size: TableSize, count: int
) -> list[Edge] | None:
    """Equal steps, if there are not many holes between the keys."""
    column = sql.Identifier(table.key[0].column.name)
    row = connection.execute(
        sql.SQL("SELECT min({0})::int8, max({0})::int8 FROM {1}").format(column, from_table(table))
    ).fetchone()
    if row is None or row[0] is None:
        return []
    least, greatest = int(row[0]), int(row[1])
    width = greatest - least + 1
    if size.rows < width * _DENSE:
        return None
    cuts = {least + width * number // count for number in range(1, count)} - {least}
    return [(str(cut),) for cut in sorted(cuts)]


def _sampled_cuts(
    connection: psycopg.Connection, table: CopyTable, size: TableSize, count: int
) -> list[Edge]:
    row = connection.execute("SELECT current_setting('block_size')::int").fetchone()
    pages = max(1, size.bytes // (row[0] if row else 8192))
    percent = min(100.0, 100.0 * count * _PAGES_PER_CHUNK / pages)
    names = [sql.Identifier(each.column.name) for each in table.key]
    keys = [sql.Identifier(f"k{number}") for number in range(len(names))]
    found = connection.execute(
        sql.SQL(
            "SELECT {texts} FROM ("
            "  SELECT {keys}, row_number() OVER (ORDER BY {columns}) AS no, count(*) OVER () AS of"
            "  FROM {table} TABLESAMPLE SYSTEM ({percent})"
            ") AS s WHERE no < of AND no * {count} / of <> (no - 1) * {count} / of ORDER BY no"
        ).format(
            texts=_listed("{}::text", keys),
            keys=sql.SQL(", ").join(
                sql.SQL("{} AS {}").format(name, key) for name, key in zip(names, keys, strict=True)
            ),
            columns=_listed("{}", names),
            table=from_table(table),
            percent=sql.Literal(round(percent, 6)),
            count=sql.Literal(count),
        )
    ).fetchall()
    return [tuple(row) for row in found]


def _listed(form: LiteralString, names: Sequence[sql.Identifier]) -> sql.Composed:
    return sql.SQL(", ").join(sql.SQL(form).format(name) for name in names)
