"""Version 5: what a change log knows of its tables, where the source keeps no log of its DDL."""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql


def migrate(connection: sa.Connection) -> None:
    """Make the table."""
    text = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    metadata = sa.MetaData()
    sa.Table(
        "log_shapes",
        metadata,
        sa.Column("feed", text, primary_key=True),
        sa.Column("number", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    metadata.create_all(connection, checkfirst=False)
