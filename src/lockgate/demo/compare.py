"""Are both sides equal? Every row's text is hashed at its server, and the hashes are added."""

from typing import NamedTuple

import psycopg
from psycopg import sql

from lockgate.model.tables import TableName


class Compared(NamedTuple):
    """One table on both sides."""

    table: TableName
    source_rows: int
    target_rows: int
    equal: bool


def compare(source: str, target: str, tables: list[TableName]) -> list[Compared]:
    """Compare tables that nobody writes to."""
    out: list[Compared] = []
    with psycopg.connect(source) as one, psycopg.connect(target) as other:
        for table in tables:
            ours, theirs = _digest(one, table), _digest(other, table)
            out.append(Compared(table, ours[0], theirs[0], ours == theirs))
    return out


def _digest(connection: psycopg.Connection, table: TableName) -> tuple[int, str]:
    """How many rows, and a sum over all of them that does not depend on their order."""
    query = sql.SQL(
        "SELECT count(*), "
        "coalesce(sum(('x' || substr(md5(t::text), 1, 15))::bit(60)::bigint)::text, '') FROM {} t"
    ).format(sql.Identifier(table.schema, table.name))
    row = connection.execute(query).fetchone()
    assert row is not None
    return row[0], row[1]
