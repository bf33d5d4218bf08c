"""What the target's tables look like, remembered by a process as long as it is true.

To look a table up costs more than to change a row in it. But its description lies in rows of the
catalog, and a row that is changed is another row: another place, another transaction. So
one statement for many tables asks for the *stamp* of each, which is its number and, for every
column, where the column's row lies and who made it. As long as the stamp is the same, so is all
that `inspect` would say, save how many rows there are.

A stamp is asked for behind the fence, in the transaction that writes, as `inspect` is.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import psycopg
from psycopg.rows import TupleRow, tuple_row

from lockgate.endpoints.postgres.sink.target import Target, inspect
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.tables import TableName, TableShape

__all__ = ["KnownTargets", "ask_stamps"]

_TARGETS_MAX: Final = 4096

_STAMPS: Final = """
    SELECT w.no, concat_ws(' ', c.oid, c.xmin, c.ctid,
                           string_agg(concat(a.xmin, a.ctid), ' ' ORDER BY a.attnum))
    FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS w (schema, name, no)
         JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
         JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
         JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
    GROUP BY w.no, c.oid, c.xmin, c.ctid
"""


def ask_stamps(
    connection: psycopg.Connection, tables: Sequence[TableName]
) -> psycopg.Cursor[TupleRow]:
    """Ask for the stamps of tables; in a pipeline, without waiting for the answer."""
    cursor = connection.cursor(row_factory=tuple_row)
    names = [table.schema for table in tables], [table.name for table in tables]
    return cursor.execute(_STAMPS, names)


class KnownTargets:
    """Descriptions of tables by their stamps. Any thread may ask."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[PostgresUrl, TableName, TableShape], tuple[str, Target]] = (
            OrderedDict()
        )
        self._lock = threading.Lock()

    def look_up(
        self,
        connection: psycopg.Connection,
        url: PostgresUrl,
        table: TableName,
        shape: TableShape,
        stamp: str | None,
    ) -> Target:
        """The table as it is, from memory if its stamp is the one it had. Raises like `inspect`."""
        place = url, table, shape
        with self._lock:
            known = self._known.get(place)
            if known is not None and known[0] == stamp:
                self._known.move_to_end(place)
                return known[1]
        found = inspect(connection, table, shape)
        if stamp is not None:
            with self._lock:
                self._known[place] = stamp, found
                if len(self._known) > _TARGETS_MAX:
                    self._known.popitem(last=False)
        return found
