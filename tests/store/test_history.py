"""The history: the newest first, a page at a time, no number given twice."""

from datetime import UTC, datetime, timedelta

import pytest

from lockgate.model.documents import HistoryEntry
from lockgate.store.history import History
from lockgate.store.metastore import SqlMetastore
from tests.support.stores import LEASE_MS, Place


@pytest.fixture
def history(sql: Place) -> History:
    store = sql.open()
    assert isinstance(store, SqlMetastore)
    return History(store.transactions, store.clock)


def ids(entries: list[HistoryEntry]) -> list[int]:
    return [entry.id for entry in entries]


def test_an_entry_says_who_did_what_to_what_and_how_it_went(history: History) -> None:
    history.write("ci", "feed create", "shop", detail="3 tables", outcome="done")
    [entry] = history.read("shop", None, 10)
    assert (entry.who, entry.verb, entry.object) == ("ci", "feed create", "shop")
    assert (entry.detail, entry.outcome) == ("3 tables", "done")


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_007, "2023-11-14T22:13:20.007Z"),
        (4_102_444_800_999, "2100-01-01T00:00:00.999Z"),
    ],
)
def test_time_is_told_in_utc(sql: Place, history: History, at: int, told: str) -> None:
    sql.clock.now = at
    history.write("ci", "feed create", "shop")
    assert [entry.at for entry in history.read("", None, 10)] == [told]


def test_time_is_the_stores_own(sql: Place) -> None:
    with SqlMetastore.open(sql.url, lease_ms=LEASE_MS) as store:
        history = History(store.transactions, store.clock)
        history.write("ci", "feed create", "shop")
        [entry] = history.read("", None, 1)
    assert abs(datetime.fromisoformat(entry.at) - datetime.now(UTC)) < timedelta(minutes=5)


def test_of_one_object_or_of_all(history: History) -> None:
    for name in ("shop", "lake", "shop"):
        history.write("ci", "feed pause", name)
    assert ids(history.read("shop", None, 10)) == [3, 1]
    assert ids(history.read("lake", None, 10)) == [2]
    assert ids(history.read("", None, 10)) == [3, 2, 1]
    assert history.read("sho", None, 10) == []


def test_a_page_goes_on_where_the_last_one_ended(history: History) -> None:
    for _ in range(5):
        history.write("ci", "feed pause", "shop")
    first = history.read("shop", None, 2)
    history.write("ci", "feed resume", "shop")
    second = history.read("shop", first[-1].id, 2)
    third = history.read("shop", second[-1].id, 2)
    assert [ids(page) for page in (first, second, third)] == [[5, 4], [3, 2], [1]]


@pytest.mark.parametrize(("before", "found"), [(2**80, [1]), (2**63, [1]), (0, []), (-(2**80), [])])
def test_a_number_beyond_all_numbers_is_no_error(
    history: History, before: int, found: list[int]
) -> None:
    history.write("ci", "feed pause", "shop")
    assert ids(history.read("", before, 10)) == found


def test_trimming_leaves_the_newest(history: History) -> None:
    for _ in range(5):
        history.write("ci", "feed pause", "shop")
    assert history.trim(2) == 3
    assert ids(history.read("", None, 10)) == [5, 4]
    assert history.trim(2) == 0
    assert ids(history.read("", None, 10)) == [5, 4]


def test_no_number_is_given_twice_even_when_all_was_trimmed(history: History) -> None:
    history.write("ci", "feed pause", "shop")
    assert history.trim(0) == 1
    history.write("ci", "feed pause", "shop")
    assert ids(history.read("", None, 10)) == [2]


def test_a_remark_with_what_no_database_holds_is_kept_without_it(history: History) -> None:
    history.write("ci", "feed create", "a\0b", detail="lone \ud800", outcome="refused")
    [entry] = history.read("", None, 10)
    assert (entry.object, entry.detail) == ("a\N{REPLACEMENT CHARACTER}b", "lone ?")
    assert history.read("a\0b", None, 10) == []
