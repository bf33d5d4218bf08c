"""What every metastore promises about batches: fences, serials, all or nothing."""

import threading
from collections.abc import Callable

import pytest

from lockgate.core.ports import Metastore
from lockgate.model.batch import Batch, Landed, Loaded, Raise, Refused
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.feeds import FeedSpec, FeedState, Goal
from lockgate.model.ids import NodeRef, Token
from lockgate.model.records import (
    BarrierRecord,
    DrainRecord,
    DrainState,
    FeedRecord,
    FenceRecord,
    JournalRecord,
    OperatorKind,
    OperatorRecord,
    ProgressRecord,
    Record,
    SpanRecord,
    key_of,
)
from lockgate.model.spans import TRIGGER_SPEC, Birth, Lineage, SpanSpec
from tests.support import actor
from tests.support.stores import FEED, Place, own, put, span


def loaded(store: Metastore, scope: str = FEED) -> Loaded:
    answer = store.load(scope)
    assert isinstance(answer, Loaded), answer
    return answer


def land(store: Metastore, batch: Batch) -> None:
    assert store.commit(batch) == Landed(batch.scope, batch.serial)


def test_a_scope_nobody_wrote_stands_at_nothing(store: Metastore) -> None:
    assert store.load("feed:never") == Loaded("feed:never", 0, 0, ())


def test_what_landed_is_loaded_in_the_order_of_its_keys(store: Metastore) -> None:
    own(store)
    land(store, put(1, span(3), span(1)))
    land(store, put(2, span(2), ProgressRecord(17)))
    assert loaded(store) == Loaded(FEED, 1, 2, (ProgressRecord(17), span(1), span(2), span(3)))


def test_what_landed_is_there_for_another_handle(sql: Place) -> None:
    one, other = sql.open(), sql.open()
    own(one)
    land(one, put(1, span(1)))
    assert loaded(other) == loaded(one)


SPEC = SpanSpec("s1", 'public."odd table"')
EVERY_KIND: list[Record] = [
    FeedRecord(
        "orders",
        FeedState.NORMAL,
        Goal.RUN,
        4,
        NodeRef("a", 2),
        FeedSpec(3, ("public.t",), 99),
        "e\n",
        3,
    ),
    DrainRecord(NodeRef("b", 9), DrainState.DRAINED),
    SpanRecord(TRIGGER_SPEC, birth=Birth(5, (SPEC,)), lineage=Lineage(("s0",), (SPEC,)), start=2),
    OperatorRecord("o1", OperatorKind.SPLIT, ("s1",), Token(1, 2, 3), NodeRef("a", 1), (SPEC,)),
    BarrierRecord(Ddl(7, DdlKind.CREATE, ("public.new",), statement="CREATE …"), (SPEC,)),
    ProgressRecord(2**62, born=True),
    FenceRecord("orders", None, 12, closed=True),
    JournalRecord("orders", SPEC, Token(9, 8, 7), prepared=True, operator="o1"),
]


@pytest.mark.parametrize("record", EVERY_KIND, ids=lambda record: type(record).__name__)
def test_every_kind_of_record_comes_back_as_it_went(store: Metastore, record: Record) -> None:
    own(store)
    land(store, put(1, record))
    assert loaded(store).records == (record,)


@pytest.mark.parametrize(
    "name", ["'; DROP TABLE records; --", '"', "%s :of ? $1", "é🦆漢", " ", "", "a\\b\nc"]
)
def test_a_name_is_only_a_name(store: Metastore, name: str) -> None:
    scope = f"feed:{name}"
    own(store, scope)
    record = FenceRecord(name, NodeRef(name, 1), 1)
    land(store, put(1, record, span(1), scope=scope))
    assert loaded(store, scope).records == (record, span(1))
    land(store, Batch(scope, 1, 2, deletes=(key_of(record),)))
    assert loaded(store, scope).records == (span(1),)


def test_records_of_one_scope_are_not_those_of_another(store: Metastore) -> None:
    own(store)
    own(store, "feed:b")
    land(store, put(1, span(1)))
    land(store, put(1, span(1, node="b"), scope="feed:b"))
    land(store, Batch("feed:b", 1, 2, deletes=(key_of(span(1)),)))
    assert loaded(store).records == (span(1),)


