"""Lists come in pages that fit together."""

import pytest

from tests.api.conftest import Ask
from tests.support.services import FakeService


@pytest.fixture
def many(service: FakeService) -> list[str]:
    names = [f"n{number:03d}" for number in range(250)]
    for name in names:
        service.add_node(name)
    return ["a", *names]


def _all(ask: Ask, path: str, limit: int) -> list[list[str]]:
    pages, after = [], ""
    while True:
        page = ask("GET", path, params={"limit": limit, "after": after}).json()
        pages.append([item["name"] for item in page["items"]])
        if page["next"] is None:
            return pages
        after = page["next"]


@pytest.mark.parametrize("limit", [7, 100, 251, 1000])
def test_pages_hold_everything_once_and_in_order(ask: Ask, many: list[str], limit: int) -> None:
    pages = _all(ask, "/api/v1/nodes", limit)
    assert [name for page in pages for name in page] == many
    assert all(len(page) == limit for page in pages[:-1])


def test_a_page_has_a_hundred_unless_asked_otherwise(ask: Ask, many: list[str]) -> None:
    assert len(ask("GET", "/api/v1/nodes").json()["items"]) == 100


def test_a_page_begins_after_one_that_is_gone(
    ask: Ask, many: list[str], service: FakeService
) -> None:
    first = ask("GET", "/api/v1/nodes", params={"limit": 10}).json()
    service.remove_node(first["items"][-1]["name"])
    second = ask("GET", "/api/v1/nodes", params={"limit": 1, "after": first["next"]}).json()
    assert second["items"][0]["name"] == many[10]


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "x", "", "1.5"])
def test_a_limit_that_is_none_is_refused(ask: Ask, limit: str) -> None:
    assert ask("GET", f"/api/v1/nodes?limit={limit}").status_code == 422


@pytest.mark.parametrize("after", ["x", "%F0%9F%98%80", "AAAA", "bm86", "=", "bjr_"])
def test_a_cursor_that_was_never_given_out_is_refused(ask: Ask, after: str) -> None:
    answer = ask("GET", f"/api/v1/nodes?after={after}")
    assert (answer.status_code, answer.json()["object"]) == (422, "after")


@pytest.mark.parametrize("key", ["before", "after"])
def test_the_history_goes_back_page_by_page(ask: Ask, service: FakeService, key: str) -> None:
    for number in range(5):
        service.add_token(f"t{number}", next(iter(service.keys)), "somebody")
    seen: list[int] = []
    more: dict[str, str] = {}
    while True:
        page = ask("GET", "/api/v1/history", params={"limit": 3, **more}).json()
        seen += [entry["id"] for entry in page["items"]]
        if page["next"] is None:
            break
        more = {key: page["next"]}
    assert seen == list(range(8, 0, -1))


def test_the_history_of_one_thing_has_nothing_else(ask: Ask) -> None:
    ask("POST", "/api/v1/endpoints", json={"name": "shop", "url": "postgres://db/shop"})
    page = ask("GET", "/api/v1/history", params={"object": "shop"}).json()
    assert [(entry["who"], entry["verb"]) for entry in page["items"]] == [("admin", "endpoint add")]


@pytest.mark.parametrize("query", ["before=0", "before=x", "after=x", "after=-1", "before=9" * 30])
def test_an_entry_that_cannot_be_is_refused(ask: Ask, query: str) -> None:
    assert ask("GET", f"/api/v1/history?{query}").status_code == 422
