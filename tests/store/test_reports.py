"""What nodes say of feeds: the newest life speaks, all at once, and any node can read it."""

import threading

import psycopg
import pytest
import sqlalchemy as sa

from lockgate.model.batch import Joined
from lockgate.model.ids import NodeRef
from lockgate.store import leases
from lockgate.store.metastore import SqlMetastore
from lockgate.store.reports import Report, Reports
from lockgate.store.transactions import Alive
from tests.support.stores import LEASE_MS, Place
from tests.support.waiting import until


def _join(store: SqlMetastore, node: str) -> NodeRef:
    answer = store.join(node, 0)
    assert isinstance(answer, Joined)
    return answer.ref


@pytest.fixture
def store(sql: Place) -> SqlMetastore:
    opened = sql.open()
    assert isinstance(opened, SqlMetastore)
    return opened


@pytest.fixture
def reports(store: SqlMetastore) -> Reports:
    return Reports(store.transactions, store.clock)


def test_a_report_is_read_as_it_was_written(
    sql: Place, store: SqlMetastore, reports: Reports
) -> None:
    body = bytes(range(256))
    assert reports.write(_join(store, "a"), {"shop": body})
    assert reports.of("shop") == [Report("a", 1, "shop", sql.clock.now, body)]


def test_a_later_report_takes_the_place_of_the_former(
    sql: Place, store: SqlMetastore, reports: Reports
) -> None:
    ref = _join(store, "a")
    reports.write(ref, {"shop": b"old"})
    sql.clock.advance(5)
    reports.write(ref, {"shop": b"new"})
    assert reports.all() == [Report("a", 1, "shop", sql.clock.now, b"new")]


def test_every_node_speaks_for_itself(store: SqlMetastore, reports: Reports) -> None:
    b, a = _join(store, "b"), _join(store, "a")
    reports.write(b, {"shop": b"of b", "lake": b"of b"})
    reports.write(a, {"shop": b"of a"})
    assert [(one.node, one.body) for one in reports.of("shop")] == [("a", b"of a"), ("b", b"of b")]
    assert [(one.feed, one.node) for one in reports.all()] == [
        ("lake", "b"),
        ("shop", "a"),
        ("shop", "b"),
    ]


def test_a_node_takes_back_only_what_it_said_itself(store: SqlMetastore, reports: Reports) -> None:
    a, b = _join(store, "a"), _join(store, "b")
    reports.write(a, {"shop": b"", "lake": b""})
    reports.write(b, {"shop": b""})
    reports.write(a, {}, gone=["shop", "unknown"])
    assert [(one.feed, one.node) for one in reports.all()] == [("lake", "a"), ("shop", "b")]


def test_what_is_both_said_and_taken_back_is_said(store: SqlMetastore, reports: Reports) -> None:
    reports.write(_join(store, "a"), {"shop": b"there"}, gone=["shop"])
    assert [one.body for one in reports.of("shop")] == [b"there"]


def test_a_feed_that_is_forgotten_has_no_reports(store: SqlMetastore, reports: Reports) -> None:
    for node in ("a", "b"):
        reports.write(_join(store, node), {"shop": b"", "lake": b""})
    reports.forget("shop")
    assert reports.of("shop") == []
    assert [one.node for one in reports.of("lake")] == ["a", "b"]


def test_a_former_life_does_not_write_over_a_newer_one(
    store: SqlMetastore, reports: Reports
) -> None:
    former, newer = _join(store, "a"), _join(store, "a")
    reports.write(newer, {"shop": b"new"})
    assert not reports.write(former, {"shop": b"old", "lake": b"old"})
    assert [(one.feed, one.incarnation, one.body) for one in reports.all()] == [("shop", 2, b"new")]


def test_a_former_life_takes_nothing_back(store: SqlMetastore, reports: Reports) -> None:
    former, newer = _join(store, "a"), _join(store, "a")
    reports.write(newer, {"shop": b"new"})
    assert not reports.write(former, {}, gone=["shop"])
    assert [one.body for one in reports.of("shop")] == [b"new"]


def test_a_newer_life_writes_over_a_former_one(store: SqlMetastore, reports: Reports) -> None:
    reports.write(_join(store, "a"), {"shop": b"old", "lake": b"old"})
    reports.write(_join(store, "a"), {"shop": b"new"})
    assert [(one.feed, one.incarnation) for one in reports.all()] == [("lake", 1), ("shop", 2)]


def test_a_life_whose_successor_is_joining_is_refused(database: str) -> None:
    """It waits for the successor's transaction; seeing the state of before would let it write."""
    with (
        SqlMetastore.open(database, lease_ms=LEASE_MS, timeout_ms=60_000) as store,
        psycopg.connect(database, autocommit=True) as watcher,
    ):
        former = _join(store, "a")
        reports = Reports(store.transactions, store.clock)
        answers: list[bool] = []
        writer = threading.Thread(
            target=lambda: answers.append(reports.write(former, {"shop": b"old"}))
        )

        def writer_waits() -> bool:
            query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            row = watcher.execute(query).fetchone()
            return row == (1,)

        def join_slowly(connection: sa.Connection, _: Alive) -> tuple[None, bool]:
            leases.join(connection, "a", store.clock, LEASE_MS)
            writer.start()
            until(writer_waits)
            return None, True

        store.transactions.write(join_slowly)
        writer.join(30)
        assert answers == [False]
        assert reports.all() == []


def test_a_name_that_no_database_holds_has_no_reports(reports: Reports) -> None:
    assert reports.of("a\0b") == []
