"""Those who enter feeds and those who change endpoints see what the others have left."""

import threading

import msgspec
import pytest

from lockgate.model.errors import Conflict
from lockgate.model.secret import Secret
from lockgate.store.endpoints import EndpointBook, EndpointEntry, unchanged
from lockgate.store.feeds import FeedBook, FeedEntry
from lockgate.store.metastore import SqlMetastore
from lockgate.store.transactions import Transactions
from tests.support.stores import Place

SHOP = EndpointEntry("shop", Secret("postgres://db/shop"))
MOMENT_S = 0.3
"""Time enough for somebody who does not wait for his turn."""


def _transactions(place: Place) -> Transactions:
    store = place.open()
    assert isinstance(store, SqlMetastore)
    return store.transactions


def _entry(birth: int) -> FeedEntry:
    return FeedEntry("feed", msgspec.Raw(b"{}"), "slot", "publication", birth=birth)


def test_who_changes_an_endpoint_sees_the_feed_that_is_just_entered(sql: Place) -> None:
    feeds, endpoints = FeedBook(_transactions(sql)), EndpointBook(_transactions(sql))
    endpoints.write(SHOP)
    seen: list[str] = []

    def look(_: EndpointEntry | None, found: list[FeedEntry], __: object) -> None:
        seen.extend(entry.feed for entry in found)

    remover = threading.Thread(target=lambda: endpoints.remove("shop", look))

    def make(birth: int) -> FeedEntry:
        remover.start()
        remover.join(MOMENT_S)
        return _entry(birth)

    feeds.enter("feed", make, unchanged([SHOP]))
    remover.join()
    assert seen == ["feed"]


def test_who_enters_a_feed_sees_the_endpoint_that_is_just_removed(sql: Place) -> None:
    feeds, endpoints = FeedBook(_transactions(sql)), EndpointBook(_transactions(sql))
    endpoints.write(SHOP)
    refused: list[bool] = []

    def enter() -> None:
        with pytest.raises(Conflict):
            feeds.enter("feed", _entry, unchanged([SHOP]))
        refused.append(True)

    entering = threading.Thread(target=enter)

    def look(*_: object) -> None:
        entering.start()
        entering.join(MOMENT_S)

    endpoints.remove("shop", look)
    entering.join()
    assert refused
    assert feeds.all() == []


def test_two_that_enter_at_once_have_births_of_their_own(sql: Place) -> None:
    books = [FeedBook(_transactions(sql)) for _ in range(4)]
    births: list[int] = []

    def enter(number: int) -> None:
        name = f"feed{number}"
        entry = books[number].enter(
            name, lambda birth: msgspec.structs.replace(_entry(birth), feed=name)
        )
        births.append(entry.birth)

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(len(books))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(births) == [1, 2, 3, 4]
