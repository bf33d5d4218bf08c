"""Two kinds of servers, source and target, with the same settings for everybody who is measured.

Durability is on (`fsync`, `synchronous_commit`: PostgreSQL's defaults). What would come at a moment
of its own choosing is off and done by hand before the clock starts: checkpoints and autovacuum.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

import psycopg

from bench.registry import NotThere

SETTINGS: dict[str, str | int] = {
    "wal_level": "logical",
    "shared_buffers": "1GB",
    "maintenance_work_mem": "256MB",
    "max_wal_size": "32GB",
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
}


@contextmanager
def server(also: Mapping[str, str | int] | None = None) -> Iterator[str]:
    """A fresh PostgreSQL 18, by its URL; gone afterwards. `also` are more settings."""
    try:
        from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
    except ImportError as error:
        raise NotThere(f"there is no PostgreSQL to embed: {error}") from error
    with EmbeddedPostgres(18, settings={**SETTINGS, **(also or {})}, start_timeout_s=60) as running:
        yield running.url()


def program(name: str) -> Path:
    """A client program of the embedded PostgreSQL."""
    from lockgate.endpoints.postgres.embedded_install import account_for_servers, binaries

    return binaries(18, account_for_servers()) / name


@contextmanager
def session(url: str) -> Iterator[psycopg.Connection]:
    """A connection in autocommit."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def execute(url: str, *statements: LiteralString) -> None:
    """One statement after the other, each in a transaction of its own."""
    with session(url) as connection:
        for statement in statements:
            connection.execute(statement)


def settle(*urls: str) -> None:
    """Nothing is left to be done later: statistics are there, and no page is dirty.

    Not the operating system's either, or the next one pays for what the one before has written.
    """
    for url in urls:
        execute(url, "VACUUM ANALYZE", "CHECKPOINT")
    os.sync()
