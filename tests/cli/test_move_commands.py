"""The commands of moves: what they do at a node, what they print, how they end."""

import sys
import threading
from collections.abc import Iterator

import pytest

import lockgate
from lockgate.client.moves import took_s
from lockgate.model.errors import OutcomeUnknown
from lockgate.model.feed_status import FindingDocument
from lockgate.model.move_status import MoveStep
from lockgate.model.moves import Disposal, MoveState, Side
from tests.cli.conftest import Run
from tests.cli.test_terminal import Terminal
from tests.support.fake_moves import FakeMoves
from tests.support.served import Served
from tests.support.waiting import until

CREATE = "move create more --from shop --to copy --tables public.orders public.items"


@pytest.fixture
def moves(served: Served, monkeypatch: pytest.MonkeyPatch) -> FakeMoves:
    """A node with the move `shop`, looked at often."""
    monkeypatch.setattr("lockgate.cli.move_waiting.LOOK_S", 0.01)
    monkeypatch.setattr("lockgate.client.moves.LOOK_S", 0.01)
    with lockgate.connect() as lg:
        lg.moves.create("shop", source="shop", target="copy", tables=["public.*"])
    return served.service.moves


# --- looking --------------------------------------------------------------------------------------


def test_a_status_has_the_keys_that_scripts_read(run: Run, moves: FakeMoves) -> None:
    document = run("move status shop --json").document
    assert document.keys() >= {
        *("name", "state", "step", "steps", "traffic", "lag_s", "copy", "forward", "reverse"),
        *("as_of", "error", "next_steps"),
    }


def test_a_status_says_where_the_traffic_is_and_what_was_done(run: Run, moves: FakeMoves) -> None:
    out = run("move status shop").out
    assert "traffic  source (shop)" in out
    assert "steps of create\n  check-create    done        0.25 s\n" in out


def test_a_status_ends_with_what_can_be_done_next(run: Run, moves: FakeMoves) -> None:
    assert run("move status shop").out.endswith("\nnext\n  lockgate move switch shop\n")


def test_a_list_has_a_line_for_each(run: Run, moves: FakeMoves) -> None:
    heading, row = run("move list").out.splitlines()
    assert heading.split()[:4] == ["NAME", "STATE", "FROM", "TO"]
    assert row.split()[:6] == ["shop", "running", "shop", "copy", "3", "source"]
    assert [one["name"] for one in run("move list --json").document["items"]] == ["shop"]


def test_no_moves_says_how_to_begin_one(run: Run, served: Served) -> None:
    assert "lockgate move create NAME" in run("move list").err


def test_no_such_move_is_failure(run: Run, served: Served) -> None:
    done = run("move status nobody --json")
    assert (done.code, done.document["error"]["code"]) == (1, "not-found")


@pytest.mark.parametrize(
    ("started", "ended", "took"),
    [
        ("2026-03-01T09:30:00.000Z", "2026-03-01T09:30:01.500Z", 1.5),
        ("2026-03-01T09:30:00.000000+00:00", "2026-03-01T09:30:00.250000+00:00", 0.25),
        ("2026-03-01T09:30:00.000Z", "", None),
        ("", "", None),
        ("yesterday", "today", None),
    ],
)
def test_how_long_a_step_took(started: str, ended: str, took: float | None) -> None:
    assert took_s(MoveStep("block", "done", started, ended)) == took


# --- making ---------------------------------------------------------------------------------------


def test_a_move_is_made_of_all_that_follows_tables(run: Run, moves: FakeMoves) -> None:
    done = run(f"{CREATE} --no-defer-indexes --hook dns --json")
    assert (done.code, done.document["tables"]) == (0, ["public.items", "public.orders"])
    assert not moves._configs["more"].defer_indexes
    assert done.document["hook"] == "dns"


def test_the_same_move_again_is_no_error(run: Run, moves: FakeMoves) -> None:
    assert [run(CREATE).code, run(CREATE).code] == [0, 0]


@pytest.mark.parametrize(
    "line",
    [
        "move create more --from shop --tables public.*",
        "move create more --from shop --to copy",
        "move create No! --from shop --to copy --tables public.*",
        "move create more --from shop --to copy --tables nonsense",
        "move complete shop",
        "move complete shop --rename --drop",
        "move switch shop --timeout 0",
        "move switch",
    ],
)
def test_wrong_usage_is_2_and_asks_nobody(line: str, run: Run, moves: FakeMoves) -> None:
    done = run(f"{line} --json")
    assert (done.code, done.document["error"]["code"]) == (2, "usage")
    assert not moves.asked


