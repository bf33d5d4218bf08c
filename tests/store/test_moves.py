"""The book of moves: records of the newest keeper only, and routes that follow from them."""

import contextlib
from pathlib import Path

import msgspec
import pytest

from lockgate.model.errors import Conflict, NotFound, StaleOwner
from lockgate.model.feed_config import FeedConfig
from lockgate.model.move_config import MoveConfig
from lockgate.model.moves import (
    Command,
    MoveFacts,
    MoveOrder,
    MoveRecord,
    Side,
    Step,
    StepRecord,
    StepState,
)
from lockgate.model.secret import Secret
from lockgate.store.endpoints import EndpointBook, EndpointEntry, unchanged
from lockgate.store.feeds import FeedBook, FeedEntry, filled, unfed
from lockgate.store.metastore import SqlMetastore
from lockgate.store.moves import MoveBook, MoveEntry, kept_by, unmoved
from lockgate.store.settings import INSTALLATION, Settings
from tests.support.stores import Place

ORDERS = MoveConfig(name="orders", source="old", target="new", tables=("public.*",))
TABLES = ("public.lines", "public.orders")


def _store(place: Place) -> SqlMetastore:
    store = place.open()
    assert isinstance(store, SqlMetastore)
    return store


@pytest.fixture
def store(sql: Place) -> SqlMetastore:
    return _store(sql)


@pytest.fixture
def book(store: SqlMetastore) -> MoveBook:
    return MoveBook(store.transactions, store.clock)


@pytest.fixture
def entry(book: MoveBook) -> MoveEntry:
    return book.enter(ORDERS, TABLES, ())


def _changed(record: MoveRecord, **fields: object) -> MoveRecord:
    return msgspec.structs.replace(record, serial=record.serial + 1, **fields)


def _ended(record: MoveRecord, command: Command, state: StepState) -> MoveRecord:
    steps = (StepRecord(Step.CLEAN, state),)
    return _changed(record, order=MoveOrder(command), ended=True, steps=steps)


def _routes(book: MoveBook) -> dict[str, str]:
    return {each.table: each.endpoint for each in book.routes().routes}


# --- entries --------------------------------------------------------------------------------------


def test_a_move_is_read_as_it_was_entered(sql: Place, entry: MoveEntry) -> None:
    store = _store(sql)
    assert MoveBook(store.transactions, store.clock).read("orders") == entry


def test_a_birth_is_of_one_installation_only(store: SqlMetastore, tmp_path: Path) -> None:
    other = SqlMetastore.open(f"sqlite:///{tmp_path / 'other.db'}", lease_ms=1_000)
    births = []
    with contextlib.closing(other):
        for each, installation in ((store, "this one"), (other, "another")):
            Settings(each.transactions).once(INSTALLATION, installation)
            following = FeedBook(each.transactions).next_birth()
            entry = MoveBook(each.transactions, each.clock).enter(ORDERS, TABLES, ())
            assert entry.birth == following
            births.append(entry.birth)
    assert abs(births[0] - births[1]) > 1_000_000


def test_a_name_that_is_taken_is_not_entered_again(book: MoveBook, entry: MoveEntry) -> None:
    other = MoveConfig(name="orders", source="old", target="other", tables=("public.*",))
    assert book.enter(other, ("public.x",), ()) == entry


def test_a_move_that_is_over_makes_room_for_one_with_a_later_birth(
    book: MoveBook, entry: MoveEntry
) -> None:
    book.write(entry.birth, _ended(entry.record, Command.CANCEL, StepState.DONE))
    again = book.enter(ORDERS, TABLES, ())
    assert again.birth > entry.birth
    assert again.record == MoveRecord("orders")


def test_a_table_is_in_one_move_at_a_time(book: MoveBook, entry: MoveEntry) -> None:
    other = MoveConfig(name="back", source="new", target="third", tables=("public.*",))
    with pytest.raises(Conflict, match=r"orders has this table.*public\.orders"):
        book.enter(other, ("public.orders",), ())
    assert book.read("back") is None


