"""Are both sides equal? Every row's text is hashed at its server, and the hashes are added."""

from collections.abc import Iterable
from typing import NamedTuple

import psycopg
from psycopg import sql

from lockgate.model.tables import TableName

__all__ = ["Compared", "compare", "guests"]


class Compared(NamedTuple):
    """One table, under the name that it has at each side."""

    table: TableName
    other: TableName
    rows: int
    other_rows: int
    equal: bool


def compare(
    url: str, other_url: str, tables: Iterable[tuple[TableName, TableName]]
) -> list[Compared]:
    """Compare tables that nobody writes to."""
    out: list[Compared] = []
    with psycopg.connect(url) as one, psycopg.connect(other_url) as two:
        for table, other in tables:
            ours, theirs = _digest(one, table), _digest(two, other)
            out.append(Compared(table, other, ours[0], theirs[0], ours == theirs))
    return out


def guests(url: str) -> list[str]:
    """All that came since the shop is open, in alphabetical order."""
    with psycopg.connect(url) as connection:
        query = "SELECT name FROM customers WHERE name LIKE 'guest %'"
        return sorted(row[0] for row in connection.execute(query))


def _digest(connection: psycopg.Connection, table: TableName) -> tuple[int, str]:
    """How many rows, and a sum over all of them that does not depend on their order."""
    query = sql.SQL(
        "SELECT count(*), "
        "coalesce(sum(('x' || substr(md5(t::text), 1, 15))::bit(60)::bigint)::text, '') FROM {} t"
    ).format(sql.Identifier(table.schema, table.name))
    row = connection.execute(query).fetchone()
    assert row is not None
    return row[0], row[1]
