"""The book of feeds keeps what was made for a feed, on every kind of metastore."""

from collections.abc import Callable

import msgspec
import pytest

from lockgate.model.errors import StaleOwner
from lockgate.store.feeds import FeedBook, FeedEntry
from lockgate.store.metastore import SqlMetastore
from tests.support.stores import Place

ENTRY = FeedEntry("shop", msgspec.Raw(b'{"name":"shop"}'), "slot", "publication", birth=1)


def _enter(book: FeedBook, **more: object) -> FeedEntry:
    """The feed, of whatever birth it gets."""
    return book.enter("shop", lambda birth: msgspec.structs.replace(ENTRY, birth=birth, **more))


def _removing(book: FeedBook) -> FeedEntry:
    return book.change("shop", lambda found: msgspec.structs.replace(found, removing=True))


def _anew(book: FeedBook) -> tuple[FeedEntry, FeedEntry]:
    """A feed that was removed, and the one that has its name now."""
    _enter(book)
    former = _removing(book)
    book.remove(former)
    return former, _enter(book)


def _book(place: Place) -> FeedBook:
    store = place.open()
    assert isinstance(store, SqlMetastore)
    return FeedBook(store.transactions)


def test_an_entry_is_kept_until_it_is_removed(sql: Place) -> None:
    book = _book(sql)
    assert book.read("shop") is None
    assert _enter(book) == ENTRY
    book.write(msgspec.structs.replace(ENTRY, start=7, tables=("public.orders",)))
    again = _book(sql)
    found = again.read("shop")
    assert found is not None
    assert (found.start, found.tables) == (7, ("public.orders",))
    assert bytes(found.config) == bytes(ENTRY.config)
    again.remove(_removing(again))
    assert book.read("shop") is None


def test_that_a_feed_is_finished_takes_nothing_back(sql: Place) -> None:
    """Who finishes does not know what else was written meanwhile."""
    book = _book(sql)
    with pytest.raises(StaleOwner):
        book.finish(ENTRY)
    _enter(book, removing=True)
    book.finish(ENTRY)
    found = book.read("shop")
    assert found is not None
    assert (found.finished, found.removing) == (True, True)


def test_an_entry_of_before_is_not_finished() -> None:
    body = msgspec.json.decode(msgspec.json.encode(ENTRY))
    del body["finished"]
    assert not msgspec.json.decode(msgspec.json.encode(body), type=FeedEntry).finished


def test_who_enters_a_feed_that_is_there_finds_it_as_it_is(sql: Place) -> None:
    book = _book(sql)
    _enter(book)
    assert _enter(book, slot="another") == ENTRY
    assert [entry.feed for entry in book.all()] == ["shop"]


def test_what_an_earlier_attempt_writes_is_refused(sql: Place) -> None:
    """Two processes set up one feed at the same moment: the later one does."""
    book = _book(sql)
    _enter(book)
    first = book.begin_attempt(ENTRY)
    second = book.begin_attempt(ENTRY)
    assert first.slot == "slot"
    assert (second.slot, second.former_slots) == ("slot_2", ("slot",))
    assert book.begin_attempt(ENTRY).former_slots == ("slot", "slot_2")
    with pytest.raises(StaleOwner):
        book.write(msgspec.structs.replace(first, start=1))
    with pytest.raises(StaleOwner):
        book.write(msgspec.structs.replace(second, start=1))
    found = book.read("shop")
    assert found is not None
    assert (found.start, found.slot) == (None, "slot_3")


def test_a_set_up_does_not_bring_back_a_feed_that_is_being_removed(sql: Place) -> None:
    book = _book(sql)
    _enter(book)
    mine = book.begin_attempt(ENTRY)
    removing = _removing(book)
    with pytest.raises(StaleOwner):
        book.write(msgspec.structs.replace(mine, start=1))
    book.remove(removing)
    with pytest.raises(StaleOwner):
        book.write(msgspec.structs.replace(mine, start=1))
    assert book.read("shop") is None


def test_a_name_may_be_used_again_and_a_birth_never(sql: Place) -> None:
    book = _book(sql)
    assert book.next_birth() == 1
    former, new = _anew(book)
    assert (former.birth, new.birth, book.next_birth()) == (1, 2, 3)


def test_a_removal_of_a_feed_leaves_another_of_its_name(sql: Place) -> None:
    book = _book(sql)
    former, new = _anew(book)
    for stale in (lambda: book.check_removing(former), lambda: book.remove(former)):
        with pytest.raises(StaleOwner):
            stale()
    _removing(book)
    with pytest.raises(StaleOwner):
        book.remove(former)
    assert book.read("shop") == msgspec.structs.replace(new, removing=True)


def test_only_a_feed_that_is_being_removed_is_struck_out(sql: Place) -> None:
    book = _book(sql)
    _enter(book)
    with pytest.raises(StaleOwner):
        book.remove(ENTRY)
    assert book.read("shop") == ENTRY


@pytest.mark.parametrize("verb", [FeedBook.begin_attempt, FeedBook.write, FeedBook.finish])
def test_who_speaks_for_a_feed_that_is_gone_is_refused(
    verb: Callable[[FeedBook, FeedEntry], object], sql: Place
) -> None:
    book = _book(sql)
    _, new = _anew(book)
    with pytest.raises(StaleOwner):
        verb(book, ENTRY)
    assert book.read("shop") == new


def test_a_feed_that_is_set_up_is_not_set_up_again(sql: Place) -> None:
    """It would run with the slot of an attempt that made none."""
    book = _book(sql)
    mine = book.begin_attempt(_enter(book))
    book.write(msgspec.structs.replace(mine, start=7))
    with pytest.raises(StaleOwner):
        book.begin_attempt(ENTRY)
    found = book.read("shop")
    assert found is not None
    assert (found.slot, found.start) == ("slot", 7)


def test_a_set_up_fails_by_its_last_attempt_alone(sql: Place) -> None:
    book = _book(sql)
    first = book.begin_attempt(_enter(book))
    second = book.begin_attempt(first)
    with pytest.raises(StaleOwner):
        book.fail(first, "no")
    book.fail(second, "no")
    found = book.read("shop")
    assert found is not None
    assert (found.error, book.begin_attempt(second).error) == ("no", "")


def test_a_feed_that_is_set_up_has_not_failed(sql: Place) -> None:
    book = _book(sql)
    mine = book.begin_attempt(_enter(book))
    book.write(msgspec.structs.replace(mine, start=7))
    with pytest.raises(StaleOwner):
        book.fail(mine, "no")


def test_an_entry_of_before_births_is_taken_as_it_is(sql: Place) -> None:
    """Its names are those of then, and what is entered next is told apart from it."""
    book = _book(sql)
    _enter(book)
    former = book.change("shop", lambda found: msgspec.structs.replace(found, birth=0))
    body = msgspec.json.decode(msgspec.json.encode(former))
    del body["birth"]
    assert msgspec.json.decode(msgspec.json.encode(body), type=FeedEntry) == former
    book.remove(_removing(book))
    new = _enter(book)
    with pytest.raises(StaleOwner):
        book.remove(former)
    assert book.read("shop") == new
