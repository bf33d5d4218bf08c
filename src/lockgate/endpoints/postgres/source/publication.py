"""The publication of a feed: which tables its slot sends, and which rows of them.

A publication is a promise that the source's own users pay for: with a table in it that has no
replica identity, or with a row filter over columns outside of that identity, *their* updates and
deletes fail from then on. The server does not say so when the publication is made. So it is asked
in the same transaction, and a publication that would do harm never comes to be.
"""

import re
from collections.abc import Sequence
from typing import Final

import psycopg
from psycopg import errors as pg
from psycopg import sql

from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.source.errors import (
    FilterRefused,
    NotOurs,
    TableUnpublishable,
)
from lockgate.endpoints.postgres.source.names import PREFIX
from lockgate.endpoints.postgres.source.reports import publication_lost
from lockgate.model.tables import TableName
from lockgate.model.value import Value

__all__ = ["Published", "check", "create", "drop", "read", "set_tables"]

_FILTERS_FROM: Final = 150000
"""The first server version with row filters."""


class Published(Value, frozen=True):
    """A table of a publication."""

    table: TableName
    where: str = ""
    """A condition in SQL: rows for which it is not true are not sent. Empty for all rows."""


# --- verbs --------------------------------------------------------------------------------------


def create(
    connection: psycopg.Connection,
    name: str,
    tables: Sequence[Published],
    *,
    via_root: bool = True,
) -> None:
    """Make the publication, or bring the one that is there to these tables.

    With `via_root`, changes of partitions are sent as changes of the partitioned table.
    """
    _refuse_foreign(name)
    if read(connection, name) is not None:
        set_tables(connection, name, tables)
        return
    listed = (
        sql.SQL("FOR TABLE {}").format(_listed(connection.info.server_version, tables))
        if tables
        else sql.SQL("")
    )
    statement = sql.SQL(
        "CREATE PUBLICATION {name} {tables} "
        "WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = {root})"
    ).format(name=sql.Identifier(name), tables=listed, root=sql.Literal(via_root))
    _run(connection, name, statement, "create a publication")


def set_tables(connection: psycopg.Connection, name: str, tables: Sequence[Published]) -> None:
    """Have the publication hold these tables and no others. PublicationLost when it is gone."""
    _refuse_foreign(name)
    now = read(connection, name)
    if now is None:
        raise publication_lost(name)
    if tables:
        statement = sql.SQL("ALTER PUBLICATION {} SET TABLE {}").format(
            sql.Identifier(name), _listed(connection.info.server_version, tables)
        )
    elif now:
        statement = sql.SQL("ALTER PUBLICATION {} DROP TABLE {}").format(
            sql.Identifier(name),
            _listed(connection.info.server_version, [Published(table) for table in now]),
        )
    else:
        return
    _run(connection, name, statement, "change a publication")


def read(connection: psycopg.Connection, name: str) -> tuple[TableName, ...] | None:
    """The tables in the publication, in order; None when there is no publication."""
    with faults(object_=name, operation="read a publication"):
        rows = connection.execute(_TABLES, (name,)).fetchall()
    if not rows:
        return None
    return tuple(sorted(TableName(schema, table) for schema, table in rows if table is not None))


def check(connection: psycopg.Connection, name: str) -> tuple[TableName, ...]:
    """The tables in the publication; PublicationLost when there is no publication."""
    tables = read(connection, name)
    if tables is None:
        raise publication_lost(name)
    return tables


def drop(connection: psycopg.Connection, name: str) -> bool:
    """Drop the publication, which must bear a name of Lockgate's. False if it was gone."""
    _refuse_foreign(name)
    if read(connection, name) is None:
        return False
    with faults(object_=name, operation="drop a publication"):
        connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(name)))
    return True


_TABLES: Final = """
SELECT n.nspname::text, c.relname::text
  FROM pg_publication p
  LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid
  LEFT JOIN pg_class c ON c.oid = r.prrelid
  LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE p.pubname = %s
"""

# --- what would harm the source's users ---------------------------------------------------------

_LEAVES: Final = """
WITH RECURSIVE member(root, leaf) AS (
    SELECT r.prrelid, r.prrelid FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
     WHERE p.pubname = %(name)s
    UNION
    SELECT m.root, i.inhrelid FROM member m JOIN pg_class c ON c.oid = m.leaf AND c.relkind = 'p'
      JOIN pg_inherits i ON i.inhparent = m.leaf
), leaf AS (
    SELECT m.root, c.oid, c.relreplident, c.relname, n.nspname,
           (SELECT array_agg(k.attnum) FROM pg_index x, unnest(x.indkey::int2[]) k(attnum)
             WHERE x.indrelid = c.oid AND x.indisvalid
               AND CASE c.relreplident WHEN 'd' THEN x.indisprimary
                                       WHEN 'i' THEN x.indisreplident ELSE false END) AS key
      FROM member m JOIN pg_class c ON c.oid = m.leaf AND c.relkind = 'r'
      JOIN pg_namespace n ON n.oid = c.relnamespace
)
"""

