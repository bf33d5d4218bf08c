"""Feeds of people's that are called as a move's: none is created any more, and one of a time when
that could be holds up no move."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from lockgate.model.errors import Conflict, UsageError
from lockgate.model.feed_config import FeedConfig, read_config
from lockgate.model.move_config import MoveConfig
from lockgate.model.moves import MoveState, Side
from lockgate.node.feed import setup
from lockgate.node.service.moves import RolledBack
from tests.support.moves import CANCEL, CONFIG, SWITCH, Moved, commanded
from tests.support.waiting import until

SOON_S = 60.0
PARCELS = MoveConfig(name="second", source="shop", target="copy", tables=("public.parcels",))


def _config(name: str) -> FeedConfig:
    return read_config(
        {"name": name, "source": "shop", "target": "copy", "tables": ["public.parcels"]}
    )


@contextmanager
def feed_of_old(moved: Moved, name: str) -> Iterator[None]:
    """A feed of people's, whatever it is called. Its set-up waits for somebody to act."""
    book = moved.service._stores.feeds
    book.enter(
        name,
        lambda birth: msgspec.structs.replace(
            setup.entry_of(_config(name), "home", birth), error="it waits"
        ),
    )
    try:
        yield
        assert not book.read(name).removing, "nobody has asked for that"
    finally:
        book.remove(book.change(name, lambda now: msgspec.structs.replace(now, removing=True)))


@pytest.fixture
def parcels(moved: Moved) -> Iterator[None]:
    moved.pair.at_source("CREATE TABLE parcels (id int PRIMARY KEY)")
    yield
    moved.pair.at_source("DROP TABLE parcels")


@pytest.fixture
def unseen(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    """The feed comes when the checks have looked."""
    feeds = moved.service._move_hosts._feeds
    monkeypatch.setattr(feeds, "refuse_if_taken", lambda _: None, raising=False)


@pytest.mark.parametrize("name", ["orders--1", "else--7"])
def test_no_feed_is_created_under_a_name_that_a_move_gives(
    moved: Moved, parcels: None, name: str
) -> None:
    for verb in (moved.service.plan_feed, lambda it: moved.service.create_feed(it, "test")):
        with pytest.raises(UsageError, match="moves call theirs so"):
            verb(_config(name))
    assert name not in [each.name for each in moved.service.feeds()]


def test_a_switch_that_needs_a_name_in_use_is_refused_before_anybody_is_blocked(
    moved: Moved,
) -> None:
    with feed_of_old(moved, "orders--1"), pytest.raises(Conflict, match="not the move's") as no:
        moved.service.moves.command("orders", SWITCH, "test")
    assert not isinstance(no.value, RolledBack)
    assert "another name" in no.value.hint


@pytest.mark.usefixtures("unseen")
def test_a_switch_that_meets_a_name_in_use_is_put_back(moved: Moved) -> None:
    with feed_of_old(moved, "orders--1"), pytest.raises(RolledBack, match="not the move's"):
        commanded(moved.service, SWITCH)
    entry = moved.service._stores.moves.read("orders")
    assert (entry.record.ended, entry.record.traffic) == (True, Side.SOURCE)
    moved.pair.at_source("INSERT INTO orders (note) VALUES ('as before')")


@pytest.mark.usefixtures("parcels")
def test_a_move_that_needs_a_name_in_use_is_refused_and_leaves_nothing(moved: Moved) -> None:
    with feed_of_old(moved, "second--0"):
        assert "not the move's" in moved.service.moves.plan(PARCELS).what
        with pytest.raises(Conflict, match="not the move's"):
            moved.service.moves.create(PARCELS, "test")
    assert [each.name for each in moved.service.moves.all()] == [CONFIG.name]


@pytest.mark.usefixtures("parcels", "unseen")
def test_a_create_that_meets_a_name_in_use_says_so_and_can_be_cancelled(moved: Moved) -> None:
    service = moved.service
    with feed_of_old(moved, "second--0"):
        service._stores.moves.enter(PARCELS, ["public.parcels"], [])
        until(lambda: service.moves.one("second").state is MoveState.ERROR, SOON_S)
        assert "not the move's" in service.moves.one("second").error
        assert service.moves.command("second", CANCEL, "test").verdict == "done"
    assert service.moves.one("second").state is MoveState.CANCELLED
    service.moves.remove("second", "test")
