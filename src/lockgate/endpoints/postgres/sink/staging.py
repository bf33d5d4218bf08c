"""Temporary tables that rows are COPYed into, and COPY itself.

A staging table has the target's own types, so a value that does not fit is refused by the COPY,
which knows the row; only where values are kept, a domain is its base type. It has no index and no
statistics: the planner reads its size from the file, and the joins are by the target's key, so it
needs no more. It goes with the transaction.

Its columns have names of their own, for those of the target may be anything: `k0`… the key under
which the target is asked, `c0`… values by their number in the shape, `m0`… whether the target's
value is kept, `n` the row's number where it is needed.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql

from lockgate.endpoints.postgres.sink.copybinary import HEADER, TRAILER, binary_bytes, encodes
from lockgate.endpoints.postgres.sink.copytext import copy_bytes
from lockgate.endpoints.postgres.sink.target import Target

__all__ = ["Field", "Staging", "Values", "between", "copy_in"]

_BLOCK_BYTES: Final = 4 * 2**20
"""How much is built and sent at once: enough for Arrow to be quick, little enough to overlap."""
_BLOCK_ROWS_MAX: Final = 65_536
_FIRST_ROWS: Final = 4_096

Columns = Callable[[int, int], list[Any]]
"""The columns of the rows from a start to a stop."""

Values = Callable[[int, int], Any]
"""The values of one column for the rows from a start to a stop."""


class Field(NamedTuple):
    """One column of a staging table: its name, its type as an expression, its values."""

    name: str
    like: sql.Composable
    """Something of the wanted type, in the words of the target's columns."""
    kind: str
    """The type's name, see `TargetColumn.kind`."""
    values: Values


class Staging:
    """A staging table in the making."""

    def __init__(
        self,
        connection: psycopg.Connection,
        name: str,
        target: Target,
        fields: Sequence[Field],
        *,
        numbered: bool,
        binary: bool,
    ) -> None:
        self.name = sql.Identifier("pg_temp", name)
        self.numbered = numbered
        self._binary = binary
        self._connection = connection
        self._fields = list(fields)
        if numbered:
            self._fields.append(Field("n", sql.SQL("0::bigint"), "int8", _numbers))
        # The types come from the target's columns themselves.
        connection.execute(
            sql.SQL(
                "CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA"
            ).format(
                sql.Identifier(name),
                sql.SQL(", ").join(
                    sql.SQL("{} AS {}").format(field.like, sql.Identifier(field.name))
                    for field in self._fields
                ),
                target.name_sql,
            )
        )

    def copy(self, start: int, stop: int) -> int:
        """COPY some of the rows."""
        return copy_in(
            self._connection,
            self.name,
            [(field.name, field.kind) for field in self._fields],
            lambda low, high: [field.values(low, high) for field in self._fields],
            self._binary,
            start,
            stop,
        )

    def between(self, start: int, stop: int) -> sql.Composable:
        """A condition for some of the rows, to be added to others; all of them if unnumbered."""
        return between(start, stop, self.numbered)


def between(start: int, stop: int, numbered: bool) -> sql.Composable:
    """A condition for some rows of a table `s`, to be added to others; for all if unnumbered."""
    if not numbered:
        return sql.SQL("")
    return sql.SQL(" AND s.n >= {} AND s.n < {}").format(sql.Literal(start), sql.Literal(stop))


def copy_in(
    connection: psycopg.Connection,
    table: sql.Composable,
    fields: Sequence[tuple[str, str]],
    columns: Columns,
    binary: bool,
    start: int,
    stop: int,
) -> int:
    """COPY the rows from `start` to `stop` into a table; `columns` gives a block's values.

    `fields` are the table's columns: names and kinds. With `binary`, in binary form if it is
    known for all of them.
    """
    kinds = [kind for _, kind in fields]
    binary = binary and all(map(encodes, kinds, [one.type for one in columns(start, start)]))
    statement = sql.SQL("COPY {} ({}) FROM STDIN ({})").format(
        table,
        sql.SQL(", ").join(sql.Identifier(name) for name, _ in fields),
        sql.SQL("FORMAT binary" if binary else "FORMAT text"),
    )
    encode = partial(binary_bytes, kinds) if binary else copy_bytes
    with connection.cursor() as cursor:
        with cursor.copy(statement) as copy:
            if binary:
                copy.write(HEADER)
            for block in blocks(columns, start, stop):
                copy.write(encode(block))
            if binary:
                copy.write(TRAILER)
        return cursor.rowcount


def blocks(columns: Columns, start: int, stop: int) -> Iterator[list[Any]]:
    """The rows from `start` to `stop` in blocks of some MiB, whatever rows weigh."""
    step = _FIRST_ROWS
    while start < stop:
        end = min(stop, start + step)
        block = columns(start, end)
        size = max(1, sum(column.nbytes for column in block))
        fitting = max(1, (end - start) * _BLOCK_BYTES // size)
        if size > 2 * _BLOCK_BYTES and end - start > 1:
            step = fitting
            continue
        yield block
        start, step = end, min(fitting, 4 * step, _BLOCK_ROWS_MAX)


def _numbers(start: int, stop: int) -> Any:
    return pa.array(np.arange(start, stop))
