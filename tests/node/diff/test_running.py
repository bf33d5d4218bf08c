"""Diffs on a real node: what is found and shown (D2), with a feed and without, what is refused."""

import pytest

from lockgate.model.diffs import DiffOrder, DiffState, RowKind
from lockgate.model.errors import (
    Conflict,
    EndpointBusy,
    LockgateError,
    NotFound,
    ObjectMissing,
    UsageError,
)
from lockgate.node.diff.sides import PATIENCE
from lockgate.node.service import NodeService
from lockgate.node.service.diff_documents import UNALIGNED
from tests.node.diff.conftest import APART, BY_FEED, DIFF_S, over, run
from tests.support.bad_days import held
from tests.support.feeds import Pair
from tests.support.scrapes import Scrape
from tests.support.waiting import until

WRONG = (
    "DELETE FROM orders WHERE id = 7",
    "INSERT INTO orders VALUES (5000, 'nobody', 1)",
    "UPDATE orders SET total = 0 WHERE id = 1234",
)


def test_equal_sides_are_found_equal(same: NodeService) -> None:
    diff = run(same)
    assert (diff.state, diff.equal, diff.error) == (DiffState.FINISHED, True, "")
    assert {each.table: (each.rows, each.equal) for each in diff.tables} == {
        "public.orders": (2000, True),
        "public.users": (100, True),
    }


def test_a_missing_an_extra_and_a_changed_row_are_found_and_shown(
    same: NodeService, pair: Pair
) -> None:
    pair.at_target(*WRONG)
    diff = run(same)
    orders, users = diff.tables
    assert (diff.equal, orders.equal, users.equal) == (False, False, True)
    assert (orders.missing, orders.extra, orders.different) == (1, 1, 1)
    shown = {sample.kind: sample for sample in orders.samples}
    assert {kind: sample.key for kind, sample in shown.items()} == {
        RowKind.MISSING: {"id": "7"},
        RowKind.EXTRA: {"id": "5000"},
        RowKind.DIFFERENT: {"id": "1234"},
    }
    [changed] = shown[RowKind.DIFFERENT].columns
    assert (changed.name, changed.target) == ("total", "0")


def test_without_a_feed_it_is_said_that_writers_make_differences(same: NodeService) -> None:
    diff = run(same)
    assert (diff.position, diff.notes) == ("", (UNALIGNED,))


def test_a_feeds_tables_are_compared_at_one_position(fed: NodeService) -> None:
    diff = run(fed, BY_FEED)
    assert (diff.equal, diff.feed, diff.source, diff.target) == (True, "feed", "shop", "copy")
    assert {each.table: each.rows for each in diff.tables} == {
        "public.orders": 2000,
        "public.users": 100,
    }
    assert diff.position
    assert {each.position for each in diff.tables} == {diff.position}
    assert diff.notes == ()


def test_a_row_that_a_feed_has_not_brought_is_found(fed: NodeService, pair: Pair) -> None:
    pair.at_target(*WRONG)
    diff = run(fed, BY_FEED)
    assert [(each.missing, each.extra, each.different) for each in diff.tables] == [
        (1, 1, 1),
        (0, 0, 0),
    ]
    assert "lockgate feed resync feed public.orders" in diff.next_steps


def test_of_a_feeds_tables_only_those_that_are_asked_for_are_compared(fed: NodeService) -> None:
    order = DiffOrder(source="shop", target="copy", tables=("*.users",), feed="feed")
    assert [each.table for each in run(fed, order).tables] == ["public.users"]


def test_a_table_that_the_target_lacks_fails_the_diff_and_the_others_are_compared(
    same: NodeService, pair: Pair
) -> None:
    pair.at_target("DROP TABLE users")
    diff = run(same)
    assert (diff.state, diff.equal) == (DiffState.FAILED, None)
    orders, users = diff.tables
    assert (orders.equal, users.equal) == (True, None)
    assert "no such table" in users.error
    assert f"lockgate diff resume {diff.id}" in diff.next_steps[-1]


def test_resumed_it_compares_what_was_left(same: NodeService, pair: Pair) -> None:
    pair.at_target("ALTER TABLE users RENAME TO away")
    failed = run(same)
    pair.at_target("ALTER TABLE away RENAME TO users", "DELETE FROM orders")
    same.diffs.resume(failed.id, "test")
    diff = over(same, failed.id)
    assert (diff.state, [each.equal for each in diff.tables]) == (DiffState.FINISHED, [True, True])


def test_called_off_it_ends_and_goes_on_when_it_is_resumed(same: NodeService, pair: Pair) -> None:
    with held(pair.target, "public.users") as lock:
        begun = same.diffs.run(APART, "test")
        lock.until_waited_for()
        off = same.diffs.cancel(begun.id, "ann")
        assert off.state is DiffState.FAILED
        assert off.error == f"it was called off by ann ({begun.id})"
    until(lambda: same._diffs.count() == 0, DIFF_S)
    assert same.diffs.cancel(begun.id, "ann").state is DiffState.FAILED
    same.diffs.resume(begun.id, "test")
    assert over(same, begun.id).equal


