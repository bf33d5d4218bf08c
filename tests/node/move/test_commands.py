"""What commands refuse, put back, and leave alone. One move for all of them: each test leaves it
with its traffic at the source, as it found it."""

from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import pytest

from lockgate.endpoints.postgres.cutover import MoveMark, guard
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.model.errors import Conflict, EndpointRefused, NotFound, StaleOwner, UsageError
from lockgate.model.feed_config import read_config
from lockgate.model.feeds import FeedState
from lockgate.model.findings import Finding
from lockgate.model.move_config import MoveConfig
from lockgate.model.moves import Command, MoveState
from lockgate.model.secret import Secret
from lockgate.model.tables import TableName
from lockgate.node.move.feeds import BROKEN_OFF
from lockgate.node.service import apart
from lockgate.node.service.contexts import config_of
from lockgate.node.service.moves import RolledBack
from tests.support.databases import fresh_database
from tests.support.moves import (
    CANCEL,
    CONFIG,
    RENAME,
    REVERSE,
    SWITCH,
    Moved,
    copied,
    elsewise,
    left_behind,
    notes,
    order,
)
from tests.support.waiting import until

SOON_S = 60.0


def test_a_dry_run_lists_the_steps_and_changes_nothing(moved: Moved) -> None:
    book = moved.service._stores.moves
    before, left = book.read("orders"), left_behind(moved.pair)
    outcome = moved.service.moves.command("orders", SWITCH, "test", dry=True)
    assert [each.name for each in outcome.steps][:3] == ["check", "hook-before", "block"]
    assert outcome.steps[-1].name == "retire"
    assert all(each.detail for each in outcome.steps)
    assert book.read("orders") == before
    assert left_behind(moved.pair) == left


def test_reversing_what_was_not_switched_is_no_error_and_says_so(moved: Moved) -> None:
    outcome = moved.service.moves.command("orders", REVERSE, "test")
    assert outcome.verdict == "nothing-to-do"


def test_a_move_is_not_completed_before_it_is_switched(moved: Moved) -> None:
    with pytest.raises(Conflict, match="still at the source"):
        moved.service.moves.command("orders", RENAME, "test")
    assert moved.service.moves.one("orders").state is MoveState.RUNNING


def test_a_former_keeper_stops_no_feed_and_lets_none_go_on(moved: Moved) -> None:
    """He may have slept until there is another move of the name, with feeds of its own."""
    entry = moved.service._stores.moves.read("orders")
    feeds, feed = moved.service._move_hosts._feeds, entry.record.facts.feed
    for verb in (feeds.pause, feeds.resume):
        with pytest.raises(StaleOwner):
            verb(entry, entry.record.keeper - 1, feed)
        with pytest.raises(StaleOwner):
            verb(msgspec.structs.replace(entry, birth=entry.birth - 1), entry.record.keeper, feed)
    assert feeds.trouble(feed) == ""


def test_a_former_keeper_lets_no_set_up_go_on_that_was_broken_off(moved: Moved) -> None:
    entry = moved.service._stores.moves.read("orders")
    book, feeds = moved.service._stores.feeds, moved.service._move_hosts._feeds
    feed = entry.record.facts.feed
    config = config_of(book.read(feed))
    book.change(feed, lambda now: msgspec.structs.replace(now, error=BROKEN_OFF))
    try:
        with pytest.raises(StaleOwner):
            feeds.have(entry, entry.record.keeper - 1, config)
        assert book.read(feed).error == BROKEN_OFF
    finally:
        assert feeds.have(entry, entry.record.keeper, config).error == ""


def test_nobody_resumes_a_feed_whose_set_up_a_cancel_has_broken_off(moved: Moved) -> None:
    entry = moved.service._stores.moves.read("orders")
    book, feeds = moved.service._stores.feeds, moved.service._move_hosts._feeds
    feed = entry.record.facts.feed
    config = config_of(book.read(feed))
    book.change(feed, lambda now: msgspec.structs.replace(now, error=BROKEN_OFF))
    try:
        with pytest.raises(Conflict, match="the move orders is being cancelled") as refused:
            moved.service.resume_feed(feed, "test")
        assert "lockgate move status orders" in refused.value.hint
        assert book.read(feed).error == BROKEN_OFF
        assert moved.service.feed(feed).next_steps == ("lockgate move status orders",)
    finally:
        feeds.have(entry, entry.record.keeper, config)