def test_the_same_name_of_a_table_elsewhere_is_another_table(
    book: MoveBook, entry: MoveEntry
) -> None:
    other = MoveConfig(name="far", source="third", target="fourth", tables=("public.*",))
    assert book.enter(other, ("public.orders",), ()).move == "far"


def test_only_a_move_that_is_over_is_forgotten(book: MoveBook, entry: MoveEntry) -> None:
    with pytest.raises(Conflict, match="not over"):
        book.remove("orders")
    book.write(entry.birth, _ended(entry.record, Command.COMPLETE, StepState.DONE))
    book.remove("orders")
    with pytest.raises(NotFound):
        book.remove("orders")


def test_a_move_is_not_entered_between_endpoints_that_changed(
    store: SqlMetastore, book: MoveBook
) -> None:
    seen = EndpointEntry("old", Secret("postgres://db/old"))
    with pytest.raises(Conflict, match="changed or removed"):
        book.enter(ORDERS, TABLES, (), unchanged([seen]))


def test_whoever_removes_an_endpoint_sees_the_moves(store: SqlMetastore, entry: MoveEntry) -> None:
    endpoints = EndpointBook(store.transactions)
    endpoints.write(EndpointEntry("old", Secret("postgres://db/old")))
    seen: list[list[MoveEntry]] = []
    endpoints.remove("old", lambda _, __, moves: seen.append(moves))
    assert seen == [[entry]]


# --- records --------------------------------------------------------------------------------------


def test_a_former_keeper_writes_nothing_once_a_later_one_has_begun(
    book: MoveBook, entry: MoveEntry
) -> None:
    first, _ = book.begin("orders", entry.birth)
    second, _ = book.begin("orders", entry.birth)
    assert book.write(entry.birth, _changed(first, traffic=Side.TARGET)) is False
    found = book.read("orders")
    assert found is not None
    assert found.record == second


def test_an_older_record_of_the_same_keeper_is_not_written_over_a_newer_one(
    book: MoveBook, entry: MoveEntry
) -> None:
    record, _ = book.begin("orders", entry.birth)
    newer = _changed(_changed(record))
    assert book.write(entry.birth, newer) is True
    assert book.write(entry.birth, _changed(record)) is None
    found = book.read("orders")
    assert found is not None
    assert found.record == newer


def test_the_keeper_of_a_move_that_had_the_name_before_writes_nothing(
    book: MoveBook, entry: MoveEntry
) -> None:
    record, _ = book.begin("orders", entry.birth)
    book.write(entry.birth, _ended(record, Command.CANCEL, StepState.DONE))
    again = book.enter(ORDERS, TABLES, ())
    late = _changed(msgspec.structs.replace(record, keeper=99), traffic=Side.TARGET)
    assert book.write(entry.birth, late) is False
    with pytest.raises(StaleOwner):
        book.begin("orders", entry.birth)
    assert book.read("orders") == again


def test_a_former_keeper_enters_no_feed(store: SqlMetastore, book: MoveBook) -> None:
    entry = book.enter(ORDERS, TABLES, ())
    feeds = FeedBook(store.transactions)
    first, _ = book.begin("orders", entry.birth)
    book.begin("orders", entry.birth)

    def make(birth: int) -> FeedEntry:
        return FeedEntry("orders--0", msgspec.Raw(b"{}"), "slot", "publication", birth=birth)

    with pytest.raises(StaleOwner):
        feeds.enter("orders--0", make, kept_by("orders", entry.birth, first.keeper))
    assert feeds.read("orders--0") is None


def test_a_feed_is_not_entered_into_a_table_that_a_move_has_since(
    store: SqlMetastore, book: MoveBook, entry: MoveEntry
) -> None:
    feeds = FeedBook(store.transactions)
    known = book.all()
    later = MoveConfig(name="later", source="old", target="new", tables=("public.p",))
    book.enter(later, ["public.p"], [])

    def entered(feed: str, *tables: str) -> None:
        def make(birth: int) -> FeedEntry:
            return FeedEntry(feed, msgspec.Raw(b"{}"), "slot", "publication", birth=birth)

        feeds.enter(feed, make, unmoved(tables, known))

    with pytest.raises(Conflict, match="created at this moment"):
        entered("into-it", "public.a", "public.p")
    assert feeds.read("into-it") is None
    entered("beside-it", "public.a", *entry.tables)
    assert feeds.read("beside-it") is not None