def test_who_asks_for_tables_that_somebody_has_locked_is_not_kept_waiting(
    same: NodeService, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PATIENCE, "lock_timeout", "50ms")
    with held(pair.source, "public.users"), pytest.raises(EndpointBusy, match="pg_locks"):
        same.diffs.run(APART, "test")
    assert same.diffs.all() == []


def test_a_finished_one_is_not_called_off(same: NodeService) -> None:
    diff = run(same)
    with pytest.raises(Conflict, match="finished"):
        same.diffs.cancel(diff.id, "test")
    with pytest.raises(NotFound):
        same.diffs.cancel("nobody", "test")


def test_a_finished_one_is_not_resumed(same: NodeService) -> None:
    diff = run(same)
    with pytest.raises(Conflict, match="finished"):
        same.diffs.resume(diff.id, "test")


REFUSED: list[tuple[DiffOrder, type[LockgateError]]] = [
    (DiffOrder(source="shop", target="copy", tables=("public.nothing",)), UsageError),
    (DiffOrder(source="shop", target="copy", tables=()), UsageError),
    (DiffOrder(source="shop", target="", tables=("public.*",)), UsageError),
    (DiffOrder(source="shop", target="postgres://h/d", tables=("public.*",)), UsageError),
    (DiffOrder(source="shop", target="nobody", tables=("public.*",)), ObjectMissing),
    (DiffOrder(source="", target="", tables=(), feed="none"), NotFound),
]


def test_what_cannot_be_is_refused_before_it_is_recorded(service: NodeService) -> None:
    for order, kind in REFUSED:
        with pytest.raises(LockgateError) as refused:
            service.diffs.run(order, "test")
        assert type(refused.value) is kind, order
    assert service.diffs.all() == []


def test_other_ends_than_the_feeds_are_refused(fed: NodeService) -> None:
    with pytest.raises(UsageError, match="goes from shop"):
        fed.diffs.run(DiffOrder(source="copy", target="", tables=(), feed="feed"), "test")


def test_a_feed_that_does_not_go_on_is_refused(fed: NodeService) -> None:
    fed.pause_feed("feed", "test")
    with pytest.raises(Conflict, match="stopped"):
        fed.diffs.run(BY_FEED, "test")


def test_a_repair_makes_equal_and_says_what_it_did(fed: NodeService, pair: Pair) -> None:
    """D5."""
    pair.at_target(*WRONG)
    order = DiffOrder(source="", target="", tables=(), feed="feed", repair=True)
    diff = run(fed, order)
    orders, users = diff.tables
    assert (diff.equal, orders.equal, orders.repaired, users.repaired) == (True, True, 3, 0)
    assert (orders.missing, orders.extra, orders.different) == (1, 1, 1)
    assert run(fed, BY_FEED).equal
    pair.assert_equal("public.orders", "public.users")


def test_asked_for_twice_under_one_name_it_is_run_once(same: NodeService) -> None:
    first = same.diffs.run(APART, "test", "aaaaaaaaaa")
    again = same.diffs.run(APART, "test", "aaaaaaaaaa")
    assert (first.id, again.id, len(same.diffs.all())) == ("aaaaaaaaaa", "aaaaaaaaaa", 1)
    with pytest.raises(Conflict, match="another diff"):
        same.diffs.run(
            DiffOrder(source="shop", target="copy", tables=("public.users",)), "test", "aaaaaaaaaa"
        )


def test_the_history_has_its_beginning_and_its_end(same: NodeService, pair: Pair) -> None:
    pair.at_target(*WRONG)
    diff = run(same)
    until(lambda: len(same.history(diff.id, None, 10)) == 2)
    end, begin = same.history(diff.id, None, 10)
    assert (begin.who, begin.verb, begin.outcome) == ("test", "diff run", "recorded")
    assert (end.verb, end.outcome) == ("diff run", "not equal: 3 rows")


def test_it_is_counted(same: NodeService, pair: Pair) -> None:
    pair.at_target(*WRONG)
    run(same)
    scrape = Scrape(same.metrics().decode())
    assert scrape.value("lockgate_diff_rows_total") == 2100
    assert scrape.value("lockgate_diff_found_rows_total", kind="extra") == 1

    def ended() -> bool:
        return Scrape(same.metrics().decode()).value("lockgate_diffs_total", outcome="unequal") == 1

    until(ended)


def test_lists_show_the_newest_first(same: NodeService) -> None:
    ids = [run(same).id for _ in range(3)]
    found = same.diffs.all()
    assert [each.id for each in found] == ids[::-1]
    assert {(each.equal, each.rows, each.unequal, each.tables) for each in found} == {
        (True, 2100, 0, 2)
    }
