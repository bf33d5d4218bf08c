"""Version 4: what people asked for, and what was made for it at the endpoints."""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql


def migrate(connection: sa.Connection) -> None:
    """Make the table."""
    text = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    metadata = sa.MetaData()
    sa.Table(
        "feed_book",
        metadata,
        sa.Column("feed", text, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    metadata.create_all(connection, checkfirst=False)
