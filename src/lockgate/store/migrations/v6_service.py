"""Version 6: what a service keeps: endpoints, tokens, what nodes say of feeds, who did what."""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql


def migrate(connection: sa.Connection) -> None:
    """Say of nodes where they are, and make the tables."""
    nodes = sa.Table("nodes", sa.MetaData())
    for name in ("address", "home"):
        statement = f"ALTER TABLE %(fullname)s ADD COLUMN {name} TEXT DEFAULT '' NOT NULL"
        connection.execute(sa.DDL(statement).against(nodes))  # type: ignore[no-untyped-call]
    text = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    number = sa.BigInteger()
    metadata = sa.MetaData()
    sa.Table(
        "endpoints",
        metadata,
        sa.Column("name", text, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    sa.Table(
        "settings",
        metadata,
        sa.Column("key", text, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    reports = sa.Table(
        "reports",
        metadata,
        sa.Column("node", text, primary_key=True),
        sa.Column("feed", text, primary_key=True),
        sa.Column("incarnation", number, nullable=False),
        sa.Column("at", number, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    sa.Index("reports_by_feed", reports.c.feed)
    # Autoincrement: what was trimmed away must not come back under its number as something else.
    history = sa.Table(
        "history",
        metadata,
        sa.Column("id", number.with_variant(sa.Integer(), "sqlite"), primary_key=True),
        sa.Column("at", number, nullable=False),
        sa.Column("who", text, nullable=False),
        sa.Column("verb", text, nullable=False),
        sa.Column("object", text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("outcome", text, nullable=False),
        sqlite_autoincrement=True,
    )
    sa.Index("history_by_object", history.c.object, history.c.id)
    tokens = sa.Table(
        "tokens",
        metadata,
        sa.Column("name", text, primary_key=True),
        sa.Column("role", text, nullable=False),
        sa.Column("digest", text, nullable=False),
        sqlite_with_rowid=False,
    )
    sa.Index("tokens_by_digest", tokens.c.digest)
    metadata.create_all(connection, checkfirst=False)
