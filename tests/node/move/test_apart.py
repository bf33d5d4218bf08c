"""Feeds that are in the book and write nothing yet: no move is let near them, nor they near one."""

from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import pytest

from lockgate.endpoints.postgres.cutover import MoveMark, guard
from lockgate.model.errors import Conflict, EndpointRefused
from lockgate.model.feed_config import read_config
from lockgate.model.move_config import MoveConfig
from lockgate.model.moves import Command, MoveOrder
from lockgate.model.secret import Secret
from lockgate.model.tables import TableName
from lockgate.node.feed.setup import entry_of
from lockgate.node.service import move_plans
from lockgate.store.feeds import FeedEntry
from tests.support.databases import left_open
from tests.support.moves import Moved, elsewise
from tests.support.waiting import until

SOON_S = 60.0
PARCELS = TableName("public", "parcels")
MOVE = MoveConfig(name="second", source="shop", target="copy", tables=("public.parcels",))
FEED = {"name": "feed", "source": "shop", "target": "copy", "tables": ["public.parcels"]}
FAILED = {"error": "its set-up has failed"}
"""Nobody tries again before it is resumed."""


@pytest.fixture(autouse=True)
def parcels(moved: Moved) -> Iterator[None]:
    """A table that nobody moves yet, and the names of both databases that only feeds use."""
    for at in (moved.pair.at_source, moved.pair.at_target):
        at("CREATE TABLE parcels (id int PRIMARY KEY)")
    moved.service.add_endpoint("other-copy", Secret(elsewise(moved.pair.target)), "test")
    yield
    if _read(moved) is not None:
        until(lambda: moved.service.remove_feed("feed", "test", force=True) is None, SOON_S)
    for at in (moved.pair.at_source, moved.pair.at_target):
        at("DROP TABLE parcels")


def _entered(moved: Moved, more: dict[str, Any], **fields: Any) -> FeedEntry:
    """A feed in the book."""
    config, home = read_config(FEED | more), moved.service._keeper._contexts.home
    return moved.service._stores.feeds.enter(
        "feed", lambda birth: msgspec.structs.replace(entry_of(config, home, birth), **fields)
    )


def _read(moved: Moved) -> FeedEntry | None:
    return moved.service._stores.feeds.read("feed")


def _error(moved: Moved) -> str:
    """Why the feed is not set up; it has left no slot then, which would keep the log."""
    entry = _read(moved)
    assert entry is not None
    assert entry.start is None
    if entry.error:
        assert (entry.slot,) not in moved.pair.slots()
    return entry.error


@pytest.fixture
def second(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A move in the book that was entered without a look at feeds. Nobody keeps it."""
    book, hosts = moved.service._stores.moves, moved.service._move_hosts
    begin = hosts.begin

    def not_the_second(name: str, wanted: int) -> object:
        if name == "second":
            raise Conflict("it is not kept", object_=name, hint="nothing: a test wants it so")
        return begin(name, wanted)

    monkeypatch.setattr(hosts, "begin", not_the_second)
    entry = book.enter(MOVE, [PARCELS.id], [PARCELS.id])
    yield
    record, _ = book.begin("second", entry.birth)
    over = {"order": MoveOrder(Command.CANCEL), "ended": True, "serial": record.serial + 1}
    assert book.write(entry.birth, msgspec.structs.replace(record, **over))
    book.remove("second")


@pytest.mark.parametrize(
    ("more", "fields"),
    [
        ({}, {}),
        ({"source": "copy", "target": "shop", "copy": False}, {}),
        ({"target": "other-copy"}, {}),
        ({"tables": ["public.p*"]}, {}),
        ({"tables": ["public.boxes"], "rename": {"public.boxes": "public.parcels"}}, {}),
        ({}, {"start": 1, "tables": ("public.parcels",)}),
    ],
    ids=["target", "source", "another name", "pattern", "renamed", "set up and not born"],
)
def test_no_move_is_let_into_a_table_that_a_feed_will_write_to(
    moved: Moved, more: dict[str, Any], fields: dict[str, Any]
) -> None:
    _entered(moved, more, **fields, **FAILED)
    planned = moved.service.moves.plan(MOVE)
    assert "the feed feed ends in it" in planned.what
    with pytest.raises(EndpointRefused, match="the feed feed ends in it") as refused:
        moved.service.moves.create(MOVE, "test")
    assert refused.value.hint == planned.hint
    assert "lockgate feed remove feed" in planned.hint
    assert [each.name for each in moved.service.moves.all()] == ["orders"]


@pytest.mark.parametrize(
    ("more", "fields"),
    [
        ({"rename": {"public.parcels": "public.beside"}}, {}),
        ({"tables": ["public.*"]}, {"start": 1, "tables": ("public.boxes",)}),
    ],
    ids=["renamed", "set up without it"],
)
def test_a_feed_that_ends_in_other_tables_is_no_obstacle(
    moved: Moved, more: dict[str, Any], fields: dict[str, Any]
) -> None:
    _entered(moved, more, **fields, **FAILED)
    assert moved.service.moves.plan(MOVE).what == "nothing was changed"


def test_a_feed_that_is_created_while_a_move_is_looked_at_refuses_it(
    moved: Moved, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = move_plans._there

    def then_fed(*asked: Any) -> object:
        _entered(moved, {}, **FAILED)
        return looked(*asked)

    monkeypatch.setattr(move_plans, "_there", then_fed)
    with pytest.raises(Conflict, match="created at this moment"):
        moved.service.moves.create(MOVE, "test")
    assert [each.name for each in moved.service.moves.all()] == ["orders"]


@pytest.mark.usefixtures("second")
def test_a_set_up_that_failed_is_not_resumed_into_a_table_that_is_moved_by_now(
    moved: Moved,
) -> None:
    _entered(moved, {"copy": False}, **FAILED)
    with pytest.raises(Conflict, match="the move second has the table"):
        moved.service.resume_feed("feed", "test")
    assert _error(moved) == FAILED["error"]


@pytest.mark.usefixtures("second")
def test_nor_is_a_feed_set_up_into_it(moved: Moved) -> None:
    _entered(moved, {"copy": False})
    until(lambda: "the move second has the table" in _error(moved), SOON_S)


def test_nor_into_one_that_somebody_elses_move_has_closed_while_it_waited_for_its_slot(
    moved: Moved,
) -> None:
    with left_open(moved.pair.source):
        _entered(moved, {})
        until(lambda: "nightly job" in moved.service.feed("feed").error, SOON_S)
        guard(moved.pair.target, MoveMark("theirs", 1, 1), [PARCELS], at="their-shop")
    until(lambda: "guard of the move theirs is on it" in _error(moved), SOON_S)
    with psycopg.connect(moved.pair.target) as connection:
        assert connection.execute("SELECT * FROM parcels").fetchall() == []