def test_people_do_not_wake_a_feed_that_its_move_has_stopped(moved: Moved) -> None:
    """It is drained, revoked or removed next, and applies nothing any more."""
    entry, feeds = moved.service._stores.moves.read("orders"), moved.service._move_hosts._feeds
    feed = entry.record.facts.feed
    feeds.pause(entry, entry.record.keeper, feed)
    try:
        with pytest.raises(Conflict, match="the move that the feed belongs to has stopped it"):
            moved.service.resume_feed(feed, "test")
        assert moved.service.feed(feed).state is FeedState.STOPPED
    finally:
        feeds.resume(entry, entry.record.keeper, feed)


def _not_null(moved: Moved) -> bool:
    found = moved.pair.ask_target(
        "SELECT attnotnull FROM pg_attribute WHERE attrelid = 'orders'::regclass "
        "AND attname = 'note'"
    )
    return found == [(True,)]


def test_what_would_refuse_the_way_back_is_said_before_anybody_is_blocked(moved: Moved) -> None:
    moved.pair.at_source("ALTER TABLE orders ALTER COLUMN note SET NOT NULL")
    until(lambda: _not_null(moved), SOON_S)
    moved.pair.at_target("ALTER TABLE orders ALTER COLUMN note DROP NOT NULL")
    try:
        with pytest.raises(Conflict, match="must not be null there") as refused:
            moved.service.moves.command("orders", SWITCH, "test")
    finally:
        moved.pair.at_source("ALTER TABLE orders ALTER COLUMN note DROP NOT NULL")
    assert not isinstance(refused.value, RolledBack)


def test_a_switch_is_refused_while_the_feed_is_further_behind_than_people_allow(
    moved: Moved,
) -> None:
    feed = moved.service.moves.one("orders").forward
    assert feed is not None
    with PostgresSink(moved.pair.target) as sink:
        sink.hold(feed.feed, "test", None, SOON_S)
        with pytest.raises(Conflict, match="behind") as refused:
            moved.service.moves.command("orders", order(Command.SWITCH, max_lag_ms=200), "test")
        sink.release(feed.feed, "test")
    assert not isinstance(refused.value, RolledBack)
    status = moved.service.moves.one("orders")
    assert (status.state, status.traffic) == (MoveState.RUNNING, "source")
    assert "behind" in status.error


def test_a_switch_that_gets_no_lock_is_put_back_and_names_who_holds_it(moved: Moved) -> None:
    with psycopg.connect(moved.pair.source, application_name="nightly job") as holder:
        holder.execute("INSERT INTO orders (note) VALUES ('held')")
        with pytest.raises(RolledBack, match="nightly job"):
            moved.service.moves.command("orders", order(Command.SWITCH, 2.0), "test")
        status = moved.service.moves.one("orders")
        assert (status.state, status.traffic) == (MoveState.RUNNING, "source")
    moved.pair.at_source("INSERT INTO orders (note) VALUES ('after')")
    until(lambda: notes(moved.pair.target)[-2:] == ["held", "after"], SOON_S, 0.1)


def test_whoever_ignores_a_switch_is_told_where_the_table_is(moved: Moved) -> None:
    moved.service.moves.command("orders", SWITCH, "test")
    with pytest.raises(psycopg.Error, match=r"public\.orders has moved to copy"):
        moved.pair.at_source("DELETE FROM orders")
    moved.service.moves.command("orders", REVERSE, "test")
    with pytest.raises(psycopg.Error, match=r"public\.orders has moved to shop"):
        moved.pair.at_target("DELETE FROM orders")


def test_sequences_are_beyond_what_was_given_out_before_the_switch(moved: Moved) -> None:
    moved.pair.at_source("SELECT setval('orders_id_seq', 5000)")
    moved.service.moves.command("orders", SWITCH, "test")
    moved.pair.at_target("INSERT INTO orders (note) VALUES ('at the target')")
    assert moved.pair.ask_target("SELECT max(id) > 5000 FROM orders") == [(True,)]
    moved.service.moves.command("orders", REVERSE, "test")
    assert notes(moved.pair.source)[-1] == "at the target"


def _next_keeper(moved: Moved) -> None:
    """The one that keeps the move is lost, and all that it knew."""
    book = moved.service._stores.moves

    def keeper() -> int:
        entry = book.read("orders")
        assert entry is not None
        return entry.record.keeper

    former = keeper()
    moved.service._move_hosts.host("orders").end()
    until(lambda: keeper() > former, SOON_S)


