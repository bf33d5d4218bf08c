"""One request: what is tried again, what is not, and what every kind of bad answer is called."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import lockgate
from lockgate.client.errors import NotLockgate, ServerUnavailable, ServerUntrusted
from lockgate.client.place import Place
from lockgate.client.transport import Transport
from lockgate.model.documents import Health
from lockgate.model.errors import (
    Conflict,
    LockgateError,
    OutcomeUnknown,
    Terminal,
    Transient,
    UsageError,
)
from lockgate.model.secret import Secret
from tests.support.served import Scripted, Served, answer, serve
from tests.support.services import FakeService
from tests.support.tls import make_certificate

GOOD = answer("200 OK", b'{"status": "ok", "node": "a", "version": "1"}')
PROBLEM = ("content-type: application/problem+json",)
BUSY = answer("503 Busy", b'{"code": "busy", "detail": "too much"}', PROBLEM)


class Pauses(list[float]):
    """Instead of sleeping."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
def to(pauses: Pauses) -> Callable[[str], Transport]:
    def make(url: str) -> Transport:
        return Transport(Place(url, Secret("t"), "", True), 0.5, sleep=pauses)

    return make


To = Callable[[str], Transport]


def nobody() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def ask(transport: Transport, *, safe: bool = True) -> Health:
    try:
        return transport.post("/x", Health, {"a": 1}, safe=safe)
    finally:
        transport.close()


# --- what is tried again --------------------------------------------------------------------------


@pytest.mark.parametrize("again", [BUSY, answer("429 Slow down"), answer("502 Bad gateway"), b""])
def test_a_safe_request_is_tried_again(again: bytes, to: To) -> None:
    with Scripted(again, GOOD) as server:
        assert ask(to(server.url)).node == "a"
    assert len(server.requests) == 2


@pytest.mark.parametrize("again", [BUSY, answer("429 Slow down"), b""])
def test_an_unsafe_one_is_not(again: bytes, to: To) -> None:
    with Scripted(again, GOOD) as server, pytest.raises(LockgateError):
        ask(to(server.url), safe=False)
    assert len(server.requests) == 1


@pytest.mark.parametrize("safe", [True, False])
def test_a_refused_connection_is_tried_again_whatever_it_is_for(
    safe: bool, to: To, pauses: Pauses
) -> None:
    with pytest.raises(ServerUnavailable) as refused:
        ask(to(nobody()), safe=safe)
    assert len(pauses) == 3
    assert "lockgate server" in refused.value.hint


def test_a_refusal_is_final(to: To) -> None:
    used = answer("409 No", b'{"code": "conflict", "detail": "used"}', PROBLEM)
    with Scripted(used) as server, pytest.raises(Conflict, match="used"):
        ask(to(server.url))
    assert len(server.requests) == 1


def test_the_last_answer_is_raised_when_patience_ends(to: To) -> None:
    with Scripted(BUSY) as server, pytest.raises(Transient, match="too much"):
        ask(to(server.url))
    assert len(server.requests) == 4


def test_pauses_grow(to: To, pauses: Pauses) -> None:
    with Scripted(BUSY) as server, pytest.raises(Transient):
        ask(to(server.url))
    assert [0.05 <= pauses[0] <= 0.1, 0.1 <= pauses[1] <= 0.2, 0.2 <= pauses[2] <= 0.4] == [
        True
    ] * 3


def test_the_server_says_how_long_to_wait(to: To, pauses: Pauses) -> None:
    with Scripted(answer("503 Busy", headers=["retry-after: 7"]), GOOD) as server:
        ask(to(server.url))
    assert pauses == [7.0]


def test_a_date_to_wait_for_that_has_passed_is_no_wait(to: To, pauses: Pauses) -> None:
    date = "retry-after: Wed, 21 Oct 2015 07:28:00 GMT"
    with Scripted(answer("503 Busy", headers=[date]), GOOD) as server:
        ask(to(server.url))
    assert pauses[0] < 1


