"""Names in SQL: the one place that quotes them, cuts them to length and gives them to copies.

Everything that is made at the target under another name than at the source gets it here, as a
function of names alone: a resumed run, and the log of schema changes, find the same name again.
"""

import hashlib
from typing import Final

from psycopg import sql

from lockgate.model.tables import TableName

__all__ = ["clipped", "collate", "deparsed", "identifier", "kin", "partition_name", "set_aside"]

NAME_BYTES_MAX: Final = 63
"""PostgreSQL cuts longer names, silently."""


def identifier(name: TableName) -> sql.Identifier:
    """A table's name, quoted."""
    return sql.Identifier(name.schema, name.name)


def deparsed(text: str) -> sql.SQL:
    """A piece of SQL that a PostgreSQL server wrote itself, out of its catalog.

    Types, expressions and definitions come quoted from the server's deparser, with every name
    in full, as pg_dump relies on too. Nothing else may be given to this function.
    """
    return sql.SQL(text)


def clipped(name: str, salt: str = "") -> str:
    """`name` if it fits, else its beginning and a mark that keeps two long names apart.

    A `salt` marks the name in any case.
    """
    raw = name.encode()
    if len(raw) <= NAME_BYTES_MAX and not salt:
        return name
    mark = hashlib.sha256(f"{salt}\0{name}".encode()).hexdigest()[:8]
    return raw[: NAME_BYTES_MAX - 9].decode("utf-8", "ignore") + "_" + mark


def set_aside(table: TableName) -> TableName:
    """What a table is called that has moved away and is kept: `_orders_old`.

    The ending stays, however long the name is.
    """
    name = f"_{table.name}_old"
    if len(name.encode()) > NAME_BYTES_MAX:
        mark = hashlib.sha256(table.name.encode()).hexdigest()[:8]
        head = f"_{table.name}".encode()[: NAME_BYTES_MAX - 13].decode("utf-8", "ignore")
        name = f"{head}_{mark}_old"
    return TableName(table.schema, name)


def kin(name: str, table: TableName, target: TableName) -> str:
    """The name at the target of something that stands by a table: an index, a sequence.

    It keeps its name as long as the table does. `orders_pkey` of orders becomes
    `orders_v2_pkey` of orders_v2; a name without the table's gets it in front, for two tables
    that come from two schemas into one may both have it.
    """
    if table.name == target.name:
        return name
    rest = name[len(table.name) :]
    if name.startswith(table.name) and not rest[:1].isalnum():
        return clipped(target.name + rest)
    return clipped(f"{target.name}_{name}")


def partition_name(partition: TableName, root: TableName, target: TableName) -> TableName:
    """Where a partition of `root` lies at the target: beside it, if it does so at the source."""
    schema = target.schema if partition.schema == root.schema else partition.schema
    return TableName(schema, kin(partition.name, root, target))


def collate(collation: tuple[str, str] | None) -> list[sql.Composed]:
    """The clause that names a collation, or nothing."""
    return [] if collation is None else [sql.SQL("COLLATE {}").format(sql.Identifier(*collation))]