def test_a_request_under_a_name_that_is_done_is_not_done_again(moved: Moved) -> None:
    moves = moved.service.moves
    first = moves.command("orders", SWITCH, "test", request="mine")
    second = moves.command("orders", REVERSE, "test", request="another's")
    _next_keeper(moved)
    again = moves.command("orders", SWITCH, "test", request="mine")
    assert [each.verdict for each in (first, second, again)] == ["done"] * 3
    assert again.what == first.what
    assert moves.one("orders").traffic == "source"


# --- what belongs to a move -----------------------------------------------------------------------


def test_the_feed_of_a_move_goes_by_the_moves_commands(moved: Moved) -> None:
    [feed] = moved.service.feeds()
    for verb in (moved.service.pause_feed, moved.service.remove_feed):
        with pytest.raises(Conflict, match="belongs to the move orders"):
            verb(feed.name, "test")
    assert "it belongs to the move orders" in feed.notes


@pytest.mark.parametrize(("source", "target"), [("shop", "copy"), ("copy", "shop")])
def test_no_other_feed_is_let_into_a_table_of_a_move(
    moved: Moved, source: str, target: str
) -> None:
    into = {"name": "other", "source": source, "target": target, "tables": ["public.orders"]}
    config = read_config({**into, "copy": False})
    for verb in (moved.service.plan_feed, lambda it: moved.service.create_feed(it, "test")):
        with pytest.raises(Conflict, match="the move orders has the table") as refused:
            verb(config)
        assert refused.value.hint
    assert "other" not in [each.name for each in moved.service.feeds()]
    beside = read_config({**into, "rename": {"public.orders": "public.beside"}})
    assert moved.service.plan_feed(beside).tables[0].target == "public.beside"


@pytest.mark.parametrize("side", ["source", "target"])
def test_nor_under_another_name_of_the_side(moved: Moved, side: str) -> None:
    urls = {"source": moved.pair.source, "target": moved.pair.target}
    into, beside = urls.pop(side), *urls.values()
    moved.service.add_endpoint(f"other-{side}", Secret(elsewise(into)), "test")
    config = read_config(
        {"name": "other", "source": beside, "target": f"other-{side}", "copy": False}
        | {"tables": ["public.orders"]}
    )
    for verb in (moved.service.plan_feed, lambda it: moved.service.create_feed(it, "test")):
        with pytest.raises(Conflict, match="the move orders has the table"):
            verb(config)
    assert "other" not in [each.name for each in moved.service.feeds()]


def test_nor_into_a_table_that_somebody_elses_move_has_closed(moved: Moved) -> None:
    moved.pair.at_source("CREATE TABLE parcels (id int PRIMARY KEY)")
    moved.pair.at_target("CREATE TABLE parcels (id int PRIMARY KEY)")
    parcels = TableName("public", "parcels")
    guard(moved.pair.target, MoveMark("theirs", 1, 1), [parcels], at="their-shop")
    config = read_config(
        {"name": "other", "source": "shop", "target": "copy", "tables": ["public.parcels"]}
    )
    for verb in (moved.service.plan_feed, lambda it: moved.service.create_feed(it, "test")):
        with pytest.raises(Conflict, match="guard of the move theirs is on it") as refused:
            verb(config)
        assert refused.value.hint
    assert "other" not in [each.name for each in moved.service.feeds()]
    moved.pair.at_source("DROP TABLE parcels")
    moved.pair.at_target("DROP TABLE parcels")


