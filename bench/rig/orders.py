"""The table of ten columns that is copied and changed, and whether two servers hold the same rows.

Rows are of the usual kind: a number as key, numbers, texts, a decimal, a float, a boolean, a time,
a UUID; about 120 bytes. Every value follows from its key.
"""

from typing import Final

import psycopg

from bench.rig.servers import session

TABLE: Final = """
CREATE TABLE orders (
    id bigint NOT NULL, customer integer NOT NULL, quantity smallint, name text NOT NULL,
    amount numeric(12,2), score double precision, active boolean, created timestamptz, ref uuid,
    note text
)
"""
KEY: Final = "ALTER TABLE orders ADD PRIMARY KEY (id)"

ROW: Final = """
    i, mod(i * 7919, 100000), mod(i, 30000), 'name ' || i, mod(i, 100000) / 7.0, i / 3.0,
    mod(i, 2) = 0,
    timestamptz '2024-01-01' + i * interval '1.234567 s', md5(i::text)::uuid,
    CASE WHEN mod(i, 3) > 0 THEN repeat('n', mod(i, 40)::integer) END
"""
"""The values of the row with the key `i`. Without %, which means something to the driver."""

_DIGEST: Final = """
SELECT count(*), coalesce(sum(('x' || substr(md5(o::text), 1, 15))::bit(60)::bigint), 0)::text
FROM orders o
"""


def create(url: str, *, key: bool = True) -> None:
    """An empty table."""
    with session(url) as connection:
        connection.execute(TABLE)
        if key:
            connection.execute(KEY)


def fill(url: str, rows: int, *, first: int = 1) -> None:
    """So many rows with consecutive keys, in one transaction."""
    insert = f"INSERT INTO orders SELECT {ROW} FROM generate_series(%s::bigint, %s::bigint) i"
    with session(url) as connection:
        connection.execute(insert, (first, first + rows - 1))


def same_rows(source: str, target: str) -> int:
    """How many rows both hold. Raises when one row is missing, is too many, or differs."""
    ours, theirs = _digest(source), _digest(target)
    if ours != theirs:
        raise RuntimeError(f"the rows differ: {ours} at the source, {theirs} at the target")
    return ours[0]


def _digest(url: str) -> tuple[int, str]:
    """The count of the rows, and a sum over all of them that their order does not change."""
    with psycopg.connect(url) as connection:
        row = connection.execute(_DIGEST).fetchone()
    assert row is not None
    return row[0], row[1]
