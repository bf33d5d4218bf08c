"""A client, and a whole service for it to talk to."""

from collections.abc import Iterator

import pytest

import lockgate
from lockgate.client import Client
from tests.support.served import Served, serve
from tests.support.services import FakeService


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOCKGATE_URL", "LOCKGATE_TOKEN", "LOCKGATE_HOME", "LOCKGATE_CA"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def served() -> Iterator[Served]:
    """A service with two endpoints and the feed `shop` between them."""
    with serve(FakeService()) as running:
        yield running


@pytest.fixture
def lg(served: Served) -> Iterator[Client]:
    """An admin's client, with two endpoints and a feed between them made already."""
    with lockgate.connect(served.url, served.token()) as client:
        client.endpoints.add("shop", "postgres://app:hunter2@db.example/shop")
        client.endpoints.add("copy", "postgres://app:hunter2@db.example/copy")
        client.feeds.create("shop", source="shop", target="copy", tables=["public.*"])
        yield client
