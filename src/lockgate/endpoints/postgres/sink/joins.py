"""How staged rows find the target's: one by one through the key's index, or all in one scan.

The planner takes a staged row for a page read from disk at random, and so prefers to scan the whole
table for some ten thousand rows. But they come in the order of the key where it has a useful one,
so that neighbours are found side by side. Measured on 1,500,000 rows of ten columns, in memory,
microseconds for each staged row:

    staged rows           10,000   30,000   60,000  120,000  240,000
    delete, scanned          9.0     17.6     11.5      4.9      3.2
    delete, by the index     4.0      2.4      2.0      1.9      1.7
    update, scanned          6.2     18.0     10.9      7.6      9.0
    update, by the index     5.2      5.4      4.4      5.7      4.7
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

__all__ = ["joined"]

_FEW: Final = 2_000
"""For fewer rows the planner takes the index by itself."""
_ORDERED: Final = 2
_UNORDERED: Final = 10
"""The target has to have so many times as many rows."""


@contextmanager
def joined(
    connection: psycopg.Connection, size: int, rows: int, *, ordered: bool
) -> Iterator[None]:
    """Have one statement join `size` staged rows with a target of about `rows`."""
    by_index = _FEW <= size <= rows // (_ORDERED if ordered else _UNORDERED)
    if by_index:
        connection.execute("SET LOCAL enable_hashjoin = off")
        connection.execute("SET LOCAL enable_mergejoin = off")
    yield
    if by_index:
        connection.execute("SET LOCAL enable_hashjoin TO DEFAULT")
        connection.execute("SET LOCAL enable_mergejoin TO DEFAULT")
