"""Messages between nodes over real sockets: they arrive, in order, whole, and to whom they were
meant for."""

import ssl
import threading
from pathlib import Path

import msgspec
import pytest

from lockgate.model.errors import UsageError
from lockgate.model.messages import Message
from lockgate.model.secret import Secret
from lockgate.node.link.counters import PeerCounts
from lockgate.node.link.tls import LinkTls
from tests.node.link.examples import MESSAGES, VERBS, beat, numbers
from tests.node.link.peers import KEY, PATIENT, Peer, nowhere, transport
from tests.support.tls import make_certificate
from tests.support.waiting import until


def _senders() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("link to")]


def test_every_message_arrives_as_it_was_sent() -> None:
    with Peer("b") as b, transport({"b": b.address}.get) as link:
        for message in MESSAGES:
            link.send("b", message)
        until(lambda: len(b.got) == len(MESSAGES))
        assert b.got == list(MESSAGES)
        until(lambda: link.counters.of("b") == PeerCounts(sent=len(MESSAGES)))
        assert b.intake.counters.of("a") == PeerCounts(received=len(MESSAGES))


def test_what_a_node_tells_itself_arrives_at_once_and_without_the_network() -> None:
    here: list[Message] = []
    with transport(nowhere, here=here) as link:
        link.send("a", MESSAGES[0])
        assert here == [MESSAGES[0]]
        assert link.counters.snapshot() == {}


def test_the_order_within_one_peer_is_kept() -> None:
    with Peer("b") as b, transport({"b": b.address}.get) as link:
        for number in range(2000):
            link.send("b", beat(number))
        until(lambda: len(b.got) == 2000)
        assert numbers(b.got) == list(range(2000))


def test_what_waits_travels_together() -> None:
    with Peer("b") as b, transport({"b": b.address}.get) as link:
        b.listening.clear()
        link.send("b", beat(0))
        until(lambda: not link._senders["b"]._outbox._waiting)
        for number in range(1, 500):
            link.send("b", beat(number))
        b.listening.set()
        until(lambda: len(b.got) == 500)
        assert b.bodies == 2


def test_messages_for_another_node_at_an_old_address_do_not_reach_it() -> None:
    with Peer("c") as c, transport({"b": c.address}.get) as link:
        link.send("b", beat(1))
        until(lambda: c.intake.counters.of("a").strayed)
        assert c.got == []


def test_a_peer_that_nobody_has_anything_for_has_no_thread_and_gets_one_again() -> None:
    soon = msgspec.structs.replace(PATIENT, idle_s=0.05)
    with Peer("b") as b, transport({"b": b.address}.get, soon) as link:
        for number in range(1, 4):
            link.send("b", beat(number))
            until(lambda n=number: numbers(b.got) == list(range(1, n + 1)))  # type: ignore[misc]
            until(lambda: not _senders())


def test_a_message_that_comes_as_the_thread_is_about_to_end_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Peer("b") as b, transport({"b": b.address}.get) as link:
        sender = link._sender("b")
        assert sender is not None
        wait = sender._outbox.wait
        idle = iter([False])
        # The thread finds nothing in time; before it signs off, there is something.
        monkeypatch.setattr(sender._outbox, "wait", lambda s: next(idle, True) and wait(s))
        link.send("b", beat(1))
        until(lambda: b.got)


def test_nothing_outlives_the_link() -> None:
    with Peer("b") as b, Peer("c") as c:
        with transport({"b": b.address, "c": c.address}.get) as link:
            link.send("b", beat(1))
            link.send("c", beat(1))
            until(lambda: b.got and c.got)
            assert len(_senders()) == 2
        assert _senders() == []
        link.send("b", beat(2))
        assert link.counters.of("b") == PeerCounts(sent=1, dropped=1)
        assert _senders() == []


def test_the_environments_proxies_do_not_see_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with Peer("proxy") as proxy, Peer("b") as b:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.address)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        with transport({"b": b.address}.get) as link:
            link.send("b", beat(1))
            until(lambda: b.got or proxy.seen)
        assert proxy.seen == []


def test_a_redirect_is_not_followed() -> None:
    with Peer("c") as c, Peer("b") as b, transport({"b": b.address}.get) as link:
        b.status, b.headers = 307, {"Location": f"{c.address}/link/v1/messages"}
        link.send("b", beat(1))
        until(lambda: link.counters.of("b").failed)
        assert c.seen == []


# --- with certificates ----------------------------------------------------------------------


def _server(certificate: Path, key: Path, clients: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients)
    return context


def test_messages_travel_over_tls_with_certificates_on_both_sides(tmp_path: Path) -> None:
    server = make_certificate(tmp_path, "b", "127.0.0.1")
    client = make_certificate(tmp_path, "a", "127.0.0.1")
    tls = LinkTls(server[0], *client)
    with (
        Peer("b", tls=_server(*server, clients=client[0])) as b,
        transport({"b": b.address}.get, tls=tls) as link,
    ):
        link.send("b", beat(1))
        until(lambda: b.got)
        assert link.ask("b", VERBS[0]).request == VERBS[0].request


@pytest.mark.parametrize("host", ["127.0.0.1", "elsewhere.example"])
def test_a_peer_that_cannot_show_who_it_is_gets_nothing(tmp_path: Path, host: str) -> None:
    server = make_certificate(tmp_path, "b", host)
    other = make_certificate(tmp_path, "ca", "127.0.0.1")
    ca = server[0] if host != "127.0.0.1" else other[0]
    with (
        Peer("b", tls=_server(*server)) as b,
        transport({"b": b.address}.get, tls=LinkTls(ca)) as link,
    ):
        link.send("b", beat(1))
        until(lambda: link.counters.of("b").failed)
        assert b.seen == []


def test_a_node_with_tls_does_not_speak_in_the_clear(tmp_path: Path) -> None:
    certificate, _ = make_certificate(tmp_path, "b", "127.0.0.1")
    with Peer("b") as b, transport({"b": b.address}.get, tls=LinkTls(certificate)) as link:
        link.send("b", beat(1))
        until(lambda: link.counters.of("b").failed)
        assert b.seen == []
        with pytest.raises(UsageError, match="this node speaks https"):
            link.ask("b", VERBS[0])


@pytest.mark.parametrize("files", [("absent.crt",), (None, "absent.crt")], ids=["ca", "own"])
def test_certificates_that_cannot_be_read_are_named(
    tmp_path: Path, files: tuple[str | None, ...]
) -> None:
    paths = [None if name is None else tmp_path / name for name in files]
    with pytest.raises(UsageError, match=r"absent\.crt"):
        LinkTls(*paths).context()


def test_the_key_is_asked_for_anew_with_every_request() -> None:
    keys = [KEY, Secret("another")]
    with Peer("b") as b, transport({"b": b.address}.get) as link:
        link._client._key = lambda: keys[0]
        assert link.ask("b", VERBS[0]).code == ""
        keys.reverse()
        with pytest.raises(UsageError, match="does not accept"):
            link.ask("b", VERBS[0])
