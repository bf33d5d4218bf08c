"""The statements of a copy: which rows of a table, which columns, in which form."""

from collections.abc import Sequence
from typing import Final, LiteralString

from psycopg import sql

from lockgate.endpoints.postgres.copy.items import CopyTable, KeyColumn
from lockgate.endpoints.postgres.masks import read_as
from lockgate.endpoints.postgres.schema.identifiers import collate, deparsed, identifier
from lockgate.endpoints.postgres.sink.chunks import Chunk, Edge

__all__ = [
    "copy_in",
    "copy_out",
    "cut_columns",
    "edge_values",
    "from_table",
    "row_of",
    "typed",
    "where_chunk",
]

_TID: Final = sql.SQL("tid")


def copy_out(
    table: CopyTable,
    condition: sql.Composable,
    form: LiteralString = "",
    *,
    ordered: bool = False,
) -> sql.Composed:
    """Read the rows that meet the condition; in the table's form, if nothing else is said.

    `ordered`: in the order of the key.
    """
    columns = sql.SQL(", ").join(read_as(name, table.masks.get(name)) for name in table.columns)
    order: sql.Composable = sql.SQL("")
    if ordered and table.key:
        names = (sql.Identifier(each.column.name) for each in table.key)
        order = sql.SQL(" ORDER BY {}").format(sql.SQL(", ").join(names))
    return sql.SQL("COPY (SELECT {} FROM {} WHERE {}{}) TO STDOUT (FORMAT {})").format(
        columns,
        from_table(table),
        condition,
        order,
        sql.SQL(form) if form else _form(table),
    )


def copy_in(table: CopyTable) -> sql.Composed:
    """Write rows of the same columns."""
    columns = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    return sql.SQL("COPY {} ({}) FROM STDIN (FORMAT {})").format(
        identifier(table.target), columns, _form(table)
    )


def from_table(table: CopyTable) -> sql.Composed:
    """A table that others inherit from has rows of its own; a partitioned one has its leaves'."""
    only = sql.SQL("" if table.partitioned else "ONLY ")
    return sql.SQL("{}{}").format(only, identifier(table.source))


def where_chunk(table: CopyTable, chunk: Chunk) -> sql.Composed:
    """The condition for a chunk's rows, the table's own filter included."""
    conditions: list[sql.Composable] = []
    columns = cut_columns(table.key)
    if chunk.low is not None:
        low = edge_values(table.key, chunk.low)
        conditions.append(sql.SQL("{} >= {}").format(columns, low))
    if chunk.high is not None:
        high = edge_values(table.key, chunk.high)
        conditions.append(sql.SQL("{} < {}").format(columns, high))
    if table.row_filter:
        # Checked when the configuration was read: it stays inside its parentheses.
        conditions.append(sql.SQL("({})").format(sql.SQL(table.row_filter)))
    return sql.SQL(" AND ").join(conditions or [sql.SQL("true")])


def cut_columns(key: Sequence[KeyColumn]) -> sql.Composed:
    """What a table is cut by: its key as a row, or where rows lie."""
    if not key:
        return sql.Composed([sql.Identifier("ctid")])
    return row_of([sql.Identifier(each.column.name) for each in key])


def edge_values(key: Sequence[KeyColumn], edge: Edge) -> sql.Composed:
    """An edge, to be compared with `cut_columns`."""
    assert edge is not None
    if not key:
        return sql.SQL("{}::{}").format(sql.Literal(edge[0]), _TID)
    return row_of([typed(sql.Literal(text), each) for text, each in zip(edge, key, strict=True)])


def typed(value: sql.Composable, each: KeyColumn) -> sql.Composable:
    """A text as a value of the key's column, in its collation."""
    collation = sql.Composed(collate(each.collation))
    return sql.SQL("{}::{} {}").format(value, deparsed(each.column.type), collation)


def row_of(values: Sequence[sql.Composable]) -> sql.Composed:
    """One value stands for itself: a ROW of one is not what an index is searched with."""
    if len(values) == 1:
        return sql.Composed(values)
    return sql.SQL("ROW({})").format(sql.SQL(", ").join(values))


def _form(table: CopyTable) -> sql.SQL:
    return sql.SQL("binary" if table.binary else "text")