def test_a_dry_run_makes_nothing(run: Run, moves: FakeMoves) -> None:
    done = run(f"{CREATE} --dry-run")
    assert (done.code, done.out.splitlines()[0].split()) == (0, ["STEP", "WOULD"])
    assert "nothing was changed" in done.err
    assert [one.name for one in moves.all()] == ["shop"]


def test_what_stands_in_the_way_is_failure_of_a_dry_run(run: Run, moves: FakeMoves) -> None:
    moves.findings = (FindingDocument("error", "target-rows", "rows are there", "orders", "move"),)
    done = run(f"{CREATE} --dry-run --json")
    assert (done.code, done.document["findings"][0]["code"]) == (1, "target-rows")
    assert done.err.startswith("error: 1 thing stands in the way (more)\n")


def test_a_move_that_could_not_begin_is_failure(
    run: Run, moves: FakeMoves, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves.put("shop", state=MoveState.ERROR, error="the slot is gone")
    done = run("move create shop --from shop --to copy --tables public.*")
    assert (done.code, "the slot is gone" in done.err) == (1, True)


def test_a_new_move_is_waited_for(run: Run, moves: FakeMoves) -> None:
    run(CREATE)
    # The first look is the node's own: is there such a move already?
    moves.then = [{"state": MoveState.COPYING}, {"state": MoveState.RUNNING}]
    done = run(f"{CREATE} --wait --json")
    assert done.document["state"] == "running"
    assert done.err.startswith("more: copying; traffic source; lag 0.1 s\n")


# --- commands -------------------------------------------------------------------------------------


def test_a_whole_move(run: Run, moves: FakeMoves) -> None:
    switched = run("move switch shop")
    assert switched.out.splitlines()[0] == "the target has the traffic"
    assert "lockgate move complete shop --rename" in switched.out
    assert run("move reverse shop --json").document["traffic"] == "source"
    assert run("move switch shop --timeout 5 --max-lag 2").code == 0
    ended = run("move complete shop --rename --json").document
    assert (ended["state"], ended["verdict"], ended["as_of"]) == ("completed", "done", "0/2A4410")
    assert run("move remove shop").out == "forgot the move shop\n"


def test_the_steps_are_told_on_the_way(run: Run, moves: FakeMoves) -> None:
    lines = run("move switch shop").err.splitlines()
    assert [line.split()[0] for line in lines] == [step.name for step in moves.one("shop").steps]
    assert lines[2].split() == ["catch-up", "done", "0.25", "s", "1.2", "s"]


def test_a_finished_command_again_is_success_that_says_so(run: Run, moves: FakeMoves) -> None:
    run("move switch shop")
    done = run("move switch shop")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("the move is switched already\n")
    assert run("move switch shop --json").document["verdict"] == "nothing-to-do"


@pytest.mark.parametrize(
    "line", ["switch shop", "cancel shop", "cancel shop --keep"], ids=lambda line: line
)
def test_a_dry_run_shows_the_steps_and_changes_nothing(
    line: str, run: Run, moves: FakeMoves
) -> None:
    document = run(f"move {line} --dry-run --json").document
    assert document["dry_run"]
    assert document["steps"][0].keys() == {"name", "detail"}
    assert moves.one("shop").state is MoveState.RUNNING


@pytest.mark.parametrize(
    ("line", "disposal"),
    [
        ("complete shop --rename", Disposal.RENAME),
        ("complete shop --drop", Disposal.DROP),
        ("complete shop --keep", Disposal.KEEP),
        ("cancel shop", Disposal.DROP),
        ("cancel shop --keep", Disposal.KEEP),
    ],
)
def test_what_becomes_of_tables_gets_through(
    line: str, disposal: Disposal, run: Run, moves: FakeMoves
) -> None:
    run(f"move {line}")
    assert moves.orders[-1].disposal is disposal


def test_times_get_through(run: Run, moves: FakeMoves) -> None:
    run("move switch shop --timeout 2.5 --max-lag 0.5")
    assert (moves.orders[-1].timeout_ms, moves.orders[-1].max_lag_ms) == (2500, 500)


def test_a_flip_that_was_put_back_is_failure(run: Run, moves: FakeMoves) -> None:
    moves.trouble = "pid 7 holds public.orders"
    done = run("move switch shop --json")
    assert (done.code, done.document["error"]["code"]) == (1, "rolled-back")
    assert "error: pid 7 holds public.orders (shop)\nhint: try again\n" in done.err


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        ("cancel shop --lost target", Side.TARGET),
        ("complete shop --keep --lost source", Side.SOURCE),
    ],
)
def test_a_side_that_is_lost_is_named_and_what_is_left_there_is_told(
    run: Run, moves: FakeMoves, line: str, lost: Side
) -> None:
    if lost is Side.SOURCE:
        run("move switch shop")
    ended = run(f"move {line}")
    assert ended.code == 0
    assert moves.orders[-1].lost is lost
    assert f"left behind, {lost.value} db: a slot" in ended.out.splitlines()