def test_a_move_that_is_created_while_a_feed_is_looked_at_refuses_it(
    moved: Moved, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = moved.service._stores.moves
    moved.pair.at_source("CREATE TABLE parcels (id int PRIMARY KEY)")
    table = {"source": "shop", "target": "copy", "tables": ["public.parcels"]}
    second = MoveConfig(name="second", source="shop", target="copy", tables=("public.parcels",))
    looked = apart.closed_findings

    def then_moved(*asked: Any) -> list[Finding]:
        book.enter(second, ["public.parcels"], [])
        return looked(*asked)

    monkeypatch.setattr(apart, "closed_findings", then_moved)
    with pytest.raises(Conflict, match="created at this moment"):
        moved.service.create_feed(read_config({"name": "other", **table}), "test")
    assert "other" not in [each.name for each in moved.service.feeds()]
    monkeypatch.undo()
    copied(moved.service, second)
    assert moved.service.moves.command("second", CANCEL, "test").verdict == "done"
    moved.service.moves.remove("second", "test")
    moved.pair.at_source("DROP TABLE parcels")


def test_an_endpoint_of_a_move_is_not_removed(moved: Moved) -> None:
    with pytest.raises(Conflict, match="moves use it: orders"):
        moved.service.remove_endpoint("shop", "test")


def test_a_name_that_is_in_use_is_refused(moved: Moved) -> None:
    other = msgspec.structs.replace(CONFIG, tables=("public.orders",))
    planned = moved.service.moves.plan(other)
    with pytest.raises(Conflict, match="another configuration") as refused:
        moved.service.moves.create(other, "test")
    assert planned.what == f"it would be refused: {refused.value.what}"
    assert [each.severity for each in planned.findings] == ["error"]


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_table_is_in_one_move_also_under_another_name_of_the_side(
    moved: Moved, pg18: EmbeddedPostgres, side: str
) -> None:
    url = {"source": moved.pair.source, "target": moved.pair.target}[side]
    with fresh_database(pg18) as third:
        moved.service.add_endpoint(f"alias-{side}", Secret(elsewise(url)), "test")
        moved.service.add_endpoint(f"third-{side}", Secret(third), "test")
        config = MoveConfig(
            name="second",
            source=f"alias-{side}",
            target=f"third-{side}",
            tables=("public.orders",),
        )
        planned = moved.service.moves.plan(config)
        assert "the move orders has this table already" in planned.what
        with pytest.raises(Conflict, match="the move orders has this table already"):
            moved.service.moves.create(config, "test")
    assert [each.name for each in moved.service.moves.all()] == ["orders"]


def test_creating_it_again_as_it_is_is_no_error(moved: Moved) -> None:
    planned = moved.service.moves.plan(CONFIG)
    assert (planned.verdict, planned.findings, planned.dry) == ("nothing-to-do", (), True)
    assert moved.service.moves.create(CONFIG, "test").state is MoveState.RUNNING


def test_an_unknown_move_is_not_found(moved: Moved) -> None:
    with pytest.raises(NotFound):
        moved.service.moves.command("other", SWITCH, "test")


@pytest.fixture
def loose(moved: Moved) -> Iterator[None]:
    """A table that no move has, with a row at the target."""
    for at in (moved.pair.at_source, moved.pair.at_target):
        at("CREATE TABLE loose (id int PRIMARY KEY)")
    moved.pair.at_target("INSERT INTO loose VALUES (1)")
    yield
    for at in (moved.pair.at_source, moved.pair.at_target):
        at("DROP TABLE loose")


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"tables": ("public.nothing",)}, UsageError),
        ({"target": "shop"}, EndpointRefused),
        ({}, EndpointRefused),
        ({"tables": ("public.*",)}, Conflict),
    ],
    ids=["no such table", "the same database", "not empty at the target", "moved by another"],
)
@pytest.mark.usefixtures("loose")
def test_what_cannot_be_moved_is_refused_and_leaves_nothing(
    moved: Moved, config: dict[str, object], error: type[Exception]
) -> None:
    left = left_behind(moved.pair)
    given = {"name": "second", "source": "shop", "target": "copy", "tables": ("public.loose",)}
    with pytest.raises(error):
        moved.service.moves.create(MoveConfig(**given | config), "test")
    assert [each.name for each in moved.service.moves.all()] == ["orders"]
    assert left_behind(moved.pair) == left


def test_a_table_whose_old_name_is_in_use_is_refused_and_leaves_nothing(moved: Moved) -> None:
    moved.pair.at_source(
        "CREATE TABLE reports (id int PRIMARY KEY)", "CREATE TABLE _reports_old ()"
    )
    left = left_behind(moved.pair)
    config = MoveConfig(name="second", source="shop", target="copy", tables=("public.reports",))
    with pytest.raises(EndpointRefused, match="_reports_old") as refused:
        moved.service.moves.create(config, "test")
    assert refused.value.hint
    assert [each.name for each in moved.service.moves.all()] == ["orders"]
    assert left_behind(moved.pair) == left
    assert moved.pair.ask_target("SELECT to_regclass('reports')") == [(None,)]
    moved.pair.at_source("DROP TABLE reports, _reports_old")