_WITHOUT_IDENTITY: Final = (
    _LEAVES
    + """
SELECT nspname::text, relname::text FROM leaf WHERE relreplident <> 'f' AND key IS NULL
 ORDER BY 1, 2 LIMIT 1
"""
)

_FILTER_OUTSIDE_IDENTITY: Final = (
    _LEAVES
    + """
SELECT n.nspname::text, c.relname::text, a.attname::text
  FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
  JOIN pg_depend d ON d.classid = 'pg_publication_rel'::regclass AND d.objid = r.oid
   AND d.refclassid = 'pg_class'::regclass AND d.refobjid = r.prrelid AND d.refobjsubid > 0
  JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_attribute a ON a.attrelid = r.prrelid AND a.attnum = d.refobjsubid
  JOIN leaf l ON l.root = r.prrelid AND l.relreplident <> 'f'
  JOIN pg_attribute b ON b.attrelid = l.oid AND b.attname = a.attname
 WHERE p.pubname = %(name)s AND r.prqual IS NOT NULL AND NOT b.attnum = ANY (l.key)
 ORDER BY 1, 2, 3 LIMIT 1
"""
)


_OF_FILTERS: Final = (
    pg.FeatureNotSupported,
    pg.SyntaxError,
    pg.UndefinedColumn,
    pg.UndefinedFunction,
    pg.DatatypeMismatch,
)
"""All that can be wrong with the statements here is what people wrote into them."""


def _run(
    connection: psycopg.Connection, name: str, statement: sql.Composed, operation: str
) -> None:
    """Run it, and take it back if it would make updates at the source fail."""
    with faults(object_=name, operation=operation), connection.transaction():
        # With an (empty) list of parameters the server takes one statement and no more,
        # whatever stands in a row filter. Then % would be a placeholder.
        try:
            connection.execute(statement.as_bytes(connection).replace(b"%", b"%%"), ())
        except _OF_FILTERS as error:
            raise FilterRefused(
                "the server does not take a row filter",
                object_=name,
                hint="a filter may use columns, constants and PostgreSQL's own immutable "
                "functions and operators",
                operation=operation,
                cause=error,
            ) from error
        row = connection.execute(_WITHOUT_IDENTITY, {"name": name}).fetchone()
        if row is not None:
            raise TableUnpublishable(
                "the table has no replica identity; published, its rows could no longer be "
                "updated or deleted at the source",
                object_=TableName(*row).id,
                hint="give it a primary key, or ALTER TABLE … REPLICA IDENTITY FULL (or USING "
                "INDEX …), or leave it out of the feed",
                operation=operation,
            )
        if connection.info.server_version < _FILTERS_FROM:
            return
        row = connection.execute(_FILTER_OUTSIDE_IDENTITY, {"name": name}).fetchone()
        if row is not None:
            schema, table, column = row
            raise FilterRefused(
                f"the row filter uses the column {column!r}, which is not part of the replica "
                "identity; rows could no longer be updated or deleted at the source",
                object_=TableName(schema, table).id,
                hint="ALTER TABLE … REPLICA IDENTITY FULL, or filter by columns of the key",
                operation=operation,
            )


# --- statements ---------------------------------------------------------------------------------


def _listed(version: int, tables: Sequence[Published]) -> sql.Composed:
    return sql.SQL(", ").join([entry(version, each) for each in tables])


def entry(version: int, published: Published) -> sql.Composed:
    """How a table is named in a publication of a server of this version."""
    # ONLY: rows of tables that inherit are no rows of this one. Partitions come all the same.
    name = sql.Identifier(published.table.schema, published.table.name)
    table = sql.SQL("ONLY {}").format(name)
    if not published.where:
        return table
    if version < _FILTERS_FROM:
        raise FilterRefused(
            "row filters need PostgreSQL 15 or newer at the source",
            object_=published.table.id,
            hint="leave the filter out, or upgrade the source",
        )
    if not _is_one_condition(published.where):
        raise FilterRefused(
            "the row filter is not one condition",
            object_=published.table.id,
            hint="write what could stand after WHERE, with parentheses and quotes closed, and no "
            "semicolons and comments",
        )
    # A condition is SQL by its nature, written by whoever owns the feed.
    return sql.SQL("{} WHERE ({})").format(table, sql.SQL(published.where))


_TOKEN: Final = re.compile(
    r"""(?P<quoted>[eE]'(?:[^'\\]|''|\\.)*'|'(?:[^']|'')*'|"(?:[^"]|"")*")
    |(?P<bad>--|/\*|;|\$\w*\$|'|")|(?P<open>\()|(?P<close>\))""",
    re.VERBOSE | re.DOTALL,
)


def _is_one_condition(text: str) -> bool:
    """True when nothing in the text can end the parentheses that it is put into."""
    depth = 0
    for token in _TOKEN.finditer(text):
        if token["bad"]:
            return False
        depth += bool(token["open"]) - bool(token["close"])
        if depth < 0:
            return False
    return depth == 0 and bool(text.strip()) and "\0" not in text


def _refuse_foreign(name: str) -> None:
    if not name.startswith(PREFIX):
        raise NotOurs(
            "the publication does not bear a name of Lockgate's",
            object_=name,
            hint="Lockgate leaves alone what it has not made",
        )
