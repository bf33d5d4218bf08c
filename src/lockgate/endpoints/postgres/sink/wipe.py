"""Rows out at the target: of the whole table, or, for a TRUNCATE, of the keys that are ours.

A span that is not the whole table, or a copy that went on under a second snapshot, must leave
the rows of others alone. Which rows those are only the keys' hash (or the source) can tell; so
the keys that the target holds are read, and those that the TRUNCATE counts for are deleted.
"""

from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql
from pyarrow import csv

from lockgate.endpoints.postgres.sink.target import Target
from lockgate.endpoints.postgres.types import arrow_type, from_text
from lockgate.model.tables import TableShape

__all__ = ["empty", "keys_held"]


def empty(connection: psycopg.Connection, table: sql.Identifier) -> None:
    """All rows out. TRUNCATE where it is allowed; where others refer to the table, DELETE."""
    try:
        with connection.transaction():
            connection.execute(sql.SQL("TRUNCATE {}").format(table))
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.InsufficientPrivilege):
        connection.execute(sql.SQL("DELETE FROM {}").format(table))


def keys_held(connection: psycopg.Connection, target: Target, shape: TableShape) -> list[Any]:
    """The keys of all rows at the target, as Arrow columns of the log's types."""
    statement = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)").format(
        sql.SQL(", ").join(column.name_sql for column in target.key), target.name_sql
    )
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        text = b"".join(map(bytes, copy))
    names = [str(i) for i in range(len(target.key))]
    columns = {column.name: column for column in shape.columns}
    if not text:
        return [pa.array([], arrow_type(columns[name])) for name in shape.key]
    found = csv.read_csv(
        pa.BufferReader(text),
        csv.ReadOptions(column_names=names),
        csv.ParseOptions(newlines_in_values=True),
        csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), null_values=[]),
    )
    return [
        from_text(found[i].combine_chunks(), arrow_type(columns[name]), str(shape.table))
        for i, name in zip(names, shape.key, strict=True)
    ]


def chosen(keys: list[Any], mask: np.ndarray[Any, np.dtype[np.bool_]]) -> list[Any]:
    """Some of the keys."""
    return [column.filter(pa.array(np.asarray(mask))) for column in keys]
