"""What tests of several packages share: a Spark, and PostgreSQL servers of two versions.

A test gets databases of its own and leaves the server as it was: no settings changed, no slot.
"""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.pipeline.session import Spark
from tests.support.scratch import use_memory
from tests.support.spark import started

# Room for many tests; no power cut threatens these servers, so no fsync.
_SETTINGS = {
    "fsync": "off",
    "wal_level": "logical",
    "max_connections": 60,
    "max_replication_slots": 20,
    "max_wal_senders": 20,
    "max_prepared_transactions": 8,
}


def pytest_configure() -> None:
    use_memory()
    # How long an example takes is the machine's affair.
    settings.register_profile("lockgate", deadline=None)
    settings.load_profile("lockgate")


@pytest.fixture(scope="session")
def pg18() -> Iterator[EmbeddedPostgres]:
    """A server of the newest version, ready for logical replication."""
    with EmbeddedPostgres(18, settings=_SETTINGS) as server:
        yield server


@pytest.fixture(scope="session")
def pg16() -> Iterator[EmbeddedPostgres]:
    """A server of an older version, ready for logical replication."""
    with EmbeddedPostgres(16, settings=_SETTINGS) as server:
        yield server


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """The one local Spark of the whole run: two slots, warm, its events logged to a directory."""
    with started(events=tmp_path_factory.mktemp("spark-events")) as spark:
        yield spark
