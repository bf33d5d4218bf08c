"""The tables of the metastore, as the newest migration leaves them.

    lockgate_schema   one row: which migrations have run
    scopes            whose a scope is (fence), and how many batches landed in it (serial)
    records           what they left: one row per record, its body JSON
    nodes             the newest life of every node that ever joined, its lease, and where it is
    leader            one row: the coordinator and its lease; node '' is nobody
    changelog         the change log of a feed: whose it is (token), from where to where it goes
    segments          its files; a file without a row is none of the log's
    schema_changes    what it says of schemas, a row per position
    log_shapes        what its tables look like at its end, where the stream alone tells
    feed_book         what people asked feeds to be, and what was made for them at endpoints
    endpoints         named databases
    settings          what is decided once for the whole cluster
    reports           what a node says of the feeds on it
    history           who did what, when
    tokens            who may ask for what: digests
    diffs             what was compared, and how far that is
    diff_ranges       what came of each range of it
    moves             what people asked moves to be, and how far each is
    routes            where the traffic of tables goes that are moved

Text compares by code point on every backend, so that records come in one order everywhere.
On PostgreSQL the tables live in the schema `lockgate`, put there by the engine's
`schema_translate_map`: what a connection's search_path says plays no part.
"""

from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

__all__ = [
    "SCHEMA",
    "changelog",
    "diff_ranges",
    "diffs",
    "endpoints",
    "feeds",
    "history",
    "lake_tables",
    "lakes",
    "leader",
    "log_shapes",
    "moves",
    "nodes",
    "records",
    "reports",
    "routes",
    "schema_changes",
    "schema_version",
    "scopes",
    "segments",
    "settings",
    "tokens",
    "upsert",
]

SCHEMA: Final = "lockgate"
"""The schema on PostgreSQL. SQLite has none: the file is the metastore's own."""


def _text() -> sa.types.TypeEngine[str]:
    """Text that compares by code point."""
    return sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


_metadata = sa.MetaData()

schema_version = sa.Table(
    "lockgate_schema",
    _metadata,
    sa.Column("one", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)

scopes = sa.Table(
    "scopes",
    _metadata,
    sa.Column("scope", _text(), primary_key=True),
    sa.Column("fence", sa.BigInteger, nullable=False),
    sa.Column("serial", sa.BigInteger, nullable=False),
)

records = sa.Table(
    "records",
    _metadata,
    sa.Column("scope", _text(), primary_key=True),
    sa.Column("kind", _text(), primary_key=True),
    sa.Column("id", _text(), primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)

nodes = sa.Table(
    "nodes",
    _metadata,
    sa.Column("node", _text(), primary_key=True),
    sa.Column("incarnation", sa.BigInteger, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False),
    sa.Column("length_ms", sa.BigInteger, nullable=False),
    sa.Column("address", sa.Text, nullable=False, server_default=""),
    sa.Column("home", sa.Text, nullable=False, server_default=""),
)

leader = sa.Table(
    "leader",
    _metadata,
    sa.Column("one", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("node", _text(), nullable=False),
    sa.Column("incarnation", sa.BigInteger, nullable=False),
    sa.Column("term", sa.BigInteger, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False),
    sa.Column("length_ms", sa.BigInteger, nullable=False),
)

changelog = sa.Table(
    "changelog",
    _metadata,
    sa.Column("feed", _text(), primary_key=True),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("incarnation", sa.BigInteger, nullable=False),
    sa.Column("floor", sa.BigInteger, nullable=False),
    sa.Column("resolved", sa.BigInteger, nullable=False),
    sa.Column("next_seq", sa.BigInteger, nullable=False),
)

segments = sa.Table(
    "segments",
    _metadata,
    sa.Column("feed", _text(), primary_key=True),
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("table", _text(), nullable=False),
    sa.Column("shape", _text(), nullable=False),
    sa.Column("path", _text(), nullable=False),
    sa.Column("low", sa.BigInteger, nullable=False),
    sa.Column("high", sa.BigInteger, nullable=False),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("written_at", sa.BigInteger, nullable=False),
)

schema_changes = sa.Table(
    "schema_changes",
    _metadata,
    sa.Column("feed", _text(), primary_key=True),
    sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("body", sa.Text, nullable=False),
)

log_shapes = sa.Table(
    "log_shapes",
    _metadata,
    sa.Column("feed", _text(), primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("body", sa.Text, nullable=False),
)

feeds = sa.Table(
    "feed_book",
    _metadata,
    sa.Column("feed", _text(), primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)

endpoints = sa.Table(
    "endpoints",
    _metadata,
    sa.Column("name", _text(), primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)

settings = sa.Table(
    "settings",
    _metadata,
    sa.Column("key", _text(), primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)

reports = sa.Table(
    "reports",
    _metadata,
    sa.Column("node", _text(), primary_key=True),
    sa.Column("feed", _text(), primary_key=True),
    sa.Column("incarnation", sa.BigInteger, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

history = sa.Table(
    "history",
    _metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("who", _text(), nullable=False),
    sa.Column("verb", _text(), nullable=False),
    sa.Column("object", _text(), nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("outcome", _text(), nullable=False),
)

lakes = sa.Table(
    "lakes",
    _metadata,
    sa.Column("lake", _text(), primary_key=True),
    sa.Column("wish", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
)

lake_tables = sa.Table(
    "lake_tables",
    _metadata,
    sa.Column("lake", _text(), primary_key=True),
    sa.Column("table", _text(), primary_key=True),
    sa.Column("incarnation", sa.BigInteger, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)

tokens = sa.Table(
    "tokens",
    _metadata,
    sa.Column("name", _text(), primary_key=True),
    sa.Column("role", _text(), nullable=False),
    sa.Column("digest", _text(), nullable=False),
)

diffs = sa.Table(
    "diffs",
    _metadata,
    sa.Column("diff", _text(), primary_key=True),
    sa.Column("attempt", sa.BigInteger, nullable=False),
    sa.Column("state", _text(), nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
)

diff_ranges = sa.Table(
    "diff_ranges",
    _metadata,
    sa.Column("diff", _text(), primary_key=True),
    sa.Column("table", _text(), primary_key=True),
    sa.Column("no", sa.BigInteger, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)

moves = sa.Table(
    "moves",
    _metadata,
    sa.Column("move", _text(), primary_key=True),
    sa.Column("birth", sa.BigInteger, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("record", sa.Text, nullable=False),
)

routes = sa.Table(
    "routes",
    _metadata,
    sa.Column("move", _text(), primary_key=True),
    sa.Column("table", _text(), primary_key=True),
    sa.Column("endpoint", _text(), nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)


def upsert(connection: sa.Connection, table: sa.Table, *, change: bool = True) -> sa.Insert:
    """Insert rows; where the key is taken, change the row (or leave it as it is)."""
    made: postgresql.Insert | sqlite.Insert
    made = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)
    keys = list(table.primary_key)
    if not change:
        return made.on_conflict_do_nothing(index_elements=keys)
    values = {column.name: made.excluded[column.name] for column in table.c if column not in keys}
    return made.on_conflict_do_update(index_elements=keys, set_=values)
