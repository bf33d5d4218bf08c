"""Sources to fetch from, on each server in turn; one database for all tests of a module."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.url import PostgresUrl
from tests.support.changes import Place, place
from tests.support.databases import fresh_database
from tests.support.tls import TlsFront, make_certificate


@pytest.fixture(scope="module", params=[16, 18])
def home(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a database."""
    server = request.getfixturevalue(f"pg{request.param}")
    assert isinstance(server, EmbeddedPostgres)
    with fresh_database(server) as url:
        yield url


@pytest.fixture
def here(home: str) -> Iterator[Place]:
    """A table that is published and has a slot."""
    with place(home) as found:
        yield found


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Of a server on loopback, with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    return make_certificate(tmp_path_factory.mktemp("tls"), "loopback", "127.0.0.1")


@pytest.fixture(params=["plain", "tls"])
def door(request: pytest.FixtureRequest, here: Place) -> Iterator[PostgresUrl]:
    """The address of the source: in the clear, and through TLS."""
    if request.param == "plain":
        yield here.url
        return
    info = here.connection.info
    certificate, key = request.getfixturevalue("certificate")
    with TlsFront(info.host, info.port, certificate, key) as front:
        options = (("sslmode", "require"),)
        yield msgspec.structs.replace(here.url, port=str(front.port), options=options)
