"""Version 3: the change log of a feed."""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql


def migrate(connection: sa.Connection) -> None:
    """Make its three tables."""
    text = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    number = sa.BigInteger()
    metadata = sa.MetaData()
    sa.Table(
        "changelog",
        metadata,
        sa.Column("feed", text, primary_key=True),
        sa.Column("epoch", number, nullable=False),
        sa.Column("seq", number, nullable=False),
        sa.Column("incarnation", number, nullable=False),
        sa.Column("floor", number, nullable=False),
        sa.Column("resolved", number, nullable=False),
        sa.Column("next_seq", number, nullable=False),
        sqlite_with_rowid=False,
    )
    segments = sa.Table(
        "segments",
        metadata,
        sa.Column("feed", text, primary_key=True),
        sa.Column("id", number, primary_key=True, autoincrement=False),
        sa.Column("table", text, nullable=False),
        sa.Column("shape", text, nullable=False),
        sa.Column("path", text, nullable=False),
        sa.Column("low", number, nullable=False),
        sa.Column("high", number, nullable=False),
        sa.Column("rows", number, nullable=False),
        sa.Column("bytes", number, nullable=False),
        sa.Column("written_at", number, nullable=False),
        sqlite_with_rowid=False,
    )
    # A reader asks for what ends after where it stands, which is near the end of a long log.
    sa.Index("segments_by_high", segments.c.feed, segments.c.high)
    sa.Table(
        "schema_changes",
        metadata,
        sa.Column("feed", text, primary_key=True),
        sa.Column("position", number, primary_key=True, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    metadata.create_all(connection, checkfirst=False)
