"""The tables of the soak: every kind that has ever caused trouble, with rows to begin with."""

from typing import Final

import psycopg
from psycopg import sql

__all__ = ["SEEDED", "prepare"]

SCHEMA: Final = """
CREATE TABLE accounts (
    id bigint PRIMARY KEY,
    email text UNIQUE,
    rank int UNIQUE DEFERRABLE INITIALLY DEFERRED,
    balance numeric(14, 2) NOT NULL DEFAULT 0,
    changed timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE notes (
    id bigint PRIMARY KEY,
    account bigint REFERENCES accounts ON DELETE CASCADE ON UPDATE CASCADE,
    body text
);
CREATE INDEX ON notes (account);
CREATE TABLE documents (id uuid PRIMARY KEY, title text, body text, version int NOT NULL DEFAULT 0);
ALTER TABLE documents ALTER body SET STORAGE EXTERNAL;
CREATE TABLE pairs (a int, b text COLLATE "C", v float8, tags text[], PRIMARY KEY (b, a));
CREATE TABLE events (kind text, payload jsonb, n int);
ALTER TABLE events REPLICA IDENTITY FULL;
CREATE TABLE bursts (id int PRIMARY KEY, v bytea);
CREATE TABLE wide (id int PRIMARY KEY, v int);
"""
"""Unique values to swap, foreign keys that cascade, values beside the row (TOAST), a key of two
columns, a table without a key, one to truncate, one whose columns come and go."""

SEEDED: Final = 100_000
"""Rows of the largest table at the beginning, so that its copy, too, is killed."""

_ROWS: Final = (
    "INSERT INTO accounts SELECT n, 'a' || n || '@example.org', n, n % 1000 "
    "FROM generate_series(1, %(rows)s) n",
    "INSERT INTO notes SELECT n, 1 + (n * 7919) %% %(rows)s, repeat('note ', n %% 40) "
    "FROM generate_series(1, %(rows)s / 2) n",
    "INSERT INTO documents SELECT md5(n::text)::uuid, 'title ' || n, "
    "(SELECT string_agg(md5(n::text || m), '') FROM generate_series(1, 120) m) "
    "FROM generate_series(1, %(rows)s / 50) n",
    "INSERT INTO pairs SELECT n, md5((n %% 97)::text), n / 7.0, ARRAY['t' || n %% 5, NULL] "
    "FROM generate_series(1, %(rows)s / 4) n",
    "INSERT INTO events SELECT 'seed', jsonb_build_object('n', n), n %% 100 "
    "FROM generate_series(1, %(rows)s / 20) n",
    "INSERT INTO wide SELECT n, n FROM generate_series(1, %(rows)s / 100) n",
)


def prepare(url: str, rows: int = SEEDED, schema: str = "public") -> None:
    """Make the tables and their first rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        name = sql.Identifier(schema)
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
        connection.execute(sql.SQL("SET search_path TO {}").format(name))
        connection.execute(SCHEMA)
        for statement in _ROWS:
            connection.execute(statement.replace("n % 1000", "n %% 1000"), {"rows": rows})
        connection.execute("ANALYZE")
