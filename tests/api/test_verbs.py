"""Each verb asks the service for what was meant, and tells what it said."""

import pytest

from lockgate.model.tokens import Role
from tests.api.conftest import Ask
from tests.support.services import FakeService


def test_health_needs_no_token(ask: Ask) -> None:
    answer = ask("GET", "/healthz", token="wrong")
    assert answer.json() == {"status": "ok", "node": "a", "version": "0.0"}


def test_metrics_are_text_for_prometheus(ask: Ask) -> None:
    answer = ask("GET", "/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "lockgate_feeds 0" in answer.text


def test_an_endpoint_is_made_once(ask: Ask) -> None:
    body = {"name": "shop", "url": "postgres://db/shop"}
    answers = [ask("POST", "/api/v1/endpoints", json=body) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200]
    assert answers[0].json() == answers[1].json() == ask("GET", "/api/v1/endpoints/shop").json()


def test_a_feed_is_made_once(ask: Ask, shop: str) -> None:
    body = {"name": "shop", "source": "shop", "target": "copy", "tables": ["public.*"]}
    again = ask("POST", "/api/v1/feeds", json=body)
    assert again.status_code == 200
    assert again.json() == ask("GET", "/api/v1/feeds/shop").json()


def test_another_feed_of_the_same_name_is_refused(ask: Ask, shop: str) -> None:
    body = {"name": "shop", "source": "shop", "target": "copy", "tables": ["sales.*"]}
    assert ask("POST", "/api/v1/feeds", json=body).status_code == 409


def test_every_key_of_a_configuration_gets_through(ask: Ask, service: FakeService) -> None:
    body = {
        "name": "f",
        "source": "postgres://a/x",
        "target": "postgres://b/x",
        "tables": ["public.*"],
        "leave_out": ["public.users.ssn"],
        "masks": {"public.users.email": "hash", "public.users.name": {"fixed": "somebody"}},
        "rows": {"public.orders": "region = 'eu'"},
        "rename": {"public": "shop"},
        "copy": False,
        "chunk_rows": 10,
        "wal_warn_bytes": 2**20,
        "wal_stop_bytes": 2**21,
        "retention_s": 60,
        "flush_interval_ms": 50,
        "decoding_memory_bytes": 2**20,
    }
    assert ask("POST", "/api/v1/feeds", json=body).status_code == 201
    kept = service.config("f")
    assert kept.masks_by_pattern()["public.users.name"].text == "somebody"
    assert kept.source.reveal() == "postgres://a/x"
    same = {key: value for key, value in body.items() if key not in {"source", "target", "masks"}}
    lists = {key: tuple(value) if isinstance(value, list) else value for key, value in same.items()}
    assert {key: getattr(kept, key) for key in lists} == lists


def test_a_plan_makes_nothing(ask: Ask) -> None:
    body = {"name": "f", "source": "postgres://a/x", "target": "postgres://b/x", "tables": ["*.*"]}
    plan = ask("POST", "/api/v1/feeds/plan", json=body)
    assert len(plan.json()["tables"]) == 4
    assert ask("GET", "/api/v1/feeds").json() == {"items": [], "next": None}


@pytest.mark.parametrize(("verb", "state"), [("pause", "stopped"), ("resume", "normal")])
def test_a_feed_is_paused_and_resumed(verb: str, state: str, ask: Ask, shop: str) -> None:
    answer = ask("POST", f"/api/v1/feeds/shop/{verb}", role=Role.OPERATOR)
    assert (answer.status_code, answer.json()["state"]) == (200, state)


def test_a_feed_is_removed_once(ask: Ask, shop: str) -> None:
    assert [ask("DELETE", "/api/v1/feeds/shop").status_code for _ in range(2)] == [204, 404]


def test_a_feed_that_is_still_being_removed_is_shown_with_what_holds_it_up(
    ask: Ask, shop: str, service: FakeService
) -> None:
    service.held_up["shop"] = "the source does not answer"
    answer = ask("DELETE", "/api/v1/feeds/shop")
    assert answer.status_code == 202
    assert answer.json()["error"] == "the source does not answer"


def test_a_feed_that_is_removed_by_force_is_shown_with_what_is_left_behind(
    ask: Ask, shop: str, service: FakeService
) -> None:
    service.held_up["shop"] = "the source does not answer"
    answer = ask("DELETE", "/api/v1/feeds/shop?force=true")
    assert (answer.status_code, answer.json()["state"]) == (200, "removed")
    assert answer.json()["notes"] == ["left behind, a slot"]


@pytest.mark.parametrize("query", ["force=perhaps", "froce=true"])
def test_a_removal_is_not_guessed_at(ask: Ask, shop: str, query: str) -> None:
    assert ask("DELETE", f"/api/v1/feeds/shop?{query}").status_code == 422
    assert ask("GET", "/api/v1/feeds/shop").status_code == 200


def test_a_wait_ends_when_the_feed_is_level(ask: Ask, shop: str) -> None:
    waited = ask("POST", "/api/v1/feeds/shop/wait", json={"timeout_s": 5, "position": "0/1"}).json()
    assert (waited["level"], waited["position"]) == (True, "0/1")


def test_a_wait_that_is_over_says_that_it_is_not_level(
    ask: Ask, shop: str, service: FakeService
) -> None:
    service.lag("shop")
    waited = ask("POST", "/api/v1/feeds/shop/wait", json={"timeout_s": 0})
    assert (waited.status_code, waited.json()["level"]) == (200, False)


def test_a_wait_needs_no_body(ask: Ask, shop: str) -> None:
    assert ask("POST", "/api/v1/feeds/shop/wait").json()["level"]


@pytest.mark.parametrize("timeout_s", [-1, 61, "5", None, 1e400])
def test_a_wait_is_a_minute_at_most(timeout_s: object, ask: Ask, shop: str) -> None:
    answer = ask(
        "POST",
        "/api/v1/feeds/shop/wait",
        content=f'{{"timeout_s": {"Infinity" if timeout_s == 1e400 else repr(timeout_s)}}}'.replace(
            "'", '"'
        ).replace("None", "null"),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 422


def test_a_table_is_copied_anew_by_its_name(ask: Ask, shop: str, service: FakeService) -> None:
    assert ask("POST", "/api/v1/feeds/shop/tables/public.orders/resync").status_code == 200
    asked = service.history("shop", None, 1)[0]
    assert (asked.verb, asked.detail) == ("feed resync", "public.orders")


def test_a_table_with_a_slash_in_its_name_can_be_named(ask: Ask, shop: str) -> None:
    answer = ask("POST", "/api/v1/feeds/shop/tables/public.%22a%2Fb%22/resync")
    assert answer.json()["object"] == 'public."a/b"'


def test_spans_are_split_moved_and_merged(ask: Ask, shop: str, service: FakeService) -> None:
    service.add_node("b")

    def spans() -> list[tuple[str, str, str]]:
        [table] = [
            table
            for table in ask("GET", "/api/v1/feeds/shop/tables").json()["items"]
            if table["table"] == "public.orders"
        ]
        return [(span["span"], span["high"], span["node"]) for span in table["spans"]]

    [(first, _, _)] = spans()
    path = "/api/v1/feeds/shop/spans"
    assert ask("POST", f"{path}/{first}/split", json={"at": ["8A"]}).status_code == 200
    (low, high, _), (up, _, _) = spans()
    assert high == "8a"
    assert ask("POST", f"{path}/{up}/move", json={"node": "b"}).status_code == 200
    assert spans()[1][2] == "b"
    assert ask("POST", f"{path}/merge", json={"spans": [low, up]}).status_code == 200
    assert len(spans()) == 1


@pytest.mark.parametrize("body", [{}, {"at": ["80"], "parts": 2}, {"at": ["8"]}, {"parts": 1}])
def test_a_split_says_where_or_into_how_many(body: dict[str, object], ask: Ask, shop: str) -> None:
    assert ask("POST", "/api/v1/feeds/shop/spans/s1/split", json=body).status_code == 422


def test_a_node_is_drained(ask: Ask) -> None:
    assert ask("POST", "/api/v1/nodes/a/drain").json()["state"] == "draining"
    assert [node["state"] for node in ask("GET", "/api/v1/nodes").json()["items"]] == ["draining"]


def test_messages_come_over_the_link_as_bytes(ask: Ask, service: FakeService) -> None:
    body = bytes(range(256))
    key = service.link_key().reveal()
    assert ask("POST", "/link/v1/messages", token=key, content=body).status_code == 204
    answer = ask("POST", "/link/v1/verbs", token=key, content=body)
    assert (answer.status_code, answer.content) == (200, body)
    assert service.arrived == [body, body]


def test_messages_over_the_link_may_be_large(ask: Ask, service: FakeService) -> None:
    body = b"x" * (5 * 2**20)
    key = service.link_key().reveal()
    assert ask("POST", "/link/v1/messages", token=key, content=body).status_code == 204
    assert len(service.arrived[0]) == len(body)


def test_messages_that_cannot_be_read_are_the_senders_mistake(
    ask: Ask, service: FakeService
) -> None:
    answer = ask("POST", "/link/v1/messages", token=service.link_key().reveal())
    assert answer.status_code == 422