def test_only_a_side_can_be_lost(run: Run, moves: FakeMoves) -> None:
    assert run("move cancel shop --lost both").code == 2
    assert not moves.orders


def test_a_switched_move_is_not_cancelled(run: Run, moves: FakeMoves) -> None:
    run("move switch shop")
    assert run("move cancel shop").code == 1
    assert moves.one("shop").state is MoveState.SWITCHED


# --- what takes long ------------------------------------------------------------------------------


@pytest.fixture
def slow(moves: FakeMoves, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Switches last until the event, at the step `block`."""
    over, plain = threading.Event(), moves.command

    def command(*args: object, **how: object) -> object:
        moves.at("shop", "block")
        assert over.wait(30)
        return plain(*args, **how)

    monkeypatch.setattr(moves, "command", command)
    yield over
    over.set()


def test_a_step_that_lasts_is_told_while_it_does(
    run: Run, moves: FakeMoves, slow: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = moves.one

    def one(name: str) -> object:
        seen = plain(name)
        if seen.step:
            slow.set()
        return seen

    monkeypatch.setattr(moves, "one", one)
    lines = [line.split()[:2] for line in run("move switch shop").err.splitlines()]
    assert lines[:3] == [["check", "done"], ["block", "running"], ["block", "done"]]


def test_ctrl_c_leaves_it_running_and_says_so(
    run: Run, moves: FakeMoves, slow: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        # A connection that is only being made when the client is closed is closed by nobody.
        until(lambda: moves.one("shop").step == "block")
        raise KeyboardInterrupt

    monkeypatch.setattr("lockgate.client.moves.Moves.status", interrupted)
    done = run("move switch shop --json")
    assert (done.code, done.document["verdict"]) == (130, "under-way")
    assert "goes on by itself; `lockgate move watch shop` shows how far it is" in done.err


def test_a_look_that_fails_does_not_end_the_wait(
    run: Run, moves: FakeMoves, slow: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockgate.client.transport.RETRY_AFTER_S_MAX", 0.0)

    def one(name: str) -> object:
        slow.set()
        raise OutcomeUnknown("away", object_=name, hint="")

    monkeypatch.setattr(moves, "one", one)
    assert run("move switch shop").code == 0


def test_on_a_terminal_the_steps_are_a_picture(
    run: Run, moves: FakeMoves, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    run("move switch shop")
    assert "catch-up" in terminal.getvalue()


# --- watching -------------------------------------------------------------------------------------


def test_watching_ends_with_the_move(run: Run, moves: FakeMoves) -> None:
    moves.at("shop", "block")
    moves.then = [{"state": MoveState.COMPLETED, "step": ""}]
    done = run("move watch shop --interval 0.1")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["check", "block"]
    assert lines[2] == "shop: switching; step block; traffic source; lag 0.1 s"
    assert lines[-1].startswith("shop: completed")


def test_watching_on_a_terminal_draws_the_status(
    run: Run, moves: FakeMoves, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves.put("shop", state=MoveState.CANCELLED)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert run("move watch shop").code == 0
    assert "steps of create" in terminal.getvalue()


def test_watching_for_scripts_ends_when_nothing_is_under_way(run: Run, moves: FakeMoves) -> None:
    moves.put("shop", state=MoveState.COPYING)
    moves.then = [{"state": MoveState.RUNNING}]
    assert run("move watch shop --json").document["state"] == "running"
