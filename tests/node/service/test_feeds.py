"""A feed through the service's verbs, from its creation to its end."""

import logging

import pytest

from lockgate.model.errors import Conflict, EndpointRefused, LockgateError, NotFound, UsageError
from lockgate.model.feed_config import FeedConfig
from lockgate.model.feeds import FeedState
from lockgate.node.service import NodeService
from tests.support.feeds import LEVEL_S, Pair
from tests.support.waiting import until


def _config(**more: object) -> FeedConfig:
    from lockgate.model.feed_config import read_config

    document = {"name": "feed", "source": "shop", "target": "copy", "tables": ["public.*"]}
    return read_config({**document, "flush_interval_ms": 50, **more})


def _level(service: NodeService, feed: str = "feed") -> None:
    assert service.wait_feed(feed, LEVEL_S).level


def test_a_feed_is_created_followed_paused_resumed_and_removed(
    service: NodeService, pair: Pair
) -> None:
    pair.at_source(
        "CREATE TABLE a (id int PRIMARY KEY, v text)",
        "INSERT INTO a SELECT n, 'v' || n FROM generate_series(1, 1000) n",
    )
    created = service.create_feed(_config(), "me")
    assert created.state is FeedState.NORMAL
    _level(service)
    pair.assert_equal("public.a")

    pair.at_source("UPDATE a SET v = 'new' WHERE id <= 10", "DELETE FROM a WHERE id > 990")
    _level(service)
    pair.assert_equal("public.a")
    until(lambda: service.feed("feed").spans == 1)
    status = service.feed("feed")
    assert (status.tables, status.owner, status.error) == (1, "one", "")
    assert status.epoch >= 1
    [table] = service.feed_tables("feed")
    assert (table.table, table.target, table.state) == ("public.a", "public.a", "running")

    assert service.pause_feed("feed", "me").state is FeedState.STOPPED
    pair.at_source("INSERT INTO a VALUES (5000, 'late')")
    with pytest.raises(Conflict, match="stopped"):
        service.wait_feed("feed", 30.0)
    service.resume_feed("feed", "me")
    _level(service)
    pair.assert_equal("public.a")

    service.remove_feed("feed", "me")
    with pytest.raises(NotFound):
        service.feed("feed")
    mine = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    assert pair.ask_source(mine) == [(0,)]
    assert pair.ask_source("SELECT count(*) FROM pg_publication") == [(0,)]
    said = [(entry.verb, entry.who) for entry in service.history("feed", None, 10)]
    assert said == [
        ("feed remove", "me"),
        ("feed resume", "me"),
        ("feed pause", "me"),
        ("feed create", "me"),
    ]