def test_deletes_come_before_puts(store: Metastore) -> None:
    own(store)
    land(store, put(1, span(1), span(2)))
    keys = (key_of(span(1)), key_of(span(2)), key_of(span(3)))
    land(store, Batch(FEED, 1, 2, puts=(span(1, node="b"),), deletes=keys))
    assert loaded(store).records == (span(1, node="b"),)


def test_a_batch_of_many_records_lands_whole(store: Metastore) -> None:
    own(store)
    many = tuple(span(number) for number in range(4_500))
    land(store, put(1, *many))
    assert loaded(store).records == many
    land(store, Batch(FEED, 1, 2, deletes=tuple(key_of(record) for record in many[1:])))
    assert loaded(store).records == many[:1]


# --- serials ------------------------------------------------------------------------------------


def test_a_repeated_batch_has_landed_and_is_not_written_again(store: Metastore) -> None:
    own(store)
    first = put(1, span(1))
    land(store, first)
    land(store, Batch(FEED, 1, 2, deletes=(key_of(span(1)),)))
    assert store.commit(first) == Landed(FEED, 1)
    assert loaded(store) == Loaded(FEED, 1, 2, ())


def test_a_repeated_raise_has_landed_although_its_start_is_past(store: Metastore) -> None:
    batch = Batch("coordinator", 0, 1, raises=(Raise(FEED, 0, 1),))
    land(store, batch)
    assert store.commit(batch) == Landed("coordinator", 1)
    assert loaded(store).fence == 1


def test_a_serial_that_skips_ahead_never_lands(store: Metastore) -> None:
    own(store)
    with pytest.raises(ValueError, match="skips ahead"):
        store.commit(put(2, span(1)))
    assert loaded(store) == Loaded(FEED, 1, 0, ())
    land(store, put(1, span(1)))


# --- fences -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fence", [0, 1, 3])
def test_another_fence_is_refused_and_writes_nothing(store: Metastore, fence: int) -> None:
    own(store, fence=2)
    assert store.commit(put(1, span(1), fence=fence)) == Refused(FEED, 1, fence=2)
    assert loaded(store) == Loaded(FEED, 2, 0, ())


def test_an_old_owners_batch_that_comes_late_is_refused(store: Metastore) -> None:
    own(store)
    land(store, put(1, span(1)))
    late = put(2, span(2))
    land(store, Batch("coordinator", 0, 1, raises=(Raise(FEED, 1, 2),)))
    assert store.commit(late) == Refused(FEED, 2, fence=2)
    land(store, put(2, span(3), fence=2))
    assert store.commit(late) == Refused(FEED, 2, fence=2)
    assert loaded(store) == Loaded(FEED, 2, 2, (span(1), span(3)))


def test_a_raise_keeps_the_serial_and_the_records(store: Metastore) -> None:
    own(store)
    land(store, put(1, span(1)))
    land(store, Batch("coordinator", 0, 1, raises=(Raise(FEED, 1, 5),)))
    assert loaded(store) == Loaded(FEED, 5, 1, (span(1),))


@pytest.mark.parametrize("old", [0, 1, 3])
def test_a_raise_from_elsewhere_is_refused_with_all_of_its_batch(
    store: Metastore, old: int
) -> None:
    own(store, fence=2)
    batch = Batch(
        "coordinator",
        0,
        1,
        puts=(span(1),),
        raises=(Raise("feed:new", 0, 1), Raise(FEED, old, 9)),
    )
    assert store.commit(batch) == Refused("coordinator", 1, fence=0)
    assert loaded(store, "coordinator") == Loaded("coordinator", 0, 0, ())
    assert loaded(store, "feed:new").fence == 0
    assert loaded(store).fence == 2


