"""Whose name a node's is: one home at a time, and gone when it says so."""

from collections.abc import Callable, Iterator

import pytest

from lockgate.model.batch import Joined, Landed, Leader, LeaseLost, Member, Renewed
from lockgate.model.errors import StaleOwner
from lockgate.model.ids import NodeRef
from lockgate.model.records import node_scope
from lockgate.store.members import Members, NodeRow
from lockgate.store.metastore import SqlMetastore
from tests.support.stores import LEASE_MS, Place, put

Opener = Callable[..., SqlMetastore]


@pytest.fixture
def opened(sql: Place) -> Iterator[Opener]:
    """Opens the metastore as the process of some home does."""
    stores: list[SqlMetastore] = []

    def open_one(home: str = "", address: str = "") -> SqlMetastore:
        stores.append(
            SqlMetastore.open(
                sql.url, lease_ms=LEASE_MS, now_ms=sql.clock, home=home, address=address
            )
        )
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


def join(store: SqlMetastore, node: str) -> NodeRef:
    answer = store.join(node, 0)
    assert isinstance(answer, Joined), answer
    return answer.ref


def renew(store: SqlMetastore, ref: NodeRef) -> Renewed:
    answer = store.renew(ref, 0)
    assert isinstance(answer, Renewed), answer
    return answer


def members(store: SqlMetastore) -> list[NodeRow]:
    return Members(store.transactions, store.clock).all()


# --- where nodes are ----------------------------------------------------------------------------


def test_a_node_tells_where_it_is(opened: Opener) -> None:
    store = opened("/home/a", "http://a:8642")
    ref = join(store, "a")
    [row] = members(opened())
    assert row == NodeRow("a", 1, "http://a:8642", "/home/a", alive=True)
    assert row.ref == ref


def test_a_new_life_tells_anew_where_it_is(opened: Opener) -> None:
    join(opened("/home/a", "http://a:1"), "a")
    join(opened("/home/a", "http://a:2"), "a")
    assert [(row.incarnation, row.address) for row in members(opened())] == [(2, "http://a:2")]


def test_renewing_does_not_change_where_a_node_is(opened: Opener) -> None:
    store = opened("/home/a", "http://a:1")
    renew(store, join(store, "a"))
    assert members(store) == [NodeRow("a", 1, "http://a:1", "/home/a", alive=True)]


def test_nodes_come_by_name_those_whose_lease_has_run_out_too(sql: Place, opened: Opener) -> None:
    store = opened()
    join(store, "b")
    sql.clock.advance(LEASE_MS)
    join(store, "a")
    assert [(row.node, row.alive) for row in members(store)] == [("a", True), ("b", False)]


def test_a_lease_of_before_the_clock_was_put_back_is_none(sql: Place, opened: Opener) -> None:
    store = opened()
    join(store, "a")
    sql.clock.advance(-10 * LEASE_MS)
    assert [row.alive for row in members(store)] == [False]


# --- one home at a time -------------------------------------------------------------------------


def test_another_home_may_not_take_a_living_nodes_name(sql: Place, opened: Opener) -> None:
    join(opened("/home/a"), "a")
    sql.clock.advance(LEASE_MS - 1)
    with pytest.raises(StaleOwner) as caught:
        opened("/home/b").join("a", 0)
    assert "node name a" in caught.value.what
    assert "--node" in caught.value.hint


def test_a_home_that_was_refused_has_changed_nothing(opened: Opener) -> None:
    store = opened("/home/a")
    ref = join(store, "a")
    before = members(store)
    with pytest.raises(StaleOwner):
        opened("/home/b").join("a", 0)
    assert members(store) == before
    renew(store, ref)
    scope = node_scope("a")
    assert store.commit(put(1, scope=scope, fence=ref.incarnation)) == Landed(scope, 1)


def test_the_same_home_may_start_again_at_once(opened: Opener) -> None:
    join(opened("/home/a"), "a")
    assert join(opened("/home/a"), "a") == NodeRef("a", 2)


