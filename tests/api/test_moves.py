"""Moves over HTTP: what is shown, what is asked on, what is refused."""

import pytest

from lockgate.model.errors import OutcomeUnknown
from lockgate.model.moves import Command, Disposal, MoveOrder, Side
from lockgate.model.tokens import Role
from tests.api.conftest import Ask
from tests.support.services import FakeService

MOVES = "/api/v1/moves"
SHOP = f"{MOVES}/shop"
WISH = {"name": "shop", "source": "shop", "target": "copy", "tables": ["public.*"]}


@pytest.fixture(autouse=True)
def move(ask: Ask, shop: str) -> str:
    assert ask("POST", MOVES, json=WISH, role=Role.OPERATOR).status_code == 201
    return "shop"


# --- looking --------------------------------------------------------------------------------------


def test_a_status_has_the_keys_that_scripts_read(ask: Ask) -> None:
    assert ask("GET", SHOP, role=Role.VIEWER).json().keys() >= {
        *("name", "state", "step", "steps", "traffic", "lag_s", "copy", "forward", "reverse"),
        *("as_of", "error", "next_steps"),
    }


def test_a_step_has_the_keys_that_scripts_read(ask: Ask) -> None:
    for step in ask("GET", SHOP).json()["steps"]:
        assert step.keys() >= {"name", "state", "started", "ended", "detail"}


def test_moves_are_listed(ask: Ask) -> None:
    assert [one["name"] for one in ask("GET", MOVES).json()["items"]] == ["shop"]


# --- making ---------------------------------------------------------------------------------------


def test_the_same_move_again_is_no_error(ask: Ask) -> None:
    assert ask("POST", MOVES, json=WISH).status_code == 200


def test_another_move_of_the_name_is_a_conflict(ask: Ask) -> None:
    answer = ask("POST", MOVES, json={**WISH, "tables": ["sales.*"]})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


