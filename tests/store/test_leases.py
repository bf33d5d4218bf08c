"""What every metastore promises about leases and the election, by the store's clock."""

import pytest

from lockgate.core.ports import Metastore
from lockgate.model.batch import (
    Batch,
    Joined,
    Landed,
    Leader,
    LeaseLost,
    Loaded,
    Member,
    Refused,
    Renewed,
)
from lockgate.model.ids import NodeRef
from lockgate.model.records import COORDINATOR, DrainRecord, DrainState, node_scope
from lockgate.store.metastore import SqlMetastore
from tests.support.stores import LEASE_MS, Place, put, span
from tests.support.waiting import until


def join(store: Metastore, node: str) -> NodeRef:
    answer = store.join(node, asked_at=5)
    assert isinstance(answer, Joined), answer
    assert answer.asked_at == 5
    assert answer.ref.node == node
    return answer.ref


def renew(store: Metastore, ref: NodeRef) -> Renewed:
    answer = store.renew(ref, asked_at=6)
    assert isinstance(answer, Renewed), answer
    assert (answer.ref, answer.asked_at) == (ref, 6)
    return answer


def fence(store: Metastore, scope: str) -> int:
    answer = store.load(scope)
    assert isinstance(answer, Loaded)
    return answer.fence


# --- lives --------------------------------------------------------------------------------------


def test_every_life_of_a_node_is_a_new_incarnation(store: Metastore) -> None:
    assert [join(store, "a"), join(store, "b"), join(store, "a")] == [
        NodeRef("a", 1),
        NodeRef("b", 1),
        NodeRef("a", 2),
    ]


def test_a_new_life_fences_the_journal_of_the_last_one(store: Metastore) -> None:
    scope = node_scope("a")
    join(store, "a")
    assert isinstance(store.commit(put(1, span(1), scope=scope, fence=1)), Landed)
    join(store, "a")
    assert store.commit(put(2, span(2), scope=scope, fence=1)) == Refused(scope, 2, fence=2)
    assert isinstance(store.commit(put(2, span(3), scope=scope, fence=2)), Landed)
    assert store.load(scope) == Loaded(scope, 2, 2, (span(1), span(3)))


def test_a_lease_is_prolonged_while_it_runs(place: Place) -> None:
    store = place.open()
    ref = join(store, "a")
    for _ in range(5):
        place.clock.advance(LEASE_MS - 1)
        renew(store, ref)


@pytest.mark.parametrize("late_ms", [0, 1, 10 * LEASE_MS])
def test_a_lease_that_has_run_out_is_lost(place: Place, late_ms: int) -> None:
    store = place.open()
    ref = join(store, "a")
    place.clock.advance(LEASE_MS + late_ms)
    assert store.renew(ref, 0) == LeaseLost(ref)
    assert store.renew(ref, 0) == LeaseLost(ref)
    assert join(store, "a") == NodeRef("a", 2)


def test_another_life_of_the_node_has_no_lease(store: Metastore) -> None:
    first, second = join(store, "a"), join(store, "a")
    unborn = NodeRef("a", 3)
    assert store.renew(first, 0) == LeaseLost(first)
    assert store.renew(unborn, 0) == LeaseLost(unborn)
    renew(store, second)


def test_a_node_that_never_joined_has_no_lease(store: Metastore) -> None:
    stranger = NodeRef("stranger", 1)
    assert store.renew(stranger, 0) == LeaseLost(stranger)