def _feed(book: FeedBook, name: str, pattern: str, **more: object) -> FeedEntry:
    config = FeedConfig(name=name, source=Secret("x"), target=Secret("new"), tables=(pattern,))

    def make(birth: int) -> FeedEntry:
        body = msgspec.Raw(config.to_json())
        made = FeedEntry(name, body, f"slot {name}", f"publication {name}", birth=birth)
        return msgspec.structs.replace(made, **more)

    return book.enter(name, make)


def test_a_move_is_not_entered_whose_table_a_feed_leads_to_since(
    store: SqlMetastore, book: MoveBook
) -> None:
    feeds = FeedBook(store.transactions)
    _feed(feeds, "known", "public.orders")
    known = feeds.all()
    _feed(feeds, "beside", "public.parcels")
    assert book.enter(ORDERS, TABLES, (), unfed(TABLES, known)).move == "orders"
    _feed(feeds, "into", "public.lin*")
    other = MoveConfig(name="other", source="a", target="b", tables=("public.*",))
    with pytest.raises(Conflict, match=r"created at this moment.*into"):
        book.enter(other, TABLES, (), unfed(TABLES, known))
    assert book.read("other") is None


def test_a_feed_fills_what_it_may_find_until_it_is_set_up_and_then_what_it_found(
    store: SqlMetastore,
) -> None:
    book = FeedBook(store.transactions)
    assert filled(_feed(book, "waits", "public.*"), TABLES) == list(TABLES)
    born = _feed(book, "born", "public.*", start=7, tables=("public.a", "public.lines"))
    assert filled(born, TABLES) == ["public.lines"]


# --- routes ---------------------------------------------------------------------------------------


def test_routes_go_to_the_source_from_the_beginning(book: MoveBook, entry: MoveEntry) -> None:
    assert _routes(book) == dict.fromkeys(TABLES, "old")


def test_routes_change_with_the_record_that_changes_traffic(
    book: MoveBook, entry: MoveEntry
) -> None:
    before = book.routes().version
    record, _ = book.begin("orders", entry.birth)
    book.write(entry.birth, _changed(record, traffic=Side.TARGET))
    after = book.routes()
    assert _routes(book) == dict.fromkeys(TABLES, "new")
    assert after.version == before + 1
    assert {each.version for each in after.routes} == {after.version}


def test_a_record_that_leaves_traffic_alone_leaves_the_version(
    book: MoveBook, entry: MoveEntry
) -> None:
    before = book.version()
    record, _ = book.begin("orders", entry.birth)
    book.write(entry.birth, _changed(record, stuck=True))
    assert book.version() == before


def test_a_record_that_is_refused_changes_no_route(book: MoveBook, entry: MoveEntry) -> None:
    first, _ = book.begin("orders", entry.birth)
    book.begin("orders", entry.birth)
    book.write(entry.birth, _changed(first, traffic=Side.TARGET))
    assert _routes(book) == dict.fromkeys(TABLES, "old")


@pytest.mark.parametrize("command", [Command.COMPLETE, Command.CANCEL])
def test_no_route_is_left_of_a_move_that_is_over(
    book: MoveBook, entry: MoveEntry, command: Command
) -> None:
    before = book.version()
    book.write(entry.birth, _ended(entry.record, command, StepState.DONE))
    assert _routes(book) == {}
    assert book.version() == before + 1


def test_routes_of_some_tables_can_be_asked_for(book: MoveBook, entry: MoveEntry) -> None:
    assert [each.table for each in book.routes(["public.orders"]).routes] == ["public.orders"]


def test_a_record_of_an_older_version_gives_nothing_up() -> None:
    """It knows neither `lost` nor `left`."""
    held = MoveRecord("orders", order=MoveOrder(Command.CANCEL), facts=MoveFacts(feed="orders--0"))
    old = msgspec.json.decode(msgspec.json.encode(held))
    assert old["order"].pop("lost", None) is None
    assert old["facts"].pop("left") == []
    assert msgspec.json.decode(msgspec.json.encode(old), type=MoveRecord) == held
