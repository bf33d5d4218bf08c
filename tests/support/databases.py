"""Databases of a test's own on a server that it shares."""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from tests.support.waiting import until

_NUMBERS = itertools.count(1)
_READERS = """
SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = %s AND active
"""
"""Sessions of killed processes, which the server has not missed yet."""


@contextmanager
def fresh_database(server: EmbeddedPostgres) -> Iterator[str]:
    """The URL of an empty database, as superuser; it and its slots are gone afterwards."""
    name = f"test_{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    yield server.url(name)
    with psycopg.connect(server.url(), autocommit=True) as admin:
        until(lambda: not admin.execute(_READERS, (name,)).fetchall(), 20.0)
        admin.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            "WHERE database = %s AND NOT active",
            (name,),
        )
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def left_open(url: str) -> Iterator[psycopg.Connection]:
    """A transaction that has written, in another database of the same server."""
    elsewhere = make_conninfo(url, dbname="postgres", application_name="nightly job")
    with psycopg.connect(elsewhere) as connection:
        connection.execute("SELECT pg_current_xact_id()")
        yield connection
        connection.rollback()
