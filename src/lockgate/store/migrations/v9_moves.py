"""Version 9: moves, and where the traffic of their tables goes."""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql


def migrate(connection: sa.Connection) -> None:
    """Make the tables."""
    text = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    metadata = sa.MetaData()
    sa.Table(
        "moves",
        metadata,
        sa.Column("move", text, primary_key=True),
        sa.Column("birth", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("record", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    sa.Table(
        "routes",
        metadata,
        sa.Column("move", text, primary_key=True),
        sa.Column("table", text, primary_key=True),
        sa.Column("endpoint", text, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sqlite_with_rowid=False,
    )
    metadata.create_all(connection, checkfirst=False)
