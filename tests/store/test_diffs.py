"""The book of diffs: written only by who has the newest attempt."""

import msgspec
import pytest

from lockgate.model.diffs import (
    DiffColumn,
    DiffOrder,
    DiffRecord,
    DiffSample,
    DiffState,
    DiffTrouble,
    RangeOutcome,
    RowKind,
    TableRecord,
)
from lockgate.model.ids import NodeRef
from lockgate.store import diffs
from lockgate.store.diffs import DiffBook
from lockgate.store.metastore import SqlMetastore
from tests.support.stores import Place

ORDER = DiffOrder(source="old", target="new", tables=("public.*",))
FOUND = RangeOutcome(
    "public.t",
    1,
    10,
    missing=1,
    samples=(DiffSample(RowKind.MISSING, {"id": "1"}, (DiffColumn("v", "x", None),)),),
    position="0/1",
)


@pytest.fixture
def book(sql: Place) -> DiffBook:
    store = sql.open()
    assert isinstance(store, SqlMetastore)
    return DiffBook(store.transactions, store.clock)


def _begin(book: DiffBook, name: str = "d1") -> DiffRecord:
    return book.begin(DiffRecord(id=name, order=ORDER, runner=NodeRef("a", 1), seed=2**62))


def test_what_was_begun_is_read_again(book: DiffBook) -> None:
    record = _begin(book)
    planned = msgspec.structs.replace(record, tables=(TableRecord("t", "t", edges=(("5", "x"),)),))
    kept = book.write(planned)
    assert record.started_ms > 0
    assert kept is not None
    assert (book.read("d1"), kept.tables) == (kept, planned.tables)


def test_begun_again_under_its_name_it_is_the_first_one(book: DiffBook) -> None:
    first = _begin(book)
    other = msgspec.structs.replace(first, seed=7, who="another")
    assert book.begin(other) == first


def test_the_time_between_words_of_its_worker_is_counted(sql: Place) -> None:
    store = sql.open()
    assert isinstance(store, SqlMetastore)
    now_ms = 5_000
    book = DiffBook(store.transactions, lambda _: now_ms)
    waiting = book.begin(DiffRecord(id="d1", order=ORDER, seed=1))
    now_ms = 60_000
    mine = book.take_up("d1", waiting, NodeRef("a", 1))
    assert mine is not None
    now_ms = 62_000
    book.done(mine, [FOUND])
    now_ms = 90_000  # it died, and another takes it up
    again = book.take_up("d1", mine, NodeRef("b", 1))
    assert again is not None
    now_ms = 90_500
    kept = book.write(again)
    assert kept is not None
    assert (kept.seconds, kept.seen_ms, kept.started_ms) == (2.5, 90_500, 5_000)


def test_a_look_is_of_one_moment(book: DiffBook) -> None:
    record = _begin(book)
    book.done(record, [FOUND])
    looked = book.look("d1")
    assert looked is not None
    assert (looked.record.id, looked.ranges) == ("d1", [FOUND])
    assert book.look("d2") is None


def test_what_was_found_first_stays(book: DiffBook) -> None:
    record = _begin(book)
    book.done(record, [FOUND])
    book.done(record, [msgspec.structs.replace(FOUND, missing=0, samples=())])
    assert book.ranges("d1") == [FOUND]


def test_ranges_come_back_with_their_samples(book: DiffBook) -> None:
    record = _begin(book)
    other = msgspec.structs.replace(FOUND, no=0)
    assert book.done(record, [FOUND, other])
    assert book.ranges("d1") == [other, FOUND]


def test_who_took_it_up_has_a_higher_attempt(book: DiffBook) -> None:
    mine = book.take_up("d1", _begin(book), NodeRef("b", 7))
    assert mine is not None
    assert (mine.attempt, mine.runner) == (2, NodeRef("b", 7))


def test_of_two_who_saw_the_same_one_takes_it_up(book: DiffBook) -> None:
    seen = _begin(book)
    assert book.take_up("d1", seen, NodeRef("b", 7)) is not None
    assert book.take_up("d1", seen, NodeRef("c", 9)) is None


def test_who_lost_it_writes_nothing(book: DiffBook) -> None:
    lost = _begin(book)
    book.take_up("d1", lost, NodeRef("b", 7))
    assert not book.done(lost, [FOUND])
    assert not book.write(msgspec.structs.replace(lost, state=DiffState.FINISHED))
    found = book.read("d1")
    assert found is not None
    assert (found.state, book.ranges("d1")) == (DiffState.RUNNING, [])


def test_called_off_it_is_nobodys_and_what_was_found_stays(book: DiffBook) -> None:
    mine = _begin(book)
    book.done(mine, [FOUND])
    assert book.call_off("d1", DiffTrouble("called-off", "enough"))
    assert not book.done(mine, [])
    assert book.write(mine) is None
    found = book.read("d1")
    assert found is not None
    assert (found.state, found.trouble) == (DiffState.FAILED, DiffTrouble("called-off", "enough"))
    assert book.ranges("d1") == [FOUND]
    assert not book.call_off("d1", DiffTrouble("called-off", "again"))
    assert not book.call_off("none", DiffTrouble("called-off", "enough"))


def test_those_that_run_are_found(book: DiffBook) -> None:
    over = _begin(book, "d1")
    book.write(msgspec.structs.replace(over, state=DiffState.FAILED))
    running = _begin(book, "d2")
    assert book.running() == [running]
    assert {each.id for each in book.all()} == {"d1", "d2"}


def test_the_oldest_are_forgotten_and_none_that_runs(
    book: DiffBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diffs, "KEPT", 1)
    _begin(book, "running")
    for name in ("a", "b"):
        record = _begin(book, name)
        book.done(record, [FOUND])
        book.write(msgspec.structs.replace(record, state=DiffState.FINISHED))
    _begin(book, "last")
    assert {each.id for each in book.all()} in ({"running", "a", "last"}, {"running", "b", "last"})


def test_no_name_is_too_odd_to_ask_for(book: DiffBook) -> None:
    assert book.read("\0") is None
