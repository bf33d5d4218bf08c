"""A source and a target database, on the same server or on two of different versions."""

from collections.abc import Iterator

import psycopg
import pytest

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from tests.support.databases import fresh_database

VERSIONS = [(16, 16), (18, 18), (16, 18), (18, 16)]


@pytest.fixture
def source(database: str) -> Iterator[psycopg.Connection]:
    """A connection to an empty database on PostgreSQL 18."""
    with connect(database, purpose="test", autocommit=True) as connection:
        yield connection


@pytest.fixture
def target(database16: str) -> Iterator[psycopg.Connection]:
    """A connection to an empty database on PostgreSQL 16."""
    with connect(database16, purpose="test", autocommit=True) as connection:
        yield connection


@pytest.fixture(params=VERSIONS, ids=[f"{a}to{b}" for a, b in VERSIONS])
def pair(
    request: pytest.FixtureRequest, pg16: EmbeddedPostgres, pg18: EmbeddedPostgres
) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    """Empty databases to replicate from and to, on every pair of versions."""
    servers = {16: pg16, 18: pg18}
    one, other = (servers[version] for version in request.param)
    with (
        fresh_database(one) as here,
        fresh_database(other) as there,
        connect(here, purpose="test", autocommit=True) as source,
        connect(there, purpose="test", autocommit=True) as target,
    ):
        yield source, target
