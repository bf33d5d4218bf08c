"""Peers that are dead, silent, slow, elsewhere or hostile: `send` never waits, nobody else is held
up, what is lost is counted, and a peer that comes back is found."""

import logging
import socket
import threading
import time
from collections.abc import Callable

import msgspec
import pytest

from lockgate.model.secret import Secret
from lockgate.node.link.addresses import Addresses
from lockgate.node.link.counters import PeerCounts
from lockgate.node.link.transport import LinkTransport
from tests.node.link.examples import beat, numbers
from tests.node.link.peers import IMPATIENT, PATIENT, Peer, nowhere, transport
from tests.support.proxy import FaultProxy, Way
from tests.support.waiting import until

AT_ONCE_S = 5.0
"""Far below the patience of a patient link, far above what a busy machine needs for a queue."""


def _send(link: LinkTransport, to: str, count: int) -> None:
    """Send `count` numbered messages, none of which may wait for anything."""
    before = time.monotonic()
    for number in range(count):
        link.send(to, beat(number))
    assert time.monotonic() - before < AT_ONCE_S


def _until_heard(link: LinkTransport, peer: Peer) -> None:
    """Say something, again and again as a core does, until it is heard."""
    before = len(peer.got)
    until(lambda: _said(link) and len(peer.got) > before)


def _said(link: LinkTransport) -> bool:
    link.send("b", beat(2000))
    return True


def _nobody() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        return f"http://127.0.0.1:{gone.getsockname()[1]}"


def _all(link: LinkTransport, peer: str) -> int:
    counts = link.counters.of(peer)
    return counts.sent + counts.failed + counts.dropped


def test_a_dead_peer_does_not_hold_up_the_others() -> None:
    with Peer("b") as b, FaultProxy("127.0.0.1", b.port) as silent:
        silent.fall_silent()
        where = {"dead": _nobody(), "silent": f"http://127.0.0.1:{silent.port}", "b": b.address}
        with transport(where.get) as link:
            _send(link, "silent", 100)
            _send(link, "dead", 100)
            _send(link, "b", 100)
            until(lambda: len(b.got) == 100)
            assert link.counters.of("silent").sent == 0


def test_every_message_to_a_dead_peer_is_counted() -> None:
    with transport({"b": _nobody()}.get) as link:
        _send(link, "b", 50)
        until(lambda: link.counters.of("b").failed == 50)
        assert link.counters.of("b") == PeerCounts(failed=50)


def test_the_bound_holds_and_the_newest_are_what_arrives() -> None:
    few = msgspec.structs.replace(PATIENT, waiting_max=10)
    where: dict[str, str] = {}
    with Peer("b") as b, transport(where.get, few) as link:
        _send(link, "b", 100)
        assert link.counters.of("b") == PeerCounts(dropped=90)
        where["b"] = b.address
        until(lambda: len(b.got) == 10)
        assert numbers(b.got) == list(range(90, 100))
        until(lambda: link.counters.of("b") == PeerCounts(dropped=90, sent=10))


def test_a_burst_of_drops_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    few = msgspec.structs.replace(PATIENT, waiting_max=10)
    where: dict[str, str] = {}
    with Peer("b") as b, caplog.at_level(logging.INFO, "lockgate.link"):
        with transport(where.get, few) as link:
            _send(link, "b", 100)
            where["b"] = b.address
            until(lambda: len(b.got) == 10)
        lines = [line for line in caplog.messages if "the oldest go" in line]
    assert lines == ["more waits for node b than is kept: the oldest go, 90 messages so far"]


def test_a_burst_that_goes_on_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    few = msgspec.structs.replace(PATIENT, waiting_max=10, batch_bytes_max=1)
    where: dict[str, str] = {}
    with (
        Peer("b") as b,
        caplog.at_level(logging.INFO, "lockgate.link"),
        transport(where.get, few) as link,
    ):
        b.listening.clear()
        _send(link, "b", 20)
        where["b"] = b.address
        until(lambda: len(link._senders["b"]._outbox._waiting) == 9)
        _send(link, "b", 20)
        b.listening.set()
        until(lambda: link.counters.of("b") == PeerCounts(sent=11, dropped=29))
        assert len([line for line in caplog.messages if "the oldest go" in line]) == 1


