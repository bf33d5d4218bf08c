"""The book of feeds keeps what was made for a feed, on every kind of metastore."""

import msgspec

from lockgate.store.feeds import FeedBook, FeedEntry
from lockgate.store.metastore import SqlMetastore
from tests.support.stores import Place

ENTRY = FeedEntry("shop", msgspec.Raw(b'{"name":"shop"}'), "slot", "publication")


def _book(place: Place) -> FeedBook:
    store = place.open()
    assert isinstance(store, SqlMetastore)
    return FeedBook(store.transactions)


def test_an_entry_is_kept_until_it_is_removed(sql: Place) -> None:
    book = _book(sql)
    assert book.read("shop") is None
    book.write(ENTRY)
    book.write(msgspec.structs.replace(ENTRY, start=7, tables=("public.orders",)))
    again = _book(sql)
    found = again.read("shop")
    assert found is not None
    assert (found.start, found.tables) == (7, ("public.orders",))
    assert bytes(found.config) == bytes(ENTRY.config)
    again.remove("shop")
    assert book.read("shop") is None


def test_that_a_feed_is_finished_takes_nothing_back(sql: Place) -> None:
    """Who finishes does not know what else was written meanwhile."""
    book = _book(sql)
    book.finish("shop")
    assert book.read("shop") is None
    book.write(msgspec.structs.replace(ENTRY, removing=True))
    book.finish("shop")
    found = book.read("shop")
    assert found is not None
    assert (found.finished, found.removing) == (True, True)


def test_an_entry_of_before_is_not_finished() -> None:
    body = msgspec.json.decode(msgspec.json.encode(ENTRY))
    del body["finished"]
    assert not msgspec.json.decode(msgspec.json.encode(body), type=FeedEntry).finished
