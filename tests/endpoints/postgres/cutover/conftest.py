"""Sides of moves, on each server in turn; one database for all tests of a module."""

from collections.abc import Iterator

import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from tests.endpoints.postgres.cutover.side import Side
from tests.support.databases import fresh_database


@pytest.fixture(scope="module", params=[16, 18])
def home(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a database on each server in turn."""
    server = request.getfixturevalue(f"pg{request.param}")
    assert isinstance(server, EmbeddedPostgres)
    with fresh_database(server) as url:
        yield url


@pytest.fixture
def side(home: str) -> Iterator[Side]:
    """A side on each server in turn."""
    made = Side(home)
    yield made
    made.close()


@pytest.fixture(scope="module")
def home18(pg18: EmbeddedPostgres) -> Iterator[str]:
    """The URL of a database on PostgreSQL 18."""
    with fresh_database(pg18) as url:
        yield url


@pytest.fixture
def here(home18: str) -> Iterator[Side]:
    """A side on PostgreSQL 18, where the version does not matter."""
    made = Side(home18)
    yield made
    made.close()