def test_a_success_makes_the_pauses_short_again() -> None:
    with Peer("b") as b, transport({"b": b.address}.get) as link:
        b.status = 503
        link.send("b", beat(1))
        until(lambda: link._senders["b"]._pause_s > PATIENT.backoff_s)
        b.status = None
        link.send("b", beat(2))
        until(lambda: link._senders["b"]._pause_s == PATIENT.backoff_s)


def test_a_message_beyond_the_limit_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    tiny = msgspec.structs.replace(PATIENT, message_bytes_max=10)
    with caplog.at_level(logging.INFO, "lockgate.link"), Peer("b") as b:
        with transport({"b": b.address}.get, tiny) as link:
            link.send("b", beat(1))
            until(lambda: caplog.messages)
        assert link.counters.of("b") == PeerCounts(dropped=1)
    assert "is more than a node takes" in caplog.messages[0]


def test_a_peer_that_starts_again_elsewhere_is_found() -> None:
    where: dict[str, str] = {}
    with transport(Addresses(lambda: where, max_age_s=0.05)) as link:
        with Peer("b") as b:
            where["b"] = b.address
            link.send("b", beat(1))
            until(lambda: b.got)
        link.send("b", beat(2))
        until(lambda: link.counters.of("b").failed == 1)
        with Peer("b") as b:
            where["b"] = b.address
            _until_heard(link, b)


def test_messages_wait_for_a_peer_that_has_no_address_yet() -> None:
    where: dict[str, str] = {}
    with Peer("b") as b, transport(where.get) as link:
        _send(link, "b", 3)
        where["b"] = b.address
        until(lambda: numbers(b.got) == [0, 1, 2])


def test_messages_to_a_node_that_has_left_are_dropped_and_its_thread_ends() -> None:
    soon = msgspec.structs.replace(PATIENT, idle_s=0.05)
    with transport(nowhere, soon) as link:
        _send(link, "b", 3)
        until(lambda: link.counters.of("b") == PeerCounts(dropped=3))
        until(lambda: not link._senders["b"].running)


def test_a_lookup_that_hangs_does_not_hold_up_send() -> None:
    go_on = threading.Event()

    def hang(_: str) -> None:
        go_on.wait(30)

    with transport(hang) as link:
        _send(link, "b", 100)
        go_on.set()


# --- through the fault proxy ----------------------------------------------------------------


def _hang_up(proxy: FaultProxy) -> None:
    proxy.refuse()
    proxy.cut()