def test_members_are_the_nodes_whose_lease_runs_by_name(place: Place) -> None:
    store = place.open()
    c, a = join(store, "c"), join(store, "a")
    place.clock.advance(LEASE_MS // 2)
    b = join(store, "b")
    assert renew(store, c).members == (Member(a), Member(b), Member(c))
    place.clock.advance(LEASE_MS // 2)
    assert renew(store, c).members == (Member(b), Member(c))


@pytest.mark.parametrize("state", DrainState)
def test_a_drain_marks_exactly_the_life_it_names(store: Metastore, state: DrainState) -> None:
    a, b = join(store, "a"), join(store, "b")
    term = renew(store, a).leader
    assert term is not None
    drains = (DrainRecord(b, state), DrainRecord(NodeRef("a", 9), state))
    assert isinstance(store.commit(put(1, *drains, scope=COORDINATOR, fence=term.term)), Landed)
    assert renew(store, a).members == (Member(a), Member(b, draining=True))
    again = join(store, "b")
    assert renew(store, a).members == (Member(a), Member(again))


# --- the election -------------------------------------------------------------------------------


def test_the_first_to_renew_becomes_coordinator_and_stays_it(place: Place) -> None:
    store = place.open()
    a, b = join(store, "a"), join(store, "b")
    for _ in range(4):
        assert renew(store, a).leader == Leader(a, 1)
        assert renew(store, b).leader == Leader(a, 1)
        place.clock.advance(LEASE_MS - 1)
    assert fence(store, COORDINATOR) == 1


def test_joining_elects_nobody(store: Metastore) -> None:
    join(store, "a")
    assert fence(store, COORDINATOR) == 0


def test_a_lost_coordinator_is_replaced_and_refused(place: Place) -> None:
    store = place.open()
    a, b = join(store, "a"), join(store, "b")
    assert renew(store, a).leader == Leader(a, 1)
    place.clock.advance(LEASE_MS - 1)
    assert renew(store, b).leader == Leader(a, 1)
    place.clock.advance(1)
    assert renew(store, b).leader == Leader(b, 2)
    assert fence(store, COORDINATOR) == 2
    assert store.commit(Batch(COORDINATOR, 1, 1)) == Refused(COORDINATOR, 1, fence=2)
    assert store.renew(a, 0) == LeaseLost(a)


def test_a_new_life_of_the_coordinator_gets_a_new_term_at_once(place: Place) -> None:
    """Its former life is over, so nobody is waited for."""
    store = place.open()
    first, other = join(store, "a"), join(store, "b")
    assert renew(store, first).leader == Leader(first, 1)
    place.clock.advance(1)
    second = join(store, "a")
    assert renew(store, other).leader == Leader(first, 1)
    assert renew(store, second).leader == Leader(second, 2)
    assert renew(store, other).leader == Leader(second, 2)
    assert fence(store, COORDINATOR) == 2
    assert store.renew(first, 0) == LeaseLost(first)


def test_a_lost_lease_is_not_elected(place: Place) -> None:
    store = place.open()
    ref = join(store, "a")
    place.clock.advance(LEASE_MS)
    assert store.renew(ref, 0) == LeaseLost(ref)
    assert fence(store, COORDINATOR) == 0


# --- clocks -------------------------------------------------------------------------------------


def test_a_clock_put_back_makes_no_lease_endless(sql: Place) -> None:
    store = sql.open()
    dead = join(store, "dead")
    assert renew(store, dead).leader == Leader(dead, 1)
    sql.clock.advance(-100 * LEASE_MS)
    alive = join(store, "alive")
    assert renew(store, alive) == Renewed(alive, 6, (Member(alive),), Leader(alive, 2))
    assert store.renew(dead, 0) == LeaseLost(dead)


def test_a_clock_put_back_a_little_ends_no_lease(sql: Place) -> None:
    store = sql.open()
    a, b = join(store, "a"), join(store, "b")
    assert renew(store, a).leader == Leader(a, 1)
    sql.clock.advance(-LEASE_MS // 2)
    assert renew(store, b) == Renewed(b, 6, (Member(a), Member(b)), Leader(a, 1))
    renew(store, a)


def test_the_stores_own_clock_ends_leases(sql: Place) -> None:
    with SqlMetastore.open(sql.url, lease_ms=1_200) as store:
        a, b = join(store, "a"), join(store, "b")
        assert renew(store, a).leader == Leader(a, 1)

        def b_is_coordinator() -> bool:
            seen = renew(store, b)
            return seen.leader == Leader(b, 2) and seen.members == (Member(b),)

        until(b_is_coordinator, timeout_s=10)
        assert store.renew(a, 0) == LeaseLost(a)
