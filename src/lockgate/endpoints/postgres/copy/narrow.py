"""The rows of a chunk that belong to one share of it, after a span was split in its copy.

Spans are ranges of a hash that no SQL can compute. So the keys are read first, under the same
snapshot, and the rows chosen by where they lie: a row that a snapshot sees stays in its place for
as long as the snapshot lives.
"""

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql

from lockgate.endpoints.keys import hashes, in_range
from lockgate.endpoints.postgres.copy.items import CopyTable
from lockgate.endpoints.postgres.copy.statements import from_table
from lockgate.endpoints.postgres.types import arrow_type, from_text
from lockgate.model.spans import KeyRange

__all__ = ["where_share"]


def where_share(
    source: psycopg.Connection, table: CopyTable, condition: sql.Composable, keys: KeyRange
) -> sql.Composed:
    """The condition for those rows that meet `condition` and whose key's hash lies in `keys`."""
    texts = sql.SQL(", ").join(
        # The text that the type's output function writes; a cast to text may differ.
        sql.SQL("pg_catalog.concat({})").format(sql.Identifier(each.column.name))
        for each in table.key
    )
    rows = source.execute(
        sql.SQL("SELECT tableoid::int8, ctid::text, {} FROM {} WHERE {}").format(
            texts, from_table(table), condition
        )
    ).fetchall()
    if not rows:
        return sql.SQL("{}").format(sql.SQL("false"))
    leaves, places, *columns = (list(column) for column in zip(*rows, strict=True))
    arrays = [
        from_text(pa.array(column, pa.string()), arrow_type(each.column), str(table.source))
        for column, each in zip(columns, table.key, strict=True)
    ]
    chosen = np.flatnonzero(in_range(hashes(arrays), keys))
    by_leaf: dict[int, list[str]] = {}
    for number in chosen.tolist():
        by_leaf.setdefault(leaves[number], []).append(places[number])
    some: list[sql.Composable] = [
        sql.SQL("(tableoid = {}::oid AND ctid = ANY ({}::tid[]))").format(
            sql.Literal(leaf), sql.Literal("{" + ",".join(f'"{at}"' for at in found) + "}")
        )
        for leaf, found in by_leaf.items()
    ]
    return sql.SQL("({})").format(sql.SQL(" OR ").join(some or [sql.SQL("false")]))
