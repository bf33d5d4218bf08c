"""Nobody takes an endpoint away, or exchanges it, under a feed that is being created on it.

A feed is created by two steps, looking at its endpoints and entering it; whatever happens to them
in between is done here by a look that does it. Changing an endpoint is two steps likewise.
"""

from collections.abc import Callable

import pytest

from lockgate.model.errors import Conflict
from lockgate.model.feed_config import FeedConfig, read_config
from lockgate.model.secret import Secret
from lockgate.node.feed.setup import entry_of
from lockgate.node.service import NodeService, planning
from tests.support.feeds import Pair

CONFIG: FeedConfig = read_config(
    {"name": "feed", "source": "shop", "target": "copy", "tables": ["public.*"]}
)


def _exchange(service: NodeService, pair: Pair) -> None:
    service.add_endpoint("copy", Secret(pair.source), "test")


def _remove(service: NodeService, _: Pair) -> None:
    service.remove_endpoint("copy", "test")


@pytest.mark.parametrize("meanwhile", [_exchange, _remove])
def test_a_feed_is_not_created_on_an_endpoint_that_is_another_by_now(
    service: NodeService,
    pair: Pair,
    meanwhile: Callable[[NodeService, Pair], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair.at_source("CREATE TABLE a (id int PRIMARY KEY)")
    monkeypatch.setattr(planning, "refuse_if_unfit", lambda *_: meanwhile(service, pair) or ())
    with pytest.raises(Conflict, match="changed or removed"):
        service.create_feed(CONFIG, "me")
    assert service.feeds() == []
    assert pair.slots() == []


@pytest.mark.parametrize(("change", "verb"), [(_exchange, "write"), (_remove, "remove")])
def test_an_endpoint_is_not_taken_from_a_feed_that_came_at_the_last_moment(
    service: NodeService,
    pair: Pair,
    change: Callable[[NodeService, Pair], None],
    verb: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The feed comes after all that the desk looks at before it changes the book."""
    book = service._stores.endpoints
    former, changed = book.read("copy"), getattr(book, verb)

    def late(*given: object) -> object:
        service._stores.feeds.enter("feed", lambda birth: entry_of(CONFIG, "home", birth))
        return changed(*given)

    monkeypatch.setattr(book, verb, late)
    with pytest.raises(Conflict, match="feeds use"):
        change(service, pair)
    assert book.read("copy") == former