def test_nobody_waits_for_an_hour(to: To, pauses: Pauses) -> None:
    hour = answer("503 Busy", headers=["retry-after: 3600"])
    with Scripted(hour, GOOD) as server, pytest.raises(ServerUnavailable):
        ask(to(server.url))
    assert not pauses


# --- what it is called ----------------------------------------------------------------------------


def test_a_lost_answer_to_an_unsafe_request_is_an_unknown_outcome(to: To) -> None:
    with Scripted(b"") as server, pytest.raises(OutcomeUnknown) as lost:
        ask(to(server.url), safe=False)
    assert "history" in lost.value.hint


@pytest.mark.parametrize(("safe", "kind"), [(True, ServerUnavailable), (False, OutcomeUnknown)])
def test_silence(safe: bool, kind: type[LockgateError], to: To, pauses: Pauses) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        transport = to(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(kind):
            ask(transport, safe=safe)
    assert not pauses, "it has had its time, and is not asked again"


@pytest.mark.parametrize(
    "strange",
    [
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n\r\n", id="another protocol"),
        pytest.param(answer("200 OK", b"<html>hello</html>"), id="a web page"),
        pytest.param(answer("404 Not found", b"<html>no</html>"), id="no problem document"),
        pytest.param(answer("302 Found", headers=["location: /login"]), id="a login page"),
        pytest.param(answer("200 OK", b'{"status": 7}'), id="another document"),
    ],
)
def test_an_answer_that_is_no_lockgate_s(strange: bytes, to: To) -> None:
    with Scripted(strange) as server, pytest.raises(NotLockgate) as refused:
        ask(to(server.url))
    assert refused.value.object == server.url
    assert len(server.requests) == 1


def test_a_missing_token_says_where_to_put_one(served: Served, tmp_path: Path) -> None:
    with lockgate.connect(served.url, home=tmp_path) as lg, pytest.raises(Terminal) as refused:
        lg.feeds.status("shop")
    assert refused.value.code == "unauthenticated"
    assert "LOCKGATE_TOKEN" in refused.value.hint


def test_a_wrong_token_is_said_to_be_one(served: Served) -> None:
    with lockgate.connect(served.url, "wrong") as lg, pytest.raises(Terminal) as refused:
        lg.feeds.status("shop")
    assert "opens nothing" in refused.value.hint


# --- TLS ------------------------------------------------------------------------------------------


def test_a_certificate_is_checked_against_the_given_authority(tmp_path: Path) -> None:
    pair = make_certificate(tmp_path, "lg", "127.0.0.1")
    with (
        serve(FakeService(), tls=pair) as served,
        lockgate.connect(served.url, served.token(), ca=pair[0]) as lg,
    ):
        assert lg.health().status == "ok"


def test_an_unknown_certificate_is_refused(tmp_path: Path) -> None:
    pair = make_certificate(tmp_path, "lg", "127.0.0.1")
    with (
        serve(FakeService(), tls=pair) as served,
        lockgate.connect(served.url, served.token()) as lg,
        pytest.raises(ServerUntrusted) as refused,
    ):
        lg.health()
    assert "LOCKGATE_CA" in refused.value.hint


def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    pair = make_certificate(tmp_path, "lg", "lg1.example")
    with (
        serve(FakeService(), tls=pair) as served,
        lockgate.connect(served.url, served.token(), ca=pair[0]) as lg,
        pytest.raises(ServerUntrusted),
    ):
        lg.health()


def test_https_to_a_plain_server_says_so(served: Served) -> None:
    url = served.url.replace("http://", "https://")
    with lockgate.connect(url, "t") as lg, pytest.raises(ServerUntrusted) as refused:
        lg.health()
    assert "http://" in refused.value.hint


def test_a_file_of_authorities_that_is_none_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(UsageError, match="trusted certificates"):
        lockgate.connect("https://127.0.0.1:1", "t", ca=tmp_path / "ca.pem")


def test_a_proxy_of_the_environment_is_not_asked_about_this_machine(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", nobody())
    with lockgate.connect(served.url, served.token()) as lg:
        assert lg.health().status == "ok"
