"""The statements of a diff, each for one range of one table at one side.

    checksum    one pass: how many rows, and the sum of their hashes
    buckets     the same in 256 shares of the key's hash: where to look further
    hashes      the key and the hash of every row in some of these shares
    rows        whole rows as texts, by key

A sum does not ask in which order rows come. Rows without a key are told apart by their hash.
"""

from collections.abc import Sequence
from typing import Final

from psycopg import sql

from lockgate.endpoints.postgres.copy.statements import cut_columns, edge_values, row_of, typed
from lockgate.endpoints.postgres.diff.forms import hash_of, text_of
from lockgate.endpoints.postgres.diff.items import KeySpace, SideTable
from lockgate.endpoints.postgres.schema.identifiers import identifier

__all__ = [
    "BUCKETS",
    "OPTIONS",
    "buckets",
    "checksum",
    "hashes",
    "inside",
    "read_from",
    "rows",
    "rows_by_hash",
]

BUCKETS: Final = 256

OPTIONS: Final = {
    # Spark's tasks share the work out, and compiling takes longer than a range.
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "work_mem": "64MB",
}
"""Of sessions that compare."""


def checksum(table: SideTable, space: KeySpace, seed: int) -> sql.Composed:
    """One row: count, sum."""
    return sql.SQL("SELECT count(*), coalesce(sum({}), 0)::text FROM {} WHERE {}").format(
        hash_of(table.columns, seed), read_from(table), inside(table, space, seed)
    )


def buckets(table: SideTable, space: KeySpace, seed: int) -> sql.Composed:
    """Rows: bucket, count, sum."""
    return sql.SQL(
        "SELECT ({place} >> 40) & {mask}, count(*), sum({whole})::text FROM {table} "
        "WHERE {inside} GROUP BY 1"
    ).format(
        place=_place(table, seed),
        mask=sql.Literal(BUCKETS - 1),
        whole=hash_of(table.columns, seed),
        table=read_from(table),
        inside=inside(table, space, seed),
    )


def hashes(
    table: SideTable, space: KeySpace, seed: int, some: Sequence[int], limit: int | None = None
) -> sql.Composed:
    """Rows: the key as an array of texts, the hash, 1. Without a key: nothing, the hash, how many
    rows have it. `some` are buckets."""
    wanted = inside(table, space, seed)
    if len(some) < BUCKETS:
        wanted = sql.SQL("{} AND ({} >> 40) & {} = ANY ({})").format(
            wanted, _place(table, seed), sql.Literal(BUCKETS - 1), sql.Literal(list(some))
        )
    whole = hash_of(table.columns, seed)
    if not table.key:
        return sql.SQL(
            "SELECT ARRAY[]::text[], {}, count(*) FROM {} WHERE {} GROUP BY 2 LIMIT {}"
        ).format(whole, read_from(table), wanted, sql.Literal(limit))
    return sql.SQL("SELECT ARRAY[{}], {}, 1 FROM {} WHERE {} LIMIT {}").format(
        sql.SQL(", ").join(text_of(each) for each in table.columns[: len(table.key)]),
        whole,
        read_from(table),
        wanted,
        sql.Literal(limit),
    )


def rows(table: SideTable, keys: Sequence[Sequence[str | None]]) -> sql.Composed:
    """Rows: every compared column as text. By key, so there must be one."""
    values = [
        row_of([typed(sql.Literal(text), each) for text, each in zip(key, table.key, strict=True)])
        for key in keys
    ]
    return sql.SQL("SELECT {} FROM {} WHERE {} IN ({})").format(
        _texts(table), read_from(table), cut_columns(table.key), sql.SQL(", ").join(values)
    )


def rows_by_hash(table: SideTable, space: KeySpace, seed: int, some: Sequence[int]) -> sql.Composed:
    """Rows: the hash, then every compared column as text; one of those that are alike."""
    whole = hash_of(table.columns, seed)
    return sql.SQL(
        "SELECT DISTINCT ON (1) {}, {} FROM {} WHERE {} AND {} = ANY ({}) ORDER BY 1"
    ).format(
        whole,
        _texts(table),
        read_from(table),
        inside(table, space, seed),
        whole,
        sql.Literal(list(some)),
    )


def _texts(table: SideTable) -> sql.Composed:
    return sql.SQL(", ").join(text_of(each) for each in table.columns)


def _place(table: SideTable, seed: int) -> sql.Composed:
    """By which rows are shared out: the hash of the key, or of all there is."""
    return hash_of(table.columns[: len(table.key)] or table.columns, seed)


def read_from(table: SideTable) -> sql.Composed:
    """A table that others inherit from has rows of its own; a partitioned one has its leaves'."""
    only = sql.SQL("" if table.partitioned else "ONLY ")
    return sql.SQL("{}{}").format(only, identifier(table.table))


def inside(table: SideTable, space: KeySpace, seed: int) -> sql.Composed:
    """Which rows are the range's, the feed's own filter included."""
    found: list[sql.Composable] = []
    columns = cut_columns(table.key)
    if space.low is not None:
        found.append(sql.SQL("{} >= {}").format(columns, edge_values(table.key, space.low)))
    if space.high is not None:
        found.append(sql.SQL("{} < {}").format(columns, edge_values(table.key, space.high)))
    if space.shares > 1:
        found.append(
            sql.SQL("pg_catalog.mod({} & 2147483647, {}) = {}").format(
                _place(table, seed), sql.Literal(space.shares), sql.Literal(space.share)
            )
        )
    if table.row_filter:
        # Checked when the configuration was read: it stays inside its parentheses.
        found.append(sql.SQL("({})").format(sql.SQL(table.row_filter)))
    return sql.SQL(" AND ").join(found or [sql.SQL("true")])