def test_a_plan_changes_nothing(ask: Ask) -> None:
    planned = ask("POST", f"{MOVES}/plan", json={**WISH, "name": "more"}).json()
    assert (planned["dry"], [one["name"] for one in planned["steps"]]) == (
        True,
        ["check-create", "forward", "guard"],
    )
    assert ask("GET", f"{MOVES}/more").status_code == 404


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"name": "No"}, "name"),
        ({"name": "a--b"}, "name"),
        ({"name": "x" * 31}, "name"),
        ({"source": "postgres://app:hunter2@db/shop"}, "source"),
        ({"tables": []}, "tables"),
        ({"tables": ["!public.*"]}, "tables"),
        ({"hook": "/bin/sh -c true"}, "hook"),
        ({"hook": {"command": ["/bin/sh"]}}, "hook"),
        ({"hooks": "x"}, "hooks"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_move_names_its_key(
    change: dict[str, object], key: str, ask: Ask
) -> None:
    answer = ask("POST", MOVES, json={**WISH, "name": "more", **change})
    assert (answer.status_code, answer.json()["object"]) == (422, key)
    assert "hunter2" not in answer.text


# --- commands -------------------------------------------------------------------------------------


def test_traffic_goes_there_and_back_and_there_for_good(ask: Ask) -> None:
    for command, traffic in [("switch", "target"), ("reverse", "source"), ("switch", "target")]:
        outcome = ask("POST", f"{SHOP}/{command}", role=Role.OPERATOR).json()
        assert (outcome["verdict"], outcome["status"]["traffic"]) == ("done", traffic)
    ended = ask("POST", f"{SHOP}/complete", json={"source_tables": "rename"}).json()
    assert (ended["status"]["state"], ended["status"]["as_of"]) == ("completed", "0/2A4410")


def test_a_finished_command_again_says_so(ask: Ask) -> None:
    ask("POST", f"{SHOP}/switch")
    again = ask("POST", f"{SHOP}/switch")
    assert (again.status_code, again.json()["verdict"]) == (200, "nothing-to-do")


def test_a_dry_run_lists_the_steps_and_changes_nothing(ask: Ask) -> None:
    outcome = ask("POST", f"{SHOP}/switch", json={"dry_run": True}).json()
    assert outcome["dry"]
    assert "seal" in [step["name"] for step in outcome["steps"]]
    assert ask("GET", SHOP).json()["traffic"] == "source"


ORDERS = [
    ("switch", {}, MoveOrder(Command.SWITCH)),
    (
        "switch",
        {"timeout_s": 2.5, "max_lag_s": 1},
        MoveOrder(Command.SWITCH, timeout_ms=2500, max_lag_ms=1000),
    ),
    ("reverse", {}, MoveOrder(Command.REVERSE)),
    ("complete", {"source_tables": "drop"}, MoveOrder(Command.COMPLETE, disposal=Disposal.DROP)),
    ("complete", {"source_tables": "keep"}, MoveOrder(Command.COMPLETE, disposal=Disposal.KEEP)),
    ("cancel", {}, MoveOrder(Command.CANCEL, disposal=Disposal.DROP)),
    ("cancel", {"keep": True}, MoveOrder(Command.CANCEL, disposal=Disposal.KEEP)),
    (
        "cancel",
        {"lost": "target"},
        MoveOrder(Command.CANCEL, disposal=Disposal.DROP, lost=Side.TARGET),
    ),
    (
        "complete",
        {"source_tables": "keep", "lost": "source"},
        MoveOrder(Command.COMPLETE, disposal=Disposal.KEEP, lost=Side.SOURCE),
    ),
]


@pytest.mark.parametrize(("command", "body", "order"), ORDERS, ids=str)
def test_what_is_asked_for_gets_through(
    command: str, body: dict[str, object], order: MoveOrder, ask: Ask, service: FakeService
) -> None:
    ask("POST", f"{SHOP}/{command}", json=body)
    assert service.moves.orders == [order]


@pytest.mark.parametrize(
    ("command", "body", "key"),
    [
        ("complete", {}, "source_tables"),
        ("complete", {"source_tables": "burn"}, "source_tables"),
        ("switch", {"timeout_s": 0}, "timeout_s"),
        ("switch", {"timeout": 5}, "timeout"),
        ("switch", {"max_lag_s": "1"}, "max_lag_s"),
        ("cancel", {"force": True}, "force"),
        ("cancel", {"lost": "both"}, "lost"),
        ("switch", {"lost": "target"}, "lost"),
        ("switch", {"request": "mine"}, "request"),
    ],
)
def test_a_body_is_not_guessed_at(
    command: str, body: dict[str, object], key: str, ask: Ask, service: FakeService
) -> None:
    answer = ask("POST", f"{SHOP}/{command}", json=body)
    assert (answer.status_code, answer.json()["object"]) == (422, key)
    assert not service.moves.asked


@pytest.mark.parametrize("command", ["switch", "cancel"])
def test_what_is_not_over_is_202_with_the_name_to_ask_on_by(
    command: str, ask: Ask, service: FakeService
) -> None:
    service.moves.under_way = 1
    first = ask("POST", f"{SHOP}/{command}")
    assert (first.status_code, first.json()["verdict"]) == (202, "under-way")
    name = first.json()["request"]
    second = ask("POST", f"{SHOP}/{command}", json={"request": name})
    assert (second.status_code, second.json()["request"]) == (200, name)


def test_a_flip_that_was_put_back_is_a_conflict_that_says_so(
    ask: Ask, service: FakeService
) -> None:
    service.moves.trouble = "a lock is held"
    problem = ask("POST", f"{SHOP}/switch").json()
    assert (problem["status"], problem["code"]) == (409, "rolled-back")
    assert problem["detail"] == "a lock is held"


def test_an_outcome_that_nobody_knows_is_503(ask: Ask, service: FakeService) -> None:
    service.failures["command_move"] = OutcomeUnknown("who knows", object_="shop", hint="look")
    assert ask("POST", f"{SHOP}/switch").status_code == 503


def test_a_switched_move_is_not_cancelled(ask: Ask) -> None:
    ask("POST", f"{SHOP}/switch")
    assert ask("POST", f"{SHOP}/cancel").status_code == 409


def test_a_move_that_is_over_is_forgotten_and_no_other(ask: Ask) -> None:
    assert ask("DELETE", SHOP).status_code == 409
    ask("POST", f"{SHOP}/cancel")
    assert ask("DELETE", SHOP).status_code == 204
    assert ask("GET", SHOP).status_code == 404


@pytest.mark.parametrize("command", ["complete", "cancel"])
def test_an_operator_ends_nothing(command: str, ask: Ask, service: FakeService) -> None:
    body = {"source_tables": "drop"} if command == "complete" else {}
    assert ask("POST", f"{SHOP}/{command}", json=body, role=Role.OPERATOR).status_code == 403
    assert not service.moves.asked


def test_a_password_in_a_step_is_not_shown(ask: Ask, service: FakeService) -> None:
    service.moves.put("shop", error="cannot reach postgres://app:hunter2@db/shop")
    assert "hunter2" not in ask("GET", SHOP).text
