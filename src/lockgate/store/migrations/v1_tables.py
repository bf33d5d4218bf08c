"""Version 1: the tables, with nothing in them but a seat for the coordinator."""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql


def migrate(connection: sa.Connection) -> None:
    """Make all tables."""
    # By code point, like SQLite: the order of records must not depend on a server's locale.
    text = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    number = sa.BigInteger()
    one = sa.SmallInteger()
    metadata = sa.MetaData()
    version = sa.Table(
        "lockgate_schema",
        metadata,
        sa.Column("one", one, sa.CheckConstraint("one = 1"), primary_key=True, autoincrement=False),
        sa.Column("version", number, nullable=False),
    )
    sa.Table(
        "scopes",
        metadata,
        sa.Column("scope", text, primary_key=True),
        sa.Column("fence", number, nullable=False),
        sa.Column("serial", number, nullable=False),
        sqlite_with_rowid=False,
    )
    # Without row ids the primary key is the table: a scope lies together, in order.
    sa.Table(
        "records",
        metadata,
        sa.Column("scope", text, primary_key=True),
        sa.Column("kind", text, primary_key=True),
        sa.Column("id", text, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    sa.Table(
        "nodes",
        metadata,
        sa.Column("node", text, primary_key=True),
        sa.Column("incarnation", number, nullable=False),
        sa.Column("expires_at", number, nullable=False),
        sqlite_with_rowid=False,
    )
    leader = sa.Table(
        "leader",
        metadata,
        sa.Column("one", one, sa.CheckConstraint("one = 1"), primary_key=True, autoincrement=False),
        sa.Column("node", text, nullable=False),
        sa.Column("incarnation", number, nullable=False),
        sa.Column("term", number, nullable=False),
        sa.Column("expires_at", number, nullable=False),
    )
    metadata.create_all(connection, checkfirst=False)
    connection.execute(sa.insert(version).values(one=1, version=1))
    connection.execute(
        sa.insert(leader).values(one=1, node="", incarnation=0, term=0, expires_at=0)
    )
