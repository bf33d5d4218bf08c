"""A keeper that was paused goes on with what it had in hand, when everything is otherwise.

Its work is taken from a keeper that has looked and not begun: there stands a coordinator's node
that was stopped, or whose work waits for a free thread. Where it was paused only after it looked
at the book once more, the book's check is taken out.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import msgspec
import pytest

from lockgate.model.errors import Conflict, StaleOwner, UsageError
from lockgate.model.feed_config import FeedConfig, read_config
from lockgate.model.feeds import FeedState
from lockgate.model.records import FeedRecord
from lockgate.node.feed import setup
from lockgate.node.service import NodeService
from lockgate.node.service.keeper import AT_ONCE, Keeper
from lockgate.store.feeds import FeedBook, FeedEntry
from tests.support.databases import left_open
from tests.support.feeds import LEVEL_S, Pair
from tests.support.waiting import until

DOCUMENT = {"name": "feed", "source": "shop", "target": "copy", "tables": ["public.*"]}
CONFIG: FeedConfig = read_config({**DOCUMENT, "flush_interval_ms": 50})


class World(NamedTuple):
    """A feed runs whose name was another's, and somebody is still busy with that other one."""

    service: NodeService
    pair: Pair
    former: FeedEntry
    ran: FeedRecord
    removed: FeedRecord
    late: Keeper

    def assert_well(self) -> None:
        """The feed has what it needs, and goes on."""
        entry = self.service._stores.feeds.read("feed")
        assert entry is not None
        assert not entry.removing
        assert self.pair.slots() == [(entry.slot,)]
        self.pair.at_source("CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO b VALUES (1)")
        assert self.service.wait_feed("feed", LEVEL_S).level
        self.pair.assert_equal("public.a", "public.b")


def _keeper(service: NodeService) -> Keeper:
    return Keeper(service._stores, service._keeper._contexts, service._cluster)


def _record(service: NodeService) -> FeedRecord:
    return service._cluster.records()["feed"]


@pytest.fixture
def world(service: NodeService, pair: Pair) -> World:
    pair.at_source("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    service.create_feed(CONFIG, "me")
    ran = _record(service)
    former = service._stores.feeds.read("feed")
    assert former is not None
    service.remove_feed("feed", "me")
    removed = _record(service)
    assert removed.state is FeedState.REMOVED
    pair.at_target("DROP TABLE a")
    service.create_feed(CONFIG, "me")
    assert service.wait_feed("feed", LEVEL_S).level
    former = msgspec.structs.replace(former, removing=True)
    return World(service, pair, former, ran, removed, _keeper(service))


def test_a_removal_that_was_outrun_stops_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr(setup, "connect", never)
        patch.setattr(world.service._cluster, "ask_coordinator", never)
        for record in (world.ran, world.removed):
            work = world.late._missing(world.former, record)
            assert work is not None
            with pytest.raises(StaleOwner):
                work()


def test_a_removal_that_was_outrun_after_its_last_look_harms_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outrun(how: Callable[[], None], by: type[Exception]) -> None:
        with pytest.raises(by):
            how()

    source = world.service._keeper._contexts.ends(CONFIG).source
    book = world.service._stores.feeds
    with monkeypatch.context() as patch:
        patch.setattr(FeedBook, "check_removing", lambda *_: None)
        outrun(lambda: world.late._remove(world.former, world.ran), Conflict)
        outrun(lambda: world.late._remove(world.former, world.removed), StaleOwner)
        outrun(lambda: setup.clear(book, world.former, source), StaleOwner)
    world.assert_well()


def test_a_set_up_that_was_outrun_changes_nothing(world: World) -> None:
    began = msgspec.structs.replace(world.former, start=None, removing=False)
    with pytest.raises(StaleOwner):
        world.late._set_up(began)
    with pytest.raises(Conflict, match="removed"):
        world.late._create(msgspec.structs.replace(world.former, removing=False))
    world.assert_well()


def test_a_set_up_that_fails_late_does_not_fail_a_feed_that_runs(
    service: NodeService, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it was paused somebody else has begun after it, and come to the end."""
    pair.at_source("CREATE TABLE a (id int PRIMARY KEY)")
    late, first, prepare = _keeper(service), [True], setup.prepare

    def outrun(*given: Any) -> FeedEntry:
        if not first:
            return prepare(*given)
        first.clear()
        late._set_up(given[3])
        raise UsageError("the target has a feed of this name already", object_="feed", hint="x")

    monkeypatch.setattr(setup, "prepare", outrun)
    service.create_feed(CONFIG, "me")
    assert not first
    entry = service._stores.feeds.read("feed")
    assert entry is not None
    assert (entry.attempt, entry.error) == (2, "")
    assert service.wait_feed("feed", LEVEL_S).level


def test_set_ups_that_wait_for_their_slots_hold_up_no_other_feed_and_not_the_nodes_end(
    service: NodeService, pair: Pair
) -> None:
    names = [f"waits_{number}" for number in range(AT_ONCE)]
    pair.at_source(*(f"CREATE TABLE {name} (id int PRIMARY KEY)" for name in names))
    pair.at_target("CREATE TABLE other (id int PRIMARY KEY)")
    keeper, home = service._keeper, service._keeper._contexts.home
    with left_open(pair.source):
        for name in names:
            config = read_config({**DOCUMENT, "name": name, "tables": [f"public.{name}"]})
            service._stores.feeds.enter(name, partial(setup.entry_of, config, home))
        until(lambda: set(names) <= keeper.worries().keys(), LEVEL_S)
        assert "nightly job" in service.feed(names[0]).error
        there = {"source": "copy", "target": "shop", "tables": ["public.other"]}
        service.create_feed(read_config({**DOCUMENT, **there}), "me")
        assert service.wait_feed("feed", LEVEL_S).level
        service.remove_feed(names[0], "me")
        until(lambda: service._stores.feeds.read(names[0]) is None, LEVEL_S)
        keeper.stop()
    assert not keeper.running
