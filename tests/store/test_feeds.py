"""The book of feeds keeps what was made for a feed, on every kind of metastore."""

import msgspec
import pytest

from lockgate.model.errors import StaleOwner
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
    assert book.enter(ENTRY) == ENTRY
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
    with pytest.raises(StaleOwner):
        book.finish("shop")
    book.enter(msgspec.structs.replace(ENTRY, removing=True))
    book.finish("shop")
    found = book.read("shop")
    assert found is not None
    assert (found.finished, found.removing) == (True, True)


def test_an_entry_of_before_is_not_finished() -> None:
    body = msgspec.json.decode(msgspec.json.encode(ENTRY))
    del body["finished"]
    assert not msgspec.json.decode(msgspec.json.encode(body), type=FeedEntry).finished


def test_who_enters_a_feed_that_is_there_finds_it_as_it_is(sql: Place) -> None:
    book = _book(sql)
    book.enter(ENTRY)
    assert book.enter(msgspec.structs.replace(ENTRY, slot="another")) == ENTRY
    assert [entry.feed for entry in book.all()] == ["shop"]


def test_what_an_earlier_attempt_writes_is_refused(sql: Place) -> None:
    """Two processes set up one feed at the same moment: the later one does."""
    book = _book(sql)
    book.enter(ENTRY)
    first = book.begin_attempt("shop")
    second = book.begin_attempt("shop")
    assert first.slot == "slot"
    assert (second.slot, second.former_slots) == ("slot_2", ("slot",))
    assert book.begin_attempt("shop").former_slots == ("slot", "slot_2")
    with pytest.raises(StaleOwner):
        book.write(msgspec.structs.replace(first, start=1))
    with pytest.raises(StaleOwner):
        book.write(msgspec.structs.replace(second, start=1))
    found = book.read("shop")
    assert found is not None
    assert (found.start, found.slot) == (None, "slot_3")


def test_a_set_up_does_not_bring_back_a_feed_that_is_being_removed(sql: Place) -> None:
    book = _book(sql)
    book.enter(ENTRY)
    mine = book.begin_attempt("shop")
    book.change("shop", lambda found: msgspec.structs.replace(found, removing=True))
    with pytest.raises(StaleOwner):
        book.write(msgspec.structs.replace(mine, start=1))
    book.remove("shop")
    with pytest.raises(StaleOwner):
        book.write(msgspec.structs.replace(mine, start=1))
    assert book.read("shop") is None
