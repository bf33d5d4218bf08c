"""A feed whose database is gone for ever is removed by force, and says what it leaves there."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from lockgate.model.errors import EndpointUnavailable, NotFound
from lockgate.model.feed_config import FeedConfig, read_config
from lockgate.model.feed_status import FeedStatus
from lockgate.model.feeds import FeedState
from lockgate.model.secret import Secret
from lockgate.node.feed import setup
from lockgate.node.service import NodeService
from lockgate.node.service import feeds as desk
from lockgate.store.feeds import FeedEntry
from tests.support.feeds import LEVEL_S, Pair
from tests.support.proxy import FaultProxy
from tests.support.waiting import until

CONFIG: FeedConfig = read_config(
    {"name": "feed", "source": "near", "target": "far", "tables": ["public.*"]}
)


def _through(proxy: FaultProxy, url: str) -> Secret:
    """The database, as it is reached through the proxy."""
    parts = urlsplit(url)
    who = parts.netloc.rpartition("@")[0]
    host = f"127.0.0.1:{proxy.port}"
    return Secret(parts._replace(netloc=f"{who}@{host}" if who else host).geturl())


@pytest.fixture
def proxies(service: NodeService, pair: Pair) -> Iterator[dict[str, FaultProxy]]:
    """A feed that runs between databases that can go away."""
    pair.at_source("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    source, target = (urlsplit(url).port or 5432 for url in (pair.source, pair.target))
    with FaultProxy("127.0.0.1", source) as near, FaultProxy("127.0.0.1", target) as far:
        service.add_endpoint("near", _through(near, pair.source), "test")
        service.add_endpoint("far", _through(far, pair.target), "test")
        service.create_feed(CONFIG, "me")
        assert service.wait_feed("feed", LEVEL_S).level
        yield {"source": near, "target": far}


def _gone(proxy: FaultProxy) -> None:
    proxy.refuse()
    proxy.cut()


def _forced(service: NodeService) -> FeedStatus:
    removed = service.remove_feed("feed", "me", force=True)
    assert removed is not None
    assert removed.state is FeedState.REMOVED
    with pytest.raises(NotFound):
        service.feed("feed")
    return removed


def test_a_source_that_is_gone_is_left_as_it_is(
    service: NodeService, pair: Pair, proxies: dict[str, FaultProxy]
) -> None:
    _gone(proxies["source"])
    notes = " ".join(_forced(service).notes)
    [(slot,)] = pair.slots()
    [(publication,)] = pair.ask_source("SELECT pubname FROM pg_publication")
    assert f"replication slot {slot}" in notes
    assert f"publication {publication}" in notes
    assert "lockgate_ddl_end" in notes
    assert "target" not in notes
    newest, asked, *_ = service.history("feed", None, 10)
    assert (newest.outcome, asked.detail) == ("left behind", "by force")
    assert slot in newest.detail


def test_a_target_that_is_gone_is_left_as_it_is(
    service: NodeService, pair: Pair, proxies: dict[str, FaultProxy]
) -> None:
    _gone(proxies["target"])
    [note] = _forced(service).notes
    assert "lockgate.progress" in note
    assert pair.ask_target("SELECT feed FROM lockgate.progress") == [("feed",)]
    assert pair.slots() == []


def test_by_force_what_can_be_reached_is_cleared_away(
    service: NodeService, pair: Pair, proxies: dict[str, FaultProxy]
) -> None:
    assert service.remove_feed("feed", "me", force=True) is None
    assert pair.slots() == []
    assert pair.ask_source("SELECT pubname FROM pg_publication") == []


def test_a_removal_that_waits_for_a_database_can_be_forced(
    service: NodeService,
    pair: Pair,
    proxies: dict[str, FaultProxy],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _gone(proxies["source"])
    with monkeypatch.context() as patch:
        patch.setattr(desk, "REMOVE_S", 1.0)
        waits = service.remove_feed("feed", "me")
    assert waits is not None
    assert waits.state is not FeedState.REMOVED
    assert "replication slot" in " ".join(_forced(service).notes)


def test_a_removal_that_gives_up_the_target_waits_for_the_source(
    service: NodeService,
    pair: Pair,
    proxies: dict[str, FaultProxy],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So a move does it: its source stays in use, and a slot that was left there would fill it."""
    clear, failed = setup.clear_source, []

    def clearing(*asked: Any) -> None:
        try:
            clear(*asked)
        except EndpointUnavailable as error:
            failed.append(error)
            raise

    def entry() -> FeedEntry | None:
        return service._stores.feeds.read("feed")

    monkeypatch.setattr(setup, "clear_source", clearing)
    for proxy in proxies.values():
        _gone(proxy)
    service._stores.feeds.change(
        "feed",
        lambda now: msgspec.structs.replace(now, removing=True, forced=True, keeps_source=True),
    )
    until(lambda: len(failed) >= 2 or entry() is None, LEVEL_S, 0.1)
    waits = entry()
    assert waits is not None, "it went without its source"
    assert ["target" in each for each in waits.left] == [True]
    proxies["source"].heal()
    until(lambda: entry() is None, LEVEL_S, 0.1)
    assert pair.slots() == []
