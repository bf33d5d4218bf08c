"""Lakes over HTTP: what is shown, what is asked on, and what is refused."""

from urllib.parse import quote

import pytest

from lockgate.model.errors import OutcomeUnknown
from lockgate.model.tokens import Role
from tests.api.conftest import Ask
from tests.support.fake_lakes import WEIRD
from tests.support.services import FakeService

LAKE = "/api/v1/lakes/lake"
ORDERS = f"{LAKE}/tables/public.orders"
REQUEST = "5f0c2a9d1e7b4a36"
VERBS = [f"{LAKE}/drain", f"{LAKE}/step-up", f"{ORDERS}/drain", f"{ORDERS}/drop"]


@pytest.fixture(autouse=True)
def lake(ask: Ask) -> str:
    body = {"name": "lake", "url": "delta:/srv/lake"}
    assert ask("POST", "/api/v1/endpoints", json=body).status_code == 201
    return "lake"


# --- looking --------------------------------------------------------------------------------------


def test_a_lake_is_shown_without_its_tables(ask: Ask) -> None:
    found = ask("GET", LAKE, role=Role.VIEWER).json()
    assert (found["role"], found["epoch"], found["tables"]) == ("leader", 3, 4)


def test_a_table_has_the_keys_that_scripts_read(ask: Ask) -> None:
    assert ask("GET", ORDERS).json().keys() >= {
        *("table", "role", "epoch", "stable_version", "stable_rows", "ingest_segments"),
        *("ingest_rows", "drained_to", "size_bytes", "state"),
    }


def test_a_table_is_shown_as_its_newest_incarnation(ask: Ask) -> None:
    found = ask("GET", ORDERS).json()
    assert (found["state"], found["incarnation"]) == ("live", 2)


def test_a_table_with_a_slash_in_its_name_can_be_named(ask: Ask) -> None:
    path = f"{LAKE}/tables/{quote(WEIRD, safe='')}"
    assert ask("GET", path).json()["table"] == WEIRD
    assert ask("POST", f"{path}/drain").json()["verdict"] == "nothing-to-do"


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages_of_tables_hold_every_incarnation_once(ask: Ask, limit: int) -> None:
    """Two of them have one name: a page may end between them."""
    seen, after = [], ""
    while True:
        page = ask("GET", f"{LAKE}/tables", params={"limit": limit, "after": after}).json()
        seen += [(one["table"], one["incarnation"]) for one in page["items"]]
        if page["next"] is None:
            break
        after = page["next"]
    assert seen == [
        *((WEIRD, 4), ("public.items", 3)),
        *(("public.orders", 1), ("public.orders", 2)),
    ]


# --- doing ----------------------------------------------------------------------------------------


def test_one_table_is_drained_and_no_other(ask: Ask) -> None:
    answer = ask("POST", f"{ORDERS}/drain", role=Role.OPERATOR)
    assert (answer.status_code, answer.json()["verdict"]) == (200, "done")
    assert ask("GET", ORDERS).json()["ingest_rows"] == 0
    assert ask("GET", f"{LAKE}/tables/public.items").json()["ingest_rows"] == 2


def test_all_tables_are_drained(ask: Ask) -> None:
    assert ask("POST", f"{LAKE}/drain").json()["verdict"] == "done"
    tables = ask("GET", f"{LAKE}/tables").json()["items"]
    assert {one["ingest_rows"] for one in tables} == {0}


def test_a_table_is_dropped(ask: Ask) -> None:
    assert ask("POST", f"{ORDERS}/drop").json()["verdict"] == "done"
    assert ask("GET", ORDERS).json()["state"] == "dead"


def test_what_a_drop_may_and_how_long_it_waits_gets_through(ask: Ask, service: FakeService) -> None:
    feed = {"name": "f", "source": "lake", "target": "lake", "tables": ["public.*"]}
    assert ask("POST", "/api/v1/feeds", json=feed).is_success
    service.lakes.busy.add("public.orders")
    assert ask("POST", f"{ORDERS}/drop", json={"wait_s": 5}).status_code == 409
    assert ask("POST", f"{ORDERS}/drop", json={"force": True}).json()["code"] == "busy"
    assert ask("POST", f"{ORDERS}/drop", json={"force": True, "wait_s": 5}).status_code == 200


