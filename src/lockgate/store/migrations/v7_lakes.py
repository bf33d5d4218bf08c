"""Version 7: lakes: what this installation wants to be to each, and the catalog of its tables."""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql


def migrate(connection: sa.Connection) -> None:
    """Make the tables."""
    text = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    metadata = sa.MetaData()
    sa.Table(
        "lakes",
        metadata,
        sa.Column("lake", text, primary_key=True),
        sa.Column("wish", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
    sa.Table(
        "lake_tables",
        metadata,
        sa.Column("lake", text, primary_key=True),
        sa.Column("table", text, primary_key=True),
        sa.Column("incarnation", sa.BigInteger(), primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    metadata.create_all(connection, checkfirst=False)
