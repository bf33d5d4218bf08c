"""Rigs: two databases per version, emptied after each test rather than made anew for it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from tests.endpoints.postgres.ddl.rig import Rig, rig
from tests.support.databases import fresh_database


@contextmanager
def _pair(server: EmbeddedPostgres) -> Iterator[Rig]:
    with fresh_database(server) as one, fresh_database(server) as other, rig(one, other) as made:
        yield made


@pytest.fixture(scope="session")
def rig16(pg16: EmbeddedPostgres) -> Iterator[Rig]:
    """For `each` alone."""
    with _pair(pg16) as made:
        yield made


@pytest.fixture(scope="session")
def rig18(pg18: EmbeddedPostgres) -> Iterator[Rig]:
    """For `each` and `follower` alone."""
    with _pair(pg18) as made:
        yield made


@pytest.fixture
def follower(rig18: Rig) -> Iterator[Rig]:
    """A rig on PostgreSQL 18."""
    yield rig18
    rig18.reset()


@pytest.fixture(params=[16, 18])
def each(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """A rig on each version."""
    made = request.getfixturevalue(f"rig{request.param}")
    yield made
    made.reset()
