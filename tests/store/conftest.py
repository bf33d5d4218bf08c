"""The places that the metastore's tests run on."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from lockgate.core.ports import Metastore
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from tests.support.stores import Place, memory_place, sql_place, sqlite_url


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL for everybody who does not break it. No power cut threatens it: no fsync."""
    with EmbeddedPostgres(settings={"fsync": "off", "max_connections": 50}) as server:
        yield server


@pytest.fixture
def database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The URL of a database without a metastore."""
    yield postgres.url()
    with psycopg.connect(postgres.url(), options="-c lock_timeout=5s") as admin:
        admin.execute("DROP SCHEMA IF EXISTS lockgate CASCADE")


def _place(kind: str, request: pytest.FixtureRequest) -> Iterator[Place]:
    if kind == "memory":
        yield memory_place()
    elif kind == "sqlite":
        with sql_place(kind, sqlite_url(request.getfixturevalue("tmp_path"))) as place:
            yield place
    else:
        with sql_place(kind, request.getfixturevalue("database")) as place:
            yield place


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Every kind of metastore."""
    yield from _place(request.param, request)


@pytest.fixture(params=["sqlite", "postgres"])
def sql(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Every kind of metastore that has processes and files."""
    yield from _place(request.param, request)


@pytest.fixture
def store(place: Place) -> Metastore:
    """One handle to a metastore of each kind."""
    return place.open()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where a node would keep its SQLite metastore."""
    return tmp_path
