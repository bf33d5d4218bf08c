"""Two databases with a feed between them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.pipeline.session import Spark
from soak.connect import ConnectServer
from tests.support.databases import fresh_database
from tests.support.feeds import Pair
from tests.support.runners import Start, processes


@pytest.fixture(scope="session")
def fragile() -> Iterator[tuple[EmbeddedPostgres, EmbeddedPostgres]]:
    """A source's server and a target's that tests may kill, and start again before they end."""
    settings = {"fsync": "off", "wal_level": "logical", "wal_sender_timeout": "20s"}
    with (
        EmbeddedPostgres(16, settings=settings, start_timeout_s=120) as source,
        EmbeddedPostgres(18, settings=settings, start_timeout_s=120) as target,
    ):
        yield source, target


@pytest.fixture
def fragile_pair(
    fragile: tuple[EmbeddedPostgres, EmbeddedPostgres], spark: Spark, tmp_path: Path
) -> Iterator[Pair]:
    """Databases on servers that may be killed."""
    with fresh_database(fragile[0]) as source, fresh_database(fragile[1]) as target:
        yield Pair(source, target, tmp_path / "home", spark)


@pytest.fixture
def pair(
    pg16: EmbeddedPostgres, pg18: EmbeddedPostgres, spark: Spark, tmp_path: Path
) -> Iterator[Pair]:
    """From PostgreSQL 16 to 18: versions differ in real moves."""
    with fresh_database(pg16) as source, fresh_database(pg18) as target:
        yield Pair(source, target, tmp_path / "home", spark)


@pytest.fixture(scope="session")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """A Spark that outlives the processes that use it, and so do their tasks."""
    with ConnectServer(tmp_path_factory.mktemp("connect") / "log") as server:
        yield server


@pytest.fixture
def ends(pg16: EmbeddedPostgres, pg18: EmbeddedPostgres, tmp_path: Path) -> Iterator[Pair]:
    """Two databases for a feed that processes of their own run."""
    with fresh_database(pg16) as source, fresh_database(pg18) as target:
        yield Pair(source, target, tmp_path / "home")


@pytest.fixture
def start(ends: Pair, connect: ConnectServer) -> Iterator[Start]:
    """Starts processes that run the feed between the ends."""
    with processes(ends, connect.url) as start:
        yield start
