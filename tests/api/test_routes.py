"""The table of routes over HTTP: a version, a tag, and a question that hangs until it changes."""

import threading
import time

import httpx
import pytest

from lockgate.model.tokens import Role
from tests.api.conftest import Ask
from tests.support.services import FakeService
from tests.support.waiting import until

ROUTES = "/api/v1/routes"


@pytest.fixture(autouse=True)
def move(ask: Ask, shop: str) -> str:
    body = {"name": "shop", "source": "shop", "target": "copy", "tables": ["public.*"]}
    assert ask("POST", "/api/v1/moves", json=body).is_success
    return "shop"


def test_a_table_is_at_the_source_until_it_is_switched(ask: Ask) -> None:
    before = ask("GET", ROUTES, role=Role.VIEWER).json()
    ask("POST", "/api/v1/moves/shop/switch")
    after = ask("GET", ROUTES).json()
    assert {one["endpoint"] for one in before["routes"]} == {"shop"}
    assert {one["endpoint"] for one in after["routes"]} == {"copy"}
    assert after["version"] > before["version"]


def test_some_tables_are_asked_for(ask: Ask) -> None:
    found = ask("GET", ROUTES, params={"tables": ["public.orders", "public.nobody"]}).json()
    assert [one["table"] for one in found["routes"]] == ["public.orders"]


def test_what_is_known_already_is_not_sent_again(ask: Ask) -> None:
    tag = ask("GET", ROUTES).headers["etag"]
    same = ask("GET", ROUTES, headers={"If-None-Match": tag})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    ask("POST", "/api/v1/moves/shop/switch")
    assert ask("GET", ROUTES, headers={"If-None-Match": tag}).status_code == 200


@pytest.mark.parametrize("told", ['W/{}, "x"', '"x", {}', "*"])
def test_a_tag_may_be_one_of_several(told: str, ask: Ask) -> None:
    tag = ask("GET", ROUTES).headers["etag"]
    assert ask("GET", ROUTES, headers={"If-None-Match": told.format(tag)}).status_code == 304


def test_who_hangs_on_a_change_is_answered_when_it_comes(ask: Ask, service: FakeService) -> None:
    version = ask("GET", ROUTES).json()["version"]
    answers: list[httpx.Response] = []

    def hang() -> None:
        answers.append(ask("GET", ROUTES, params={"after": version, "wait_s": 20}))

    thread = threading.Thread(target=hang)
    before = len(service.calls)
    thread.start()
    until(lambda: ("routes", "") in service.calls[before:])
    service.moves.point("shop", "copy")
    thread.join(10)
    assert answers[0].json()["version"] > version


def test_who_hangs_is_answered_without_a_change_too(ask: Ask) -> None:
    version = ask("GET", ROUTES).json()["version"]
    began = time.monotonic()
    same = ask("GET", ROUTES, params={"after": version, "wait_s": 0.2})
    assert same.json()["version"] == version
    assert time.monotonic() - began >= 0.2


@pytest.mark.parametrize(
    "params",
    [{"wait_s": 31}, {"after": -1}, {"after": "x"}, {"wait_s": "nan"}, {"table": "public.orders"}],
    ids=str,
)
def test_how_long_somebody_hangs_has_a_bound(params: dict[str, object], ask: Ask) -> None:
    assert ask("GET", ROUTES, params=params).status_code == 422