def test_a_removal_asks_once_and_waits(
    service: NodeService, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    pair.at_source("CREATE TABLE a (id int PRIMARY KEY)")
    service.create_feed(_config(), "me")
    _level(service)
    with caplog.at_level(logging.INFO, "lockgate.keeper"):
        service.remove_feed("feed", "me")
    told = [record.getMessage() for record in caplog.records]
    assert len([line for line in told if line.startswith("a feed is removed")]) == 1


def test_a_feed_that_was_removed_can_be_created_anew(service: NodeService, pair: Pair) -> None:
    pair.at_source("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    service.create_feed(_config(), "me")
    _level(service)
    service.remove_feed("feed", "me")
    pair.at_target("DROP TABLE a")
    pair.at_source("INSERT INTO a VALUES (2)")
    service.create_feed(_config(), "me")
    assert service.resume_feed("feed", "me").epoch  # the tombstone of the former one is not it
    _level(service)
    pair.assert_equal("public.a")


def test_the_same_feed_again_is_no_error_and_another_one_is(
    service: NodeService, pair: Pair
) -> None:
    pair.at_source("CREATE TABLE a (id int PRIMARY KEY)")
    service.create_feed(_config(), "me")
    assert service.create_feed(_config(), "me").name == "feed"
    with pytest.raises(Conflict, match="another configuration"):
        service.create_feed(_config(tables=["public.a"]), "me")


def test_a_span_is_split_and_merged_while_rows_come(service: NodeService, pair: Pair) -> None:
    pair.at_source(
        "CREATE TABLE a (id int PRIMARY KEY, v int)",
        "INSERT INTO a SELECT n, 0 FROM generate_series(1, 500) n",
    )
    service.create_feed(_config(), "me")
    _level(service)
    until(lambda: len(service.feed_tables("feed")) == 1)
    [table] = service.feed_tables("feed")
    service.split_span("feed", table.spans[0].span, [], 4, "me")
    until(lambda: len(service.feed_tables("feed")[0].spans) == 4)
    pair.at_source("UPDATE a SET v = 1")
    _level(service)
    pair.assert_equal("public.a")
    spans = [span.span for span in service.feed_tables("feed")[0].spans]
    with pytest.raises(Conflict, match="neighbouring"):
        service.merge_spans("feed", [spans[0], spans[2]], "me")
    service.merge_spans("feed", spans[:2], "me")
    until(lambda: len(service.feed_tables("feed")[0].spans) == 3)
    pair.at_source("UPDATE a SET v = 2")
    _level(service)
    pair.assert_equal("public.a")


def test_a_table_without_a_key_is_not_split(service: NodeService, pair: Pair) -> None:
    """Each part would take every row."""
    pair.at_source("CREATE TABLE a (v int)", "ALTER TABLE a REPLICA IDENTITY FULL")
    pair.at_source("INSERT INTO a VALUES (1), (1)")
    service.create_feed(_config(), "me")
    _level(service)
    span = service.feed_tables("feed")[0].spans[0].span
    with pytest.raises(Conflict, match="without a key"):
        service.split_span("feed", span, [], 2, "me")
    assert len(service.feed_tables("feed")[0].spans) == 1


def test_a_table_is_copied_anew_while_rows_come(service: NodeService, pair: Pair) -> None:
    pair.at_source(
        "CREATE TABLE a (id int PRIMARY KEY, v int)",
        "CREATE TABLE b (id int PRIMARY KEY)",
        "INSERT INTO a SELECT n, 0 FROM generate_series(1, 500) n",
    )
    service.create_feed(_config(), "me")
    _level(service)
    pair.at_target("DELETE FROM a WHERE id < 100", "UPDATE a SET v = 7", "INSERT INTO a VALUES (0)")
    until(lambda: [table.state for table in service.feed_tables("feed")] == ["running"] * 2)
    service.resync_table("feed", "public.a", "me")
    pair.at_source("UPDATE a SET v = 1 WHERE id % 2 = 0", "INSERT INTO a VALUES (501, 5)")
    _level(service)
    pair.assert_equal("public.a", "public.b")
    pair.at_source("DELETE FROM a WHERE id = 501")
    _level(service)
    pair.assert_equal("public.a")


def test_what_cannot_be_copied_anew_is_told(service: NodeService, pair: Pair) -> None:
    pair.at_source("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    service.create_feed(_config(), "me")
    _level(service)
    with pytest.raises(NotFound):
        service.resync_table("feed", "public.nothing", "me")
    span = service.feed_tables("feed")[0].spans[0].span
    service.split_span("feed", span, [], 2, "me")
    until(lambda: len(service.feed_tables("feed")[0].spans) == 2)
    with pytest.raises(Conflict, match="split"):
        service.resync_table("feed", "public.a", "me")
    assert pair.ask_target("SELECT id FROM a") == [(1,)]


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"tables": ["public.nothing"]}, UsageError),
        ({"source": "nowhere"}, LockgateError),
        ({"rows": {"public.a": "no_such_column > 1"}}, EndpointRefused),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(
    service: NodeService, pair: Pair, more: dict[str, object], error: type[Exception]
) -> None:
    pair.at_source("CREATE TABLE a (id int PRIMARY KEY)")
    with pytest.raises(error):
        service.create_feed(_config(**more), "me")
    assert service.feeds() == []
    assert pair.ask_source("SELECT count(*) FROM pg_publication") == [(0,)]
    assert pair.ask_target("SELECT count(*) FROM pg_tables WHERE tablename = 'a'") == [(0,)]


_FULL = ("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (7)")


@pytest.mark.parametrize(
    ("there", "code", "what"),
    [
        (_FULL, "table-not-empty", "has rows"),
        (("CREATE TABLE a (id text PRIMARY KEY)",), "table-differs", "differs"),
        (("CREATE TABLE a (id int)",), "table-differs", "differs"),
    ],
)
def test_a_table_that_cannot_take_the_rows_is_refused_before_anything_is_recorded(
    service: NodeService, pair: Pair, there: tuple[str, ...], code: str, what: str
) -> None:
    pair.at_source("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    pair.at_target(*there)
    found = [each for each in service.plan_feed(_config()).findings if each.severity == "error"]
    assert [each.code for each in found] == [code]
    assert found[0].hint
    with pytest.raises(EndpointRefused, match=what):
        service.create_feed(_config(), "me")
    assert service.feeds() == []
    assert pair.ask_source("SELECT count(*) FROM pg_publication") == [(0,)]


def test_a_table_with_rows_is_taken_by_a_feed_that_copies_none(
    service: NodeService, pair: Pair
) -> None:
    pair.at_source(*_FULL)
    pair.at_target(*_FULL)
    service.create_feed(_config(copy=False), "me")
    pair.at_source("INSERT INTO a VALUES (8)")
    _level(service)
    pair.assert_equal("public.a")


def test_a_feed_that_is_there_is_planned_without_complaint_about_its_own_rows(
    service: NodeService, pair: Pair
) -> None:
    pair.at_source(*_FULL)
    service.create_feed(_config(), "me")
    _level(service)
    assert not [e for e in service.plan_feed(_config()).findings if e.severity == "error"]


def test_a_plan_names_what_would_be_made_and_makes_nothing(
    service: NodeService, pair: Pair
) -> None:
    pair.at_source("CREATE TABLE a (id int PRIMARY KEY, secret text)")
    plan = service.plan_feed(_config(leave_out=["public.a.secret"]))
    [table] = plan.tables
    assert (table.table, table.columns, table.left_out) == ("public.a", ("id",), ("secret",))
    assert not table.exists
    assert any("replication slot" in line for line in plan.makes)
    assert service.feeds() == []
    assert pair.ask_source("SELECT count(*) FROM pg_publication") == [(0,)]
