"""Databases for the tests of PostgreSQL endpoints, on the servers that all tests share."""

from collections.abc import Iterator

import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from tests.support.databases import fresh_database


@pytest.fixture(params=[16, 18])
def server(request: pytest.FixtureRequest) -> EmbeddedPostgres:
    """Each server in turn."""
    found = request.getfixturevalue(f"pg{request.param}")
    assert isinstance(found, EmbeddedPostgres)
    return found


@pytest.fixture
def database(pg18: EmbeddedPostgres) -> Iterator[str]:
    """The URL of an empty database on PostgreSQL 18, as superuser."""
    with fresh_database(pg18) as url:
        yield url


@pytest.fixture
def database16(pg16: EmbeddedPostgres) -> Iterator[str]:
    """The URL of an empty database on PostgreSQL 16, as superuser."""
    with fresh_database(pg16) as url:
        yield url


@pytest.fixture
def database_of(server: EmbeddedPostgres) -> Iterator[str]:
    """The URL of an empty database on each server in turn."""
    with fresh_database(server) as url:
        yield url
