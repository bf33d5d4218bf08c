"""Targets for the tests of the sink. Feeds are many in one database: making one takes long."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.sink import few
from lockgate.model.tables import TableShape
from tests.endpoints.postgres.sink.place import DDL, SHAPE, Place, Places
from tests.endpoints.postgres.sink.target import AT_ONCE, Target
from tests.support.databases import fresh_database


def _common(server: EmbeddedPostgres) -> str:
    """The URL of the database that all targets on this server share."""
    with psycopg.connect(server.url(), autocommit=True) as admin:
        if not admin.execute("SELECT FROM pg_database WHERE datname = 'fences'").fetchall():
            admin.execute("CREATE DATABASE fences")
    return server.url("fences")


@pytest.fixture
def target(server: EmbeddedPostgres) -> Iterator[Target]:
    """A feed on each server in turn, at which nobody is ended."""
    place = Target(_common(server))
    yield place
    place.close()


@pytest.fixture
def hasty(server: EmbeddedPostgres) -> Iterator[Target]:
    """A feed on each server in turn, at which a claim soon ends who is inside."""
    place = Target(_common(server), AT_ONCE)
    yield place
    place.close()


@pytest.fixture(params=[0, few.ROWS_MAX], ids=["staged", "few"])
def rows_max(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The tests' small batches are written as larger ones are, and as small ones."""
    monkeypatch.setattr(few, "ROWS_MAX", request.param)
    limit: int = request.param
    return limit


@pytest.fixture(scope="module")
def applied(pg18: EmbeddedPostgres) -> Iterator[str]:
    """The URL of one database for all places of a module: each has a schema of its own."""
    with fresh_database(pg18) as found:
        yield found


@pytest.fixture
def places(applied: str) -> Iterator[Places]:
    made = []

    def make(ddl: str = DDL, shape: TableShape = SHAPE, **more: Any) -> Place:
        made.append(Place(applied, ddl, shape, **more))
        return made[-1]

    yield make
    for place in made:
        place.close()


@pytest.fixture
def place(places: Places) -> Place:
    """A table with a key, a large column and a unique one."""
    return places()
