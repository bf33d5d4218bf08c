"""Where nodes are: read when needed, not more often, and kept when reading fails."""

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial

import pytest

from lockgate.node.link import addresses as module
from lockgate.node.link.addresses import Addresses
from tests.support.waiting import until


class Table:
    """The metastore's list of nodes, and how often it was read."""

    def __init__(self, **nodes: str) -> None:
        self.nodes = nodes
        self.reads = 0
        self.before: Callable[[], None] = lambda: None

    def __call__(self) -> Mapping[str, str]:
        self.reads += 1
        self.before()
        return self.nodes


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def _fail() -> None:
    raise OSError("no metastore at postgres://me:hunter2@db/x")


def _wait(event: threading.Event) -> None:
    event.wait(30)


def test_a_known_address_is_not_read_again(clock: Clock) -> None:
    table = Table(b="http://b")
    find = Addresses(table, max_age_s=5)
    assert [find("b"), find("b")] == ["http://b", "http://b"]
    assert table.reads == 1


def test_an_old_address_is_read_again(clock: Clock) -> None:
    table = Table(b="http://old")
    find = Addresses(table, max_age_s=5)
    find("b")
    table.nodes = {"b": "http://new"}
    clock.now += 4.9
    assert find("b") == "http://old"
    clock.now += 0.2
    assert find("b") == "http://new"


def test_a_node_that_has_left_is_nowhere(clock: Clock) -> None:
    table = Table(b="http://b")
    find = Addresses(table, max_age_s=5)
    find("b")
    table.nodes = {}
    clock.now += 5
    assert find("b") is None


def test_an_unknown_name_is_looked_for_before_the_rest_is_old(clock: Clock) -> None:
    table = Table(b="http://b")
    find = Addresses(table, max_age_s=5)
    find("b")
    table.nodes = {"b": "http://b", "c": "http://c"}
    clock.now += 1
    assert find("c") == "http://c"


def test_an_unknown_name_does_not_hammer_the_metastore(clock: Clock) -> None:
    table = Table()
    find = Addresses(table, max_age_s=5)
    assert [find("c") for _ in range(100)] == [None] * 100
    assert table.reads == 1


def test_a_read_that_fails_keeps_what_is_known(clock: Clock) -> None:
    table = Table(b="http://b")
    find = Addresses(table, max_age_s=5)
    find("b")
    table.before = _fail
    clock.now += 5
    assert find("b") == "http://b"


def test_a_read_that_fails_is_not_repeated_at_once(clock: Clock) -> None:
    table = Table(b="http://b")
    find = Addresses(table, max_age_s=5)
    find("b")
    table.before = _fail
    clock.now += 5
    find("b")
    find("b")
    assert table.reads == 2


def test_failing_reads_are_told_of_once_and_without_the_drivers_words(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    table = Table()
    table.before = _fail
    find = Addresses(table, max_age_s=5)
    with caplog.at_level(logging.WARNING, "lockgate.link"):
        for _ in range(3):
            find("b")
            clock.now += 5
    (line,) = caplog.messages
    assert "OSError" in line
    assert "hunter2" not in line


def test_who_knows_an_address_does_not_wait_for_a_read_that_hangs(clock: Clock) -> None:
    table = Table(b="http://b")
    find = Addresses(table, max_age_s=5)
    find("b")
    clock.now += 5
    go_on = threading.Event()
    table.before = partial(_wait, go_on)
    reader = threading.Thread(target=find, args=("b",))
    reader.start()
    until(lambda: table.reads == 2)
    try:
        assert find("b") == "http://b"
        assert reader.is_alive()
    finally:
        go_on.set()
        reader.join()


def test_several_who_know_nothing_share_one_read(clock: Clock) -> None:
    table = Table(b="http://b")
    find = Addresses(table, max_age_s=5)
    go_on = threading.Event()
    table.before = partial(_wait, go_on)
    found: list[str | None] = []
    readers = [threading.Thread(target=lambda: found.append(find("b"))) for _ in range(4)]
    for reader in readers:
        reader.start()
    until(lambda: table.reads == 1)
    go_on.set()
    for reader in readers:
        reader.join()
    assert (found, table.reads) == (["http://b"] * 4, 1)
