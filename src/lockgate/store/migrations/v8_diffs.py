"""Version 8: diffs, and what came of each range that was compared."""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql


def migrate(connection: sa.Connection) -> None:
    """Make the tables."""
    text = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    metadata = sa.MetaData()
    sa.Table(
        "diffs",
        metadata,
        sa.Column("diff", text, primary_key=True),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("state", text, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    sa.Table(
        "diff_ranges",
        metadata,
        sa.Column("diff", text, primary_key=True),
        sa.Column("table", text, primary_key=True),
        sa.Column("no", sa.BigInteger(), primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    metadata.create_all(connection, checkfirst=False)
