"""Version 2: a lease knows its length, so that no jump of the clock can make it endless.

A lease of version 1 has length 0: not known, and so not bounded.
"""

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import DDLCompiler


class _AddColumn(sa.ExecutableDDLElement):
    inherit_cache = False

    def __init__(self, column: "sa.Column[int]") -> None:
        self.column = column


@compiles(_AddColumn)
def _add_column(element: _AddColumn, compiler: DDLCompiler, **_: object) -> str:
    table = compiler.preparer.format_table(element.column.table)
    return f"ALTER TABLE {table} ADD COLUMN {compiler.get_column_specification(element.column)}"


def migrate(connection: sa.Connection) -> None:
    """Add `length_ms` to both tables of leases."""
    for name in ("nodes", "leader"):
        column = sa.Column("length_ms", sa.BigInteger, nullable=False, server_default=sa.text("0"))
        sa.Table(name, sa.MetaData(), column)
        connection.execute(_AddColumn(column))