def test_another_home_may_take_the_name_when_the_lease_has_run_out(
    sql: Place, opened: Opener
) -> None:
    join(opened("/home/a"), "a")
    sql.clock.advance(LEASE_MS)
    assert join(opened("/home/b"), "a") == NodeRef("a", 2)


def test_another_home_may_take_the_name_of_a_node_that_left(opened: Opener) -> None:
    store = opened("/home/a")
    store.leave(join(store, "a"))
    assert join(opened("/home/b"), "a") == NodeRef("a", 2)


def test_another_home_may_use_another_name(opened: Opener) -> None:
    join(opened("/home/a"), "a")
    assert join(opened("/home/b"), "b") == NodeRef("b", 1)


@pytest.mark.parametrize(("first", "second"), [("", "/home/b"), ("/home/a", ""), ("", "")])
def test_who_tells_no_home_is_not_told_apart(opened: Opener, first: str, second: str) -> None:
    join(opened(first), "a")
    assert join(opened(second), "a") == NodeRef("a", 2)


# --- leaving ------------------------------------------------------------------------------------


def test_when_the_coordinator_leaves_another_node_is_elected_at_once(opened: Opener) -> None:
    store = opened()
    a, b = join(store, "a"), join(store, "b")
    assert renew(store, a).leader == Leader(a, 1)
    assert renew(store, b).leader == Leader(a, 1)
    assert store.leave(a)
    assert renew(store, b) == Renewed(b, 0, (Member(b),), Leader(b, 2))


def test_who_left_has_no_lease(opened: Opener) -> None:
    store = opened()
    a = join(store, "a")
    assert store.leave(a)
    assert store.renew(a, 0) == LeaseLost(a)
    assert [row.alive for row in members(store)] == [False]


def test_who_left_may_come_back(opened: Opener) -> None:
    store = opened()
    store.leave(join(store, "a"))
    again = join(store, "a")
    assert again == NodeRef("a", 2)
    assert renew(store, again).leader == Leader(again, 1)


def test_leaving_twice_is_leaving_once(opened: Opener) -> None:
    store = opened()
    a, b = join(store, "a"), join(store, "b")
    renew(store, a)
    assert store.leave(a)
    elected = renew(store, b)
    assert not store.leave(a)
    assert renew(store, b) == elected


def test_a_former_life_that_leaves_does_not_take_the_newer_one_along(opened: Opener) -> None:
    store = opened()
    former = join(store, "a")
    newer = join(store, "a")
    assert renew(store, newer).leader == Leader(newer, 1)
    assert not store.leave(former)
    other = join(store, "b")
    assert renew(store, other).leader == Leader(newer, 1)
    renew(store, newer)


def test_a_node_that_leaves_does_not_take_another_coordinator_along(opened: Opener) -> None:
    store = opened()
    a, b, c = join(store, "a"), join(store, "b"), join(store, "c")
    assert renew(store, a).leader == Leader(a, 1)
    assert store.leave(b)
    assert renew(store, c) == Renewed(c, 0, (Member(a), Member(c)), Leader(a, 1))


def test_the_office_of_a_former_life_is_left_too(opened: Opener) -> None:
    store = opened()
    former, other = join(store, "a"), join(store, "b")
    assert renew(store, former).leader == Leader(former, 1)
    assert store.leave(join(store, "a"))
    assert renew(store, other).leader == Leader(other, 2)


def test_a_lease_that_has_run_out_cannot_be_left(sql: Place, opened: Opener) -> None:
    store = opened()
    a = join(store, "a")
    sql.clock.advance(LEASE_MS)
    assert not store.leave(a)


def test_a_node_that_never_joined_cannot_leave(opened: Opener) -> None:
    assert not opened().leave(NodeRef("stranger", 1))


def test_a_clock_put_back_brings_nobody_back_who_left(sql: Place, opened: Opener) -> None:
    store = opened()
    a, b = join(store, "a"), join(store, "b")
    renew(store, a)
    store.leave(a)
    sql.clock.advance(-LEASE_MS // 2)
    assert store.renew(a, 0) == LeaseLost(a)
    assert renew(store, b).leader == Leader(b, 2)
