"""Diffs over HTTP: what is shown, who may ask for what, what is asked twice."""

import pytest

from lockgate.model.diffs import DiffOrder
from lockgate.model.tokens import Role
from tests.api.conftest import Ask
from tests.support.services import FakeService

DIFFS = "/api/v1/diffs"
APART = {"source": "shop", "target": "copy", "tables": ["public.*"]}
MOVE = {"name": "orders", "source": "shop", "target": "copy", "tables": ["public.orders"]}
OF_MOVE = "/api/v1/moves/orders/diff"
KEYS = {"id", "state", "tables", "position", "seconds", "rows_per_s"}
TABLE_KEYS = {"table", "rows", "equal", "missing", "extra", "different", "samples"}

pytestmark = pytest.mark.usefixtures("shop")


@pytest.fixture
def moved(ask: Ask) -> None:
    assert ask("POST", "/api/v1/moves", json=MOVE).status_code == 201


def test_a_diff_has_the_keys_that_scripts_read(ask: Ask, service: FakeService) -> None:
    service.diffs.unequal = True
    begun = ask("POST", DIFFS, json=APART, role=Role.OPERATOR)
    assert begun.status_code == 201
    found = ask("GET", f"{DIFFS}/{begun.json()['id']}", role=Role.VIEWER).json()
    assert found.keys() >= KEYS
    assert found["tables"][0].keys() >= TABLE_KEYS
    assert found["tables"][0]["samples"][0] == {
        "kind": "different",
        "key": {"id": "7"},
        "columns": [{"name": "note", "source": "NULL", "target": None}],
    }


def test_a_feed_goes_without_saying_its_ends(ask: Ask) -> None:
    found = ask("POST", DIFFS, json={"feed": "shop"}).json()
    assert (found["source"], found["target"], len(found["tables"])) == ("shop", "copy", 3)


def test_asked_twice_under_one_name_it_is_run_once(ask: Ask, service: FakeService) -> None:
    body = {**APART, "id": "0123456789"}
    assert [ask("POST", DIFFS, json=body).status_code for _ in range(2)] == [201, 200]
    assert len(service.diffs.orders) == 1


def test_lists_begin_with_the_newest(ask: Ask) -> None:
    ids = [ask("POST", DIFFS, json=APART).json()["id"] for _ in range(3)]
    first = ask("GET", f"{DIFFS}?limit=2").json()
    rest = ask("GET", f"{DIFFS}?limit=2&after={first['next']}").json()
    assert [one["id"] for one in (*first["items"], *rest["items"])] == ids[::-1]


def test_a_diff_of_a_move_is_by_its_feed(moved: None, ask: Ask, service: FakeService) -> None:
    assert ask("POST", OF_MOVE, role=Role.OPERATOR).status_code == 201
    ask("POST", "/api/v1/moves/orders/switch")
    assert ask("POST", OF_MOVE, json={}).status_code == 201
    assert [(each.source, each.target, each.feed) for each in service.diffs.orders] == [
        ("shop", "copy", "orders--0"),
        ("copy", "shop", "orders--1"),
    ]


def test_resumed_the_last_one_of_a_move_goes_on(
    moved: None, ask: Ask, service: FakeService
) -> None:
    service.diffs.fails = "a lock"
    failed = ask("POST", OF_MOVE).json()
    service.diffs.fails = ""
    again = ask("POST", OF_MOVE, json={"resume": True}, role=Role.OPERATOR)
    assert (again.status_code, again.json()["id"]) == (200, failed["id"])
    assert (failed["state"], again.json()["state"]) == ("failed", "finished")


def test_without_one_there_is_nothing_to_resume(moved: None, ask: Ask) -> None:
    assert ask("POST", OF_MOVE, json={"resume": True}).status_code == 404


def test_a_finished_one_is_not_resumed(ask: Ask) -> None:
    diff = ask("POST", DIFFS, json=APART).json()["id"]
    assert ask("POST", f"{DIFFS}/{diff}/resume").status_code == 409


@pytest.mark.parametrize("path", [DIFFS, OF_MOVE])
def test_a_repair_is_for_admins(path: str, moved: None, ask: Ask, service: FakeService) -> None:
    body = {"repair": True, **(APART if path == DIFFS else {})}
    refused = ask("POST", path, json=body, role=Role.OPERATOR)
    assert (refused.status_code, refused.json()["object"]) == (403, "repair")
    assert service.diffs.orders == []
    assert ask("POST", path, json=body).status_code == 201
    assert [each.repair for each in service.diffs.orders] == [True]


def test_to_resume_a_repair_is_for_admins(moved: None, ask: Ask, service: FakeService) -> None:
    service.diffs.fails = "a lock"
    diff = ask("POST", OF_MOVE, json={"repair": True}).json()["id"]
    for path, body in ((f"{DIFFS}/{diff}/resume", {}), (OF_MOVE, {"resume": True})):
        assert ask("POST", path, json=body, role=Role.OPERATOR).status_code == 403
        assert ask("POST", path, json=body).status_code == 200


def test_what_is_asked_for_gets_through(ask: Ask, service: FakeService) -> None:
    ask("POST", DIFFS, json={"feed": "shop", "tables": ["public.orders"], "repair": True})
    assert service.diffs.orders == [
        DiffOrder(source="", target="", tables=("public.orders",), feed="shop", repair=True)
    ]


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"id": "mine"}, "id"),
        ({"tables": "public.*"}, "tables"),
        ({"table": ["public.*"]}, "table"),
        ({"repair": "yes"}, "repair"),
        ({"source": "x" * 41}, "source"),
    ],
    ids=str,
)
def test_a_body_is_not_guessed_at(
    change: dict[str, object], key: str, ask: Ask, service: FakeService
) -> None:
    answer = ask("POST", DIFFS, json={**APART, **change})
    place = answer.json()["object"]
    assert (answer.status_code, place.partition(".")[0]) == (422, key)
    assert service.diffs.orders == []