FAULTS: dict[str, Callable[[FaultProxy], None]] = {
    "silence": lambda proxy: proxy.fall_silent(),
    "requests vanish": lambda proxy: proxy.lose(Way.TO_SERVER),
    "answers vanish": lambda proxy: proxy.lose(Way.TO_CLIENT),
    "refused": _hang_up,
    "late": lambda proxy: proxy.delay(1.0),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_trouble_on_the_way_costs_messages_and_is_over_when_it_is_healed(
    fault: Callable[[FaultProxy], None],
) -> None:
    with (
        Peer("b") as b,
        FaultProxy("127.0.0.1", b.port) as proxy,
        transport({"b": f"http://127.0.0.1:{proxy.port}"}.get, IMPATIENT) as link,
    ):
        _until_heard(link, b)
        fault(proxy)  # there is a connection to be hurt
        _send(link, "b", 100)
        until(lambda: link.counters.of("b").failed > 0)
        proxy.heal()
        _until_heard(link, b)


def test_a_cut_connection_is_made_anew() -> None:
    with (
        Peer("b") as b,
        FaultProxy("127.0.0.1", b.port) as proxy,
        transport({"b": f"http://127.0.0.1:{proxy.port}"}.get) as link,
    ):
        _until_heard(link, b)
        for _ in range(5):
            made = proxy.connections
            proxy.cut()
            until(lambda made=made: _said(link) and proxy.connections > made)  # type: ignore[misc]
        _until_heard(link, b)


def test_a_batch_without_an_answer_is_not_sent_twice() -> None:
    with Peer("b") as b, FaultProxy("127.0.0.1", b.port) as proxy:
        proxy.cut_at(b"/link/v1/messages", forward=True)
        with transport({"b": f"http://127.0.0.1:{proxy.port}"}.get) as link:
            link.send("b", beat(1))
            until(lambda: link.counters.of("b").failed == 1)
            link.send("b", beat(2))
            until(lambda: link.counters.of("b").sent == 1)
            assert numbers(b.got) == [1, 2]


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_neither_send_nor_the_end_waits_for_trouble_to_be_over(
    fault: Callable[[FaultProxy], None],
) -> None:
    patient = msgspec.structs.replace(PATIENT, backoff_s=60.0, backoff_max_s=60.0)
    with Peer("b") as b, FaultProxy("127.0.0.1", b.port) as proxy:
        with transport({"b": f"http://127.0.0.1:{proxy.port}"}.get, patient) as link:
            link.send("b", beat(1))
            until(lambda: link.counters.of("b").sent == 1)
            fault(proxy)
            _send(link, "b", 10)
            until(lambda: not link._senders["b"]._outbox._waiting)
            before = time.monotonic()
            link.close()
            assert time.monotonic() - before < AT_ONCE_S
        assert not link._senders["b"]._thread.is_alive()  # type: ignore[union-attr]
        assert _all(link, "b") == 11


# --- a peer that says no --------------------------------------------------------------------


def test_a_wrong_key_is_counted_and_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    wrong = Secret("hunter2")
    with Peer("b") as b, caplog.at_level(logging.INFO, "lockgate.link"):
        with transport({"b": b.address}.get, key=wrong) as link:
            for number in range(1, 4):
                link.send("b", beat(number))
                until(lambda n=number: link.counters.of("b").failed == n)  # type: ignore[misc]
        assert b.got == []
    (line,) = caplog.messages
    assert line.startswith("node b is not reached: the node does not accept this node's key")
    assert "hunter2" not in line


@pytest.mark.parametrize("key", ["", "hunter2\r\nX-Evil: 1", "hunter2é"])
def test_a_key_that_is_no_header_is_not_quoted(key: str, caplog: pytest.LogCaptureFixture) -> None:
    with Peer("b") as b, caplog.at_level(logging.DEBUG):
        with transport({"b": b.address}.get, key=Secret(key)) as link:
            link.send("b", beat(1))
            until(lambda: link.counters.of("b").failed == 1)
        assert b.seen == []
    assert "link key is empty or not plain text" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_peer_that_is_back_is_told_of_with_what_was_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        Peer("b") as b,
        caplog.at_level(logging.INFO, "lockgate.link"),
        transport({"b": b.address}.get) as link,
    ):
        b.status = 503
        link.send("b", beat(1))
        until(lambda: link.counters.of("b").failed == 1)
        b.status = None
        link.send("b", beat(2))
        until(lambda: len(caplog.messages) == 2)
    assert caplog.messages[1] == "node b is reached again; 1 messages to it were lost"


@pytest.mark.parametrize(
    "address",
    [
        "",
        "b",
        "http://",
        "http://me:hunter2@127.0.0.1:1",
        "http://b:99999",
        "http://b:door",
        "http://b?x",
    ],
)
def test_an_address_that_is_none_is_a_failure_like_any_other(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "lockgate.link"), transport({"b": address}.get) as link:
        link.send("b", beat(1))
        until(lambda: link.counters.of("b").failed == 1)
    (line,) = caplog.messages
    assert "the address that the node gave of itself is not one" in line
    assert "hunter2" not in line


def test_a_bug_is_told_of_with_its_trace_and_cuts_nobody_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    trouble = [ZeroDivisionError("planted")]

    with Peer("b") as b, caplog.at_level(logging.INFO, "lockgate.link"):

        def find(_: str) -> str:
            if trouble:
                raise trouble.pop()
            return b.address

        with transport(find) as link:
            link.send("b", beat(1))
            until(lambda: b.got)
    assert "ZeroDivisionError: planted" in caplog.text


def test_an_answer_without_end_is_not_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        over = threading.Event()

        def babble() -> None:
            with server.accept()[0] as one:
                one.recv(65536)
                one.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                try:
                    while not over.is_set():
                        one.sendall(b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n")
                except OSError:
                    over.set()

        thread = threading.Thread(target=babble)
        thread.start()
        port = server.getsockname()[1]
        with transport({"b": f"http://127.0.0.1:{port}"}.get) as link:
            link.send("b", beat(1))
            until(lambda: link.counters.of("b").failed == 1)
            until(over.is_set)
        thread.join()
