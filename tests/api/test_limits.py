"""There is a limit on everything, and whoever meets one is told."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from lockgate.api.limits import Limits, Rate, Rates, network_of
from lockgate.api.server import Server
from lockgate.model.tokens import AccessToken, Role
from tests.api.conftest import FAST, ROOMY, Ask
from tests.support.services import FakeService
from tests.support.waiting import until

SLOW = Rate(per_s=0.001, burst=3)


def _with(**limits: object) -> pytest.MarkDecorator:
    fast = {"per_token": FAST, "per_address": FAST, "failed_logins": FAST}
    return pytest.mark.parametrize("limits", [Limits(**{**fast, **limits})], ids=[""])  # type: ignore[arg-type]


# --- buckets --------------------------------------------------------------------------------------


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    now = [0.0]
    rates = Rates(Rate(per_s=2.0, burst=3), clock=lambda: now[0])
    assert [rates.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    now[0] = 0.5
    assert [rates.take("a"), rates.take("a")] == [0.0, 0.5]


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    now = [0.0]
    rates = Rates(Rate(per_s=2.0, burst=3), clock=lambda: now[0])
    rates.take("a")
    now[0] = 1000.0
    assert sum(rates.take("a") == 0.0 for _ in range(10)) == 3


def test_buckets_are_apart() -> None:
    rates = Rates(Rate(per_s=1.0, burst=1), clock=lambda: 0.0)
    assert [rates.take(key) for key in "aab"] == [0.0, 1.0, 0.0]


def test_buckets_take_bounded_memory() -> None:
    rates = Rates(Rate(per_s=1.0, burst=1), keys_max=10, clock=lambda: 0.0)
    for number in range(1000):
        rates.take(str(number))
    assert len(rates) == 10


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8::1:2:3:4", "2001:db8::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::/64"),
        ("-", "-"),
    ],
)
def test_an_address_counts_for_its_network(address: str, network: str) -> None:
    assert network_of(address) == network


# --- rates ----------------------------------------------------------------------------------------


@_with(per_token=SLOW)
def test_a_token_that_asks_too_often_is_told_when_to_ask_again(ask: Ask) -> None:
    answers = [ask("GET", "/api/v1/feeds", role=Role.VIEWER) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[-1].json()["code"] == "too-many"
    assert 900 <= int(answers[-1].headers["retry-after"]) <= 1000


@_with(per_token=SLOW)
def test_a_token_that_asks_too_often_is_not_in_the_way_of_others(ask: Ask) -> None:
    for _ in range(5):
        ask("GET", "/api/v1/feeds", role=Role.VIEWER)
    assert ask("GET", "/api/v1/feeds", role=Role.ADMIN).status_code == 200


@_with(failed_logins=SLOW)
def test_failed_logins_are_limited(ask: Ask) -> None:
    answers = [ask("GET", "/api/v1/feeds", token="wrong") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [401, 401, 401, 429]
    assert "retry-after" in answers[-1].headers


@_with(failed_logins=SLOW)
def test_failed_logins_lock_nobody_out_who_has_a_token(ask: Ask) -> None:
    for _ in range(5):
        ask("GET", "/api/v1/feeds", token="wrong")
    assert ask("GET", "/api/v1/feeds").status_code == 200


@_with(per_address=SLOW)
@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/nothing", 404)])
def test_strangers_are_limited(client: httpx.Client, path: str, status: int) -> None:
    statuses = [client.get(path).status_code for _ in range(4)]
    assert statuses == [status, status, status, 429]


# --- bodies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("told", [True, False], ids=["length told", "in chunks"])
def test_a_body_that_is_too_large_is_refused(ask: Ask, told: bool) -> None:
    body = b" " * (2**20 + 1)
    content = body if told else iter([body])
    answer = ask(
        "POST", "/api/v1/feeds", content=content, headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["code"]) == (413, "too-large")


def test_a_large_body_that_is_allowed_gets_through(ask: Ask) -> None:
    body = b" " * (2**20 - 2) + b"{}"
    answer = ask(
        "POST", "/api/v1/feeds", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 422


@_with(link_bytes_max=1000)
def test_a_message_over_the_link_that_is_too_large_is_refused(
    ask: Ask, service: FakeService
) -> None:
    key = service.link_key().reveal()
    assert ask("POST", "/link/v1/messages", token=key, content=b"x" * 1001).status_code == 413
    assert not service.arrived


def test_a_strangers_body_is_not_waited_for(server: Server) -> None:
    head = b"POST /link/v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.sendall(head)
        assert b" 401 " in connection.recv(65536)


def test_a_body_that_says_it_is_too_large_is_not_waited_for(
    server: Server, service: FakeService
) -> None:
    token = service.keys[Role.ADMIN].reveal()
    head = "POST /api/v1/feeds HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.sendall(f"{head}Authorization: Bearer {token}\r\n\r\n".encode())
        assert b" 413 " in connection.recv(65536)


@_with(body_s=0.1)
def test_a_body_that_does_not_come_is_not_waited_for(server: Server, service: FakeService) -> None:
    key = service.link_key().reveal()
    head = "POST /link/v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.sendall(f"{head}Authorization: Bearer {key}\r\n\r\nx".encode())
        assert b" 408 " in connection.recv(65536)


# --- connections ----------------------------------------------------------------------------------


@_with(header_s=0.2)
@pytest.mark.parametrize("said", [b"", b"GET /healthz HTTP/1.1\r\nHost:"], ids=["nothing", "some"])
def test_a_connection_that_does_not_say_what_it_wants_is_closed(
    server: Server, said: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.sendall(said)
        assert connection.recv(1) == b""


@_with(header_s=0.2)
def test_a_slow_answer_does_not_count_as_saying_nothing(
    ask: Ask, shop: str, service: FakeService
) -> None:
    service.lag("shop")
    assert ask("POST", "/api/v1/feeds/shop/wait", json={"timeout_s": 0.6}).status_code == 200


def _healthy(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        return b" 200 " in connection.recv(65536)
    except ConnectionError:
        return False


@_with(connections_max=2)
def test_there_are_so_many_connections_and_no_more(server: Server) -> None:
    def connect() -> socket.socket:
        return socket.create_connection(("127.0.0.1", server.port), 10)

    with connect() as first, connect() as second, connect() as third:
        assert [_healthy(one) for one in (first, second, third)] == [True, True, False]

    def let_in() -> bool:
        with connect() as again:
            return _healthy(again)

    assert until(let_in)


def test_headers_that_are_too_long_are_refused(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Long: " + b"x" * 40_000)
        assert b" 400 " in connection.recv(65536)


# --- work that takes long -------------------------------------------------------------------------


@pytest.fixture
def stuck(service: FakeService) -> Iterator[threading.Event]:
    """Endpoints hang when they are tested, until the event is set."""
    go = threading.Event()
    looks = service.test_endpoint

    def hang(name: str):  # type: ignore[no-untyped-def]
        service.calls.append(("hanging", ""))
        go.wait(30)
        return looks(name)

    service.test_endpoint = hang  # type: ignore[method-assign]
    yield go
    go.set()


@_with(waiters=2)
def test_so_many_may_wait_and_the_next_is_told_to_come_again(
    ask: Ask, shop: str, service: FakeService
) -> None:
    service.lag("shop")
    path = "/api/v1/feeds/shop/wait"
    with ThreadPoolExecutor(2) as pool:
        waits = [pool.submit(ask, "POST", path, json={"timeout_s": 30}) for _ in range(2)]
        until(lambda: service.waiting == 2)
        refused = ask("POST", path, json={"timeout_s": 30})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        assert ask("GET", "/api/v1/feeds").status_code == 200, "waiting is not in others' way"
        service.level("shop")
        assert all(wait.result().json()["level"] for wait in waits)
    assert ask("POST", path, json={"timeout_s": 0}).status_code == 200, "the places are free again"


@_with(workers=1, in_flight_max=20)
def test_health_is_told_while_everything_else_is_stuck(
    ask: Ask, shop: str, service: FakeService, stuck: threading.Event
) -> None:
    with ThreadPoolExecutor(1) as pool:
        test = pool.submit(ask, "POST", "/api/v1/endpoints/shop/test")
        until(lambda: ("hanging", "") in service.calls)
        assert ask("GET", "/healthz").status_code == 200
        assert ask("GET", "/metrics").status_code == 200
        key = service.link_key().reveal()
        assert ask("POST", "/link/v1/messages", token=key, content=b"x").status_code == 204
        stuck.set()
        assert test.result().status_code == 200


@_with(in_flight_max=1)
def test_too_much_at_once_is_refused_for_now(
    ask: Ask, service: FakeService, stuck: threading.Event
) -> None:
    assert ask(
        "POST", "/api/v1/endpoints", json={"name": "shop", "url": "postgres://db/shop"}
    ).is_success
    with ThreadPoolExecutor(1) as pool:
        test = pool.submit(ask, "POST", "/api/v1/endpoints/shop/test")
        until(lambda: ("hanging", "") in service.calls)
        refused = ask("GET", "/api/v1/feeds")
        assert (refused.status_code, refused.json()["code"]) == (503, "busy")
        stuck.set()
        assert test.result().status_code == 200
    assert ask("GET", "/api/v1/feeds").status_code == 200


@_with(request_s=0.3)
def test_what_takes_too_long_is_answered_and_its_thread_goes_on_alone(
    ask: Ask, shop: str, service: FakeService, stuck: threading.Event
) -> None:
    answer = ask("POST", "/api/v1/endpoints/shop/test")
    assert (answer.status_code, answer.json()["code"]) == (503, "transient")
    assert ask("GET", "/api/v1/feeds").status_code == 200


@_with(request_s=0.3)
def test_a_change_that_takes_too_long_is_said_to_be_unknown(
    ask: Ask, shop: str, service: FakeService
) -> None:
    go = threading.Event()
    service.pause_feed = lambda name, who: go.wait(30)  # type: ignore[method-assign, assignment, return-value]
    answer = ask("POST", "/api/v1/feeds/shop/pause")
    go.set()
    assert (answer.status_code, answer.json()["code"]) == (503, "outcome-unknown")


@_with(request_s=0.3)
def test_a_change_is_not_in_doubt_when_it_was_only_asked_who_wants_it(
    ask: Ask, service: FakeService
) -> None:
    go = threading.Event()

    def hang() -> list[AccessToken]:
        assert go.wait(30)
        return []

    service.tokens = hang  # type: ignore[method-assign]
    answer = ask("POST", "/api/v1/feeds/shop/pause")
    go.set()
    assert (answer.status_code, answer.json()["code"]) == (503, "transient")


@_with(link_in_flight_max=8)
def test_messages_of_nodes_do_not_wait_for_their_verbs(ask: Ask, service: FakeService) -> None:
    carrying, go = threading.Semaphore(0), threading.Event()

    def carry_out(body: bytes) -> bytes:
        carrying.release()
        assert go.wait(60)
        return body

    service.carry_out = carry_out  # type: ignore[method-assign]
    key = service.link_key().reveal()
    with ThreadPoolExecutor(8) as pool:
        try:
            verbs = [
                pool.submit(ask, "POST", "/link/v1/verbs", token=key, content=b"v")
                for _ in range(8)
            ]
            assert all(carrying.acquire(timeout=30) for _ in verbs)
            answer = ask("POST", "/link/v1/messages", token=key, content=b"m", timeout=10)
        finally:
            go.set()
        assert answer.status_code == 204
        assert [verb.result().status_code for verb in verbs] == [200] * 8


def test_the_defaults_are_those_that_are_documented() -> None:
    limits = Limits()
    assert limits.body_bytes_max == 2**20
    assert limits.link_bytes_max == 64 * 2**20
    assert ROOMY.body_bytes_max == limits.body_bytes_max
