"""Masks in SQL: what the copy reads of a column, equal to what the decoder makes of the stream.

A hash is over the text that the type's output function writes, as the stream has it. A cast to
text is not the same: it writes `true` for `t`, and cuts the blanks that pad a `char(n)`.
`concat` calls the output function.
"""

from psycopg import sql

from lockgate.model.feed_config import Mask, MaskKind

__all__ = ["hidden", "read_as"]


def read_as(column: str, mask: Mask | None = None) -> sql.Composable:
    """The expression to read in the column's place, under the column's name."""
    name = sql.Identifier(column)
    return name if mask is None else sql.SQL("{} AS {}").format(hidden(column, mask), name)


def hidden(column: str, mask: Mask) -> sql.Composable:
    """What the mask puts in the place of a column's value: a text."""
    if mask.kind is MaskKind.NULL:
        return sql.SQL("NULL::pg_catalog.text")
    if mask.kind is MaskKind.FIXED:
        return sql.SQL("{}::pg_catalog.text").format(sql.Literal(mask.text))
    return sql.SQL(
        "CASE WHEN {0} IS NOT DISTINCT FROM NULL THEN NULL ELSE pg_catalog.encode("
        "pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.concat({0}), 'UTF8')), 'hex') END"
    ).format(sql.Identifier(column))
