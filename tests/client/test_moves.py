"""The client's verbs of moves and routes."""

import itertools
import threading

import pytest

import lockgate
from lockgate.client import Client
from lockgate.client.routes import RouteFollower, moved_to
from lockgate.model.errors import Conflict, MetastoreUnavailable, NotFound, UsageError
from lockgate.model.move_status import MoveStatus
from lockgate.model.moves import MoveState
from tests.support.served import Served
from tests.support.waiting import until


@pytest.fixture
def mover(lg: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A client with a move `orders`, that does not pause for long."""
    monkeypatch.setattr("lockgate.client.transport.BACKOFF_S", 0.0)
    monkeypatch.setattr("lockgate.client.transport.RETRY_AFTER_S_MAX", 0.0)
    monkeypatch.setattr("lockgate.client.moves.LOOK_S", 0.01)
    monkeypatch.setattr("lockgate.client.routes.PAUSE_S", 0.01)
    lg.moves.create("orders", source="shop", target="copy", tables=["public.orders"])
    return lg


def test_a_status_comes_as_its_type(mover: Client) -> None:
    status = mover.moves.status("orders")
    assert isinstance(status, MoveStatus)
    assert (status.state, status.tables) == (MoveState.RUNNING, ("public.orders",))
    assert list(mover.moves.list()) == [status]


def test_one_text_is_no_list_of_tables(mover: Client) -> None:
    with pytest.raises(UsageError):
        mover.moves.create("more", source="shop", target="copy", tables="public.*")


def test_a_plan_says_what_would_be_done(mover: Client) -> None:
    planned = mover.moves.plan("more", source="shop", target="copy", tables=["public.*"])
    assert [step.name for step in planned.steps] == ["check-create", "forward", "guard"]


def test_a_side_that_is_lost_is_named(mover: Client) -> None:
    ended = mover.moves.cancel("orders", lost="target")
    assert ended.status is not None
    assert ended.status.notes == ("left behind, target db: a slot",)


def test_a_move_goes_from_one_end_to_the_other(mover: Client) -> None:
    assert mover.moves.switch("orders").verdict == "done"
    assert mover.moves.switch("orders").verdict == "nothing-to-do"
    assert mover.moves.reverse("orders", dry_run=True).dry
    ended = mover.moves.complete("orders", "drop")
    assert ended.status is not None
    assert ended.status.state is MoveState.COMPLETED
    mover.moves.remove("orders")
    with pytest.raises(NotFound):
        mover.moves.status("orders")


def test_a_command_is_asked_on_under_one_name_until_there_is_a_verdict(
    mover: Client, served: Served
) -> None:
    served.service.moves.under_way = 3
    outcome = mover.moves.switch("orders")
    assert outcome.verdict == "done"
    assert [request for _, _, request in served.service.moves.asked] == [outcome.request] * 4


def test_a_node_that_goes_away_while_it_is_asked_on_is_waited_for(
    mover: Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves = served.service.moves
    moves.under_way = 1
    plain, away = moves.command, 3

    def command(*args: object, **how: object) -> object:
        nonlocal away
        if not moves.under_way and away:
            away -= 1
            raise MetastoreUnavailable("away", object_="meta", hint="")
        return plain(*args, **how)

    monkeypatch.setattr(moves, "command", command)
    assert mover.moves.switch("orders").verdict == "done"
    assert away == 0


def test_a_flip_that_was_put_back_is_a_conflict_with_its_own_code(
    mover: Client, served: Served
) -> None:
    served.service.moves.trouble = "a lock is held"
    with pytest.raises(Conflict, match="a lock is held") as refused:
        mover.moves.switch("orders")
    assert refused.value.code == "rolled-back"


def test_a_wait_ends_when_nothing_is_under_way(mover: Client, served: Served) -> None:
    moves = served.service.moves
    moves.put("orders", state=MoveState.COPYING)
    seen: list[MoveState] = []

    def told(status: MoveStatus) -> None:
        seen.append(status.state)
        moves.put("orders", state=MoveState.RUNNING)

    assert mover.moves.wait("orders", told=told).state is MoveState.RUNNING
    assert seen == [MoveState.COPYING, MoveState.RUNNING]


def test_a_wait_has_an_end(mover: Client, served: Served) -> None:
    served.service.moves.put("orders", state=MoveState.COPYING)
    assert mover.moves.wait("orders", 0.05).state is MoveState.COPYING


# --- routes ---------------------------------------------------------------------------------------


def test_a_table_s_endpoint_is_looked_up(mover: Client) -> None:
    assert mover.routes.table("public.orders") == "shop"
    mover.moves.switch("orders")
    assert mover.routes.table("public.orders") == "copy"


def test_a_table_that_never_moved_has_no_route(mover: Client) -> None:
    with pytest.raises(NotFound) as refused:
        mover.routes.table("public.nobody")
    assert refused.value.object == "public.nobody"


def test_routes_are_followed_from_change_to_change(mover: Client, served: Served) -> None:
    seen = []
    for routes in mover.routes.follow():
        seen.append((routes.version, routes.routes[0].endpoint))
        if len(seen) == 3:
            break
        served.service.moves.point("orders", "copy" if len(seen) == 1 else "shop")
    assert [endpoint for _, endpoint in seen] == ["shop", "copy", "shop"]
    assert all(one < other for (one, _), (other, _) in itertools.pairwise(seen))


def test_who_follows_waits_for_a_node_that_is_away(mover: Client, served: Served) -> None:
    service = served.service
    followed = mover.routes.follow()
    next(followed)
    service.failures["routes"] = MetastoreUnavailable("away", object_="meta", hint="")
    asked = len(service.calls)

    def back() -> None:
        until(lambda: len(service.calls) > asked + 2)
        del service.failures["routes"]
        service.moves.point("orders", "copy")

    thread = threading.Thread(target=back)
    thread.start()
    assert next(followed).routes[0].endpoint == "copy"
    thread.join(10)


def test_a_follower_knows_without_asking(mover: Client, served: Served) -> None:
    with lockgate.connect(served.url, served.token()) as own, RouteFollower(own.routes) as known:
        assert known.table("public.orders") == "shop"
        served.service.moves.point("orders", "copy")
        until(lambda: known.table("public.orders") == "copy")
        with pytest.raises(NotFound):
            known.table("public.nobody")


def test_who_was_told_that_a_table_has_moved_knows_at_once_and_for_everybody(
    mover: Client, served: Served
) -> None:
    with lockgate.connect(served.url, served.token()) as own, RouteFollower(own.routes) as known:
        known.close()  # nobody else brings news
        served.service.moves.point("orders", "copy")
        assert known.refresh("public.orders") == "copy"
        assert known.table("public.orders") == "copy"


@pytest.mark.parametrize(
    ("message", "home"),
    [
        ("LOCKGATE: table public.orders has moved to shop-new", "shop-new"),
        ('LOCKGATE: table public." has moved to a" has moved to b\nHINT:  write to it there', "b"),
        ("LOCKGATE: table public.orders is moving to shop-new", None),
        ("LOCKGATE: table public.orders is not open here yet: it is at shop", None),
        ("everybody has moved to the hills", None),
        ("", None),
    ],
)
def test_a_guards_error_names_the_new_home(message: str, home: str | None) -> None:
    assert moved_to(message) == home
