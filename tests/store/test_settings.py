"""What is decided once holds for everybody, also when all decide at the same moment."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lockgate.store.metastore import SqlMetastore
from lockgate.store.settings import Settings
from tests.support.stores import LEASE_MS, Place

DECIDERS = 4
ROUNDS = 10


@pytest.fixture
def stores(sql: Place) -> Iterator[list[SqlMetastore]]:
    """Handles of several processes, who wait for each other as long as it takes."""
    opened = [
        SqlMetastore.open(sql.url, lease_ms=LEASE_MS, timeout_ms=30_000) for _ in range(DECIDERS)
    ]
    yield opened
    for store in opened:
        store.close()


def test_the_first_value_stays(stores: list[SqlMetastore]) -> None:
    first, second = (Settings(store.transactions) for store in stores[:2])
    assert first.read("key") is None
    assert first.once("key", "mine") == "mine"
    assert second.once("key", "yours") == "mine"
    assert second.read("key") == "mine"


def test_keys_do_not_mix(stores: list[SqlMetastore]) -> None:
    settings = Settings(stores[0].transactions)
    settings.once("a", "1")
    assert settings.once("b", "2") == "2"


def test_all_who_decide_at_once_are_answered_the_same(stores: list[SqlMetastore]) -> None:
    gate = threading.Barrier(DECIDERS)

    def decide(number: int) -> list[str]:
        settings = Settings(stores[number].transactions)
        answers = []
        for at in range(ROUNDS):
            gate.wait(60)
            answers.append(settings.once(f"key {at}", f"of {number}"))
        return answers

    with ThreadPoolExecutor(DECIDERS) as pool:
        answers = [*pool.map(decide, range(DECIDERS))]
    reader = Settings(stores[0].transactions)
    assert answers == [[reader.read(f"key {at}") for at in range(ROUNDS)]] * DECIDERS