def test_two_raises_of_one_scope_in_one_batch_follow_each_other(sql: Place) -> None:
    store = sql.open()
    land(store, Batch("coordinator", 0, 1, raises=(Raise(FEED, 0, 1), Raise(FEED, 1, 2))))
    assert loaded(store).fence == 2
    again = Batch("coordinator", 0, 2, raises=(Raise(FEED, 2, 3), Raise(FEED, 2, 4)))
    assert isinstance(store.commit(again), Refused)
    assert loaded(store).fence == 2


@pytest.mark.parametrize(("old", "new"), [(1, 1), (1, 0), (1, 2**63), (2**63 - 1, 2**63)])
def test_a_raise_that_does_not_raise_is_an_error(sql: Place, old: int, new: int) -> None:
    store = sql.open()
    own(store)
    with pytest.raises(ValueError, match="does not raise"):
        store.commit(Batch("coordinator", 0, 1, raises=(Raise(FEED, old, new),)))
    assert loaded(store).fence == 1


def test_the_greatest_fence_is_held_exactly(store: Metastore) -> None:
    own(store, fence=2**63 - 1)
    land(store, put(1, span(1), fence=2**63 - 1))
    assert loaded(store).fence == 2**63 - 1


# --- F1: two concurrent raisers, one wins -------------------------------------------------------


def test_of_two_threads_that_raise_at_once_exactly_one_wins(sql: Place) -> None:
    rounds = 25
    stores = [sql.open(), sql.open()]
    gate = threading.Barrier(2)
    answers: list[list[object]] = [[], []]

    def work(who: int) -> None:
        serial = 1
        for old in range(rounds):
            gate.wait(30)
            raised = Raise(FEED, old, old + 1)
            answer = stores[who].commit(Batch(f"raiser {who}", 0, serial, raises=(raised,)))
            answers[who].append(answer)
            serial += isinstance(answer, Landed)

    _all_at_once(work, 2)
    for pair in zip(*answers, strict=True):
        assert sorted(type(answer).__name__ for answer in pair) == ["Landed", "Refused"]
    assert loaded(stores[0]).fence == rounds


def test_processes_that_raise_for_their_lives_never_share_a_fence(sql: Place) -> None:
    wins = 40
    sql.open()
    raisers = [actor.start("raise", sql.url, name, str(wins)) for name in "ab"]
    for raiser in raisers:
        assert actor.said(raiser) == "ready"
    for raiser in raisers:
        actor.go(raiser)
    fences: list[int] = []
    for raiser in raisers:
        *won, lost = actor.end(raiser)
        assert lost.startswith("lost:")
        numbers = [int(fence) for fence in won]
        assert numbers == sorted(numbers)
        fences += numbers
    assert sorted(fences) == list(range(1, 2 * wins + 1))
    assert loaded(sql.open()).fence == 2 * wins


def test_batches_of_many_scopes_at_once_all_land(sql: Place) -> None:
    store = sql.open()
    for who in range(4):
        own(store, f"feed:{who}")

    def work(who: int) -> None:
        for serial in range(1, 16):
            land(store, put(serial, span(serial), scope=f"feed:{who}"))

    _all_at_once(work, 4)
    for who in range(4):
        found = loaded(store, f"feed:{who}")
        assert (found.serial, len(found.records)) == (15, 15)


def test_a_load_sees_one_moment(sql: Place) -> None:
    store = sql.open()
    own(store)
    over = threading.Event()
    seen: list[int] = []

    def work(who: int) -> None:
        if who == 0:
            for serial in range(1, 61):
                land(store, put(serial, *(span(n, table=f"t{serial}") for n in range(20))))
            over.set()
        while not over.is_set():
            found = loaded(store)
            tables = {r.span.table for r in found.records if isinstance(r, SpanRecord)}
            assert tables == ({f"t{found.serial}"} if found.serial else set())
            seen.append(found.serial)

    _all_at_once(work, 3)
    assert len(set(seen)) > 5, "the loads saw too few moments to mean anything"


def _all_at_once(work: Callable[[int], None], threads: int) -> None:
    """Run `work` in threads, and raise what any of them raised."""
    errors: list[BaseException] = []

    def run(who: int) -> None:
        try:
            work(who)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=run, args=(who,)) for who in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
    assert not errors, errors