def test_a_lake_is_given_up_and_taken(ask: Ask) -> None:
    assert ask("POST", f"{LAKE}/step-down").status_code == 409
    assert ask("POST", f"{LAKE}/step-down", json={"flush": True}).json()["verdict"] == "done"
    shown = ask("GET", LAKE).json()
    assert (shown["role"], shown["leader"]) == ("follower", "")
    assert shown["next_steps"] == ["nobody leads this lake: lockgate lake step-up lake"]
    assert ask("POST", f"{LAKE}/step-up").json()["verdict"] == "done"
    assert ask("GET", LAKE).json()["epoch"] == 4


# --- asking on ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", VERBS)
def test_what_is_not_over_is_202_with_the_name_to_ask_on_by(
    path: str, ask: Ask, service: FakeService
) -> None:
    service.lakes.under_way = 1
    first = ask("POST", path)
    assert (first.status_code, first.json()["verdict"]) == (202, "under-way")
    name = first.json()["request"]
    second = ask("POST", path, json={"request": name})
    assert (second.status_code, second.json()["request"]) == (200, name)
    assert [request for _, _, request in service.lakes.asked] == ["", name]


def test_whoever_asks_may_name_the_request(ask: Ask) -> None:
    assert ask("POST", f"{LAKE}/drain", json={"request": REQUEST}).json()["request"] == REQUEST


@pytest.mark.parametrize("name", ["1", "drain-1", "5F0C2A9D1E7B4A36", "0" * 65, 7, None])
def test_a_name_that_another_may_hit_upon_is_refused(name: object, ask: Ask) -> None:
    answer = ask("POST", f"{LAKE}/drain", json={"request": name})
    assert (answer.status_code, answer.json()["object"]) == (422, "request")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("drain", {"table": "public.orders"}),
        ("step-up", {"flush": True}),
        ("step-down", {"flush": "yes"}),
        ("tables/public.orders/drop", {"wait_s": -1}),
        ("tables/public.orders/drop", {"forced": True}),
    ],
)
def test_a_body_is_not_guessed_at(path: str, body: dict[str, object], ask: Ask) -> None:
    assert ask("POST", f"{LAKE}/{path}", json=body).status_code == 422


# --- problems -------------------------------------------------------------------------------------


def test_a_table_that_is_busy_is_a_conflict_that_says_so(ask: Ask, service: FakeService) -> None:
    service.lakes.busy.add("public.orders")
    answer = ask("POST", f"{ORDERS}/drop")
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["object"]) == (
        *(409, "busy", "public.orders"),
    )
    assert problem["detail"] == "a drain is under way for the table"


def test_an_outcome_that_nobody_knows_is_503(ask: Ask, service: FakeService) -> None:
    service.failures["lake_step_up"] = OutcomeUnknown("who knows", object_="lake", hint="look")
    answer = ask("POST", f"{LAKE}/step-up")
    assert (answer.status_code, answer.json()["code"]) == (503, "outcome-unknown")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/lakes/nobody", 404),
        ("/api/v1/lakes/nobody/tables", 404),
        (f"{LAKE}/tables/public.nobody", 404),
        ("/api/v1/lakes/copy", 409),
        ("/api/v1/lakes/copy/tables/public.orders", 409),
    ],
)
def test_what_is_no_lake_and_no_table_is_said(path: str, status: int, ask: Ask, shop: str) -> None:
    answer = ask("GET", path)
    assert answer.status_code == status
    assert answer.json()["hint"]


def test_the_history_says_who_dropped_what(ask: Ask, service: FakeService) -> None:
    ask("POST", f"{ORDERS}/drop")
    entry = service.history("lake", None, 1)[0]
    assert (entry.who, entry.verb, entry.detail) == ("admin", "lake drop", "public.orders")


def test_an_operator_drops_nothing(ask: Ask) -> None:
    assert ask("POST", f"{ORDERS}/drop", role=Role.OPERATOR).status_code == 403
    assert ask("GET", ORDERS).json()["state"] == "live"
