"""The book of endpoints keeps what people wrote, and shows it to nobody by accident."""

import pytest
import sqlalchemy as sa

from lockgate.model.errors import MetastoreUnreadable, UsageError
from lockgate.model.secret import Secret
from lockgate.store import tables
from lockgate.store.endpoints import EndpointBook, EndpointEntry
from lockgate.store.metastore import SqlMetastore
from tests.support.stores import Place

SHOP = EndpointEntry("shop", Secret("postgres://app:hunter2@db/shop?x=${env:X}"))


def _store(place: Place) -> SqlMetastore:
    store = place.open()
    assert isinstance(store, SqlMetastore)
    return store


@pytest.fixture
def book(sql: Place) -> EndpointBook:
    return EndpointBook(_store(sql).transactions)


def test_an_endpoint_is_read_as_it_was_written(sql: Place, book: EndpointBook) -> None:
    book.write(SHOP)
    found = EndpointBook(_store(sql).transactions).read("shop")
    assert found is not None
    assert (found.name, found.url.reveal()) == ("shop", SHOP.url.reveal())


def test_a_second_url_takes_the_place_of_the_first(book: EndpointBook) -> None:
    book.write(SHOP)
    other = EndpointEntry("shop", Secret("postgres://other/shop"))
    book.write(other)
    assert book.all() == [other]


def test_endpoints_come_by_name_whatever_the_locale(book: EndpointBook) -> None:
    for name in ("b", "a", "B", "ä"):
        book.write(EndpointEntry(name, Secret("postgres://db/x")))
    assert [entry.name for entry in book.all()] == ["B", "a", "b", "ä"]


def test_an_endpoint_that_was_removed_is_gone(book: EndpointBook) -> None:
    book.write(SHOP)
    assert book.remove("shop")
    assert book.read("shop") is None
    assert not book.remove("shop")


def test_an_entry_prints_no_password(book: EndpointBook) -> None:
    book.write(SHOP)
    assert "hunter2" not in f"{SHOP!r} {book.read('shop')} {book.all()}"


@pytest.mark.parametrize("name", ["a\0b", "a\ud800"])
def test_a_name_that_no_database_holds_is_not_there(book: EndpointBook, name: str) -> None:
    assert book.read(name) is None
    assert not book.remove(name)


@pytest.mark.parametrize("name", ["a\0b", "a\ud800"])
def test_a_name_that_no_database_holds_is_wrong_usage(book: EndpointBook, name: str) -> None:
    with pytest.raises(UsageError):
        book.write(EndpointEntry(name, SHOP.url))


@pytest.mark.parametrize("body", ["", '{"name":"shop"}', '{"name":"shop","url":["hunter2"]}'])
def test_an_entry_that_is_none_is_told_without_its_text(sql: Place, body: str) -> None:
    store = _store(sql)
    row = sa.insert(tables.endpoints).values(name="shop", body=body)
    store.transactions.write(lambda connection, _: (connection.execute(row), True))
    with pytest.raises(MetastoreUnreadable) as caught:
        EndpointBook(store.transactions).read("shop")
    assert "hunter2" not in str(caught.value.as_dict())


def test_a_metastore_that_does_not_answer_is_told_by_its_place(sql: Place) -> None:
    store = _store(sql)
    drop = sa.schema.DropTable(tables.endpoints)
    store.transactions.write(lambda connection, _: (connection.execute(drop), True))
    with pytest.raises(MetastoreUnreadable) as caught:
        EndpointBook(store.transactions).write(SHOP)
    assert caught.value.object == store.label
    assert caught.value.operation == "write the book of endpoints"
    assert "hunter2" not in str(caught.value.as_dict())
