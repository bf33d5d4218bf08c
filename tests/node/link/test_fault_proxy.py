"""The fault proxy hurts as it says, or what is proved through it is proved by nothing."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.proxy import FaultProxy, Way
from tests.support.waiting import until


class Echo:
    """Says everything back, and keeps what it heard."""

    def __init__(self) -> None:
        self.heard = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=(one,)))
            self._threads[-1].start()

    def _serve(self, one: socket.socket) -> None:
        with one:
            try:
                while data := one.recv(65536):
                    self.heard += data
                    one.sendall(data)
            except OSError:
                return

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)


@pytest.fixture
def echo() -> Iterator[Echo]:
    echo = Echo()
    yield echo
    echo.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[FaultProxy]:
    with FaultProxy("127.0.0.1", echo.port) as proxy:
        yield proxy


def _connect(proxy: FaultProxy) -> socket.socket:
    one = socket.create_connection(("127.0.0.1", proxy.port))
    one.settimeout(10)
    return one


def _silent(one: socket.socket) -> bool:
    one.settimeout(0.2)
    try:
        one.recv(10)
    except TimeoutError:
        return True
    finally:
        one.settimeout(10)
    return False


def test_without_a_fault_it_forwards_both_ways(proxy: FaultProxy) -> None:
    with _connect(proxy) as one:
        one.sendall(b"hello")
        assert one.recv(10) == b"hello"


def test_refused_connections_are_refused_and_taken_again_on_the_same_port(
    proxy: FaultProxy,
) -> None:
    for _ in range(3):
        port = proxy.port
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            _connect(proxy)
        proxy.heal()
        assert proxy.port == port
        with _connect(proxy) as one:
            one.sendall(b"hello")
            assert one.recv(10) == b"hello"


def test_open_connections_outlive_a_refusal(proxy: FaultProxy) -> None:
    with _connect(proxy) as one:
        one.sendall(b"hello")
        assert one.recv(10) == b"hello"
        proxy.refuse()
        one.sendall(b"again")
        assert one.recv(10) == b"again"


def test_a_cut_ends_all_connections_and_new_ones_are_taken(proxy: FaultProxy) -> None:
    with _connect(proxy) as one, _connect(proxy) as two:
        for each in (one, two):
            each.sendall(b"hello")
            assert each.recv(10) == b"hello"
        proxy.cut()
        assert [one.recv(10), two.recv(10)] == [b"", b""]
    with _connect(proxy) as one:
        one.sendall(b"hello")
        assert one.recv(10) == b"hello"


def test_a_delay_is_at_least_as_long_as_it_says(proxy: FaultProxy) -> None:
    proxy.delay(0.1)
    with _connect(proxy) as one:
        before = time.monotonic()
        one.sendall(b"hello")
        assert one.recv(10) == b"hello"
        assert time.monotonic() - before >= 0.2  # there and back


def test_silence_towards_the_server_lets_the_server_hear_nothing(
    proxy: FaultProxy, echo: Echo
) -> None:
    with _connect(proxy) as one:
        proxy.lose(Way.TO_SERVER)
        one.sendall(b"hello")
        assert _silent(one)
        assert echo.heard == b""


def test_silence_towards_the_client_lets_the_server_hear_everything(
    proxy: FaultProxy, echo: Echo
) -> None:
    with _connect(proxy) as one:
        proxy.lose(Way.TO_CLIENT)
        one.sendall(b"hello")
        until(lambda: echo.heard == b"hello")
        assert _silent(one)


def test_a_connection_with_a_hole_in_it_does_not_outlive_the_healing(proxy: FaultProxy) -> None:
    with _connect(proxy) as whole, _connect(proxy) as one:
        whole.sendall(b"hello")
        assert whole.recv(10) == b"hello"
        proxy.lose(Way.TO_CLIENT)
        one.sendall(b"hello")
        assert _silent(one)
        proxy.heal()
        assert one.recv(10) == b""
        whole.sendall(b"again")
        assert whole.recv(10) == b"again"


def test_what_waited_in_silence_is_heard_afterwards(proxy: FaultProxy) -> None:
    with _connect(proxy) as one:
        proxy.fall_silent()
        one.sendall(b"hello")
        assert _silent(one)
        proxy.heal()
        assert one.recv(10) == b"hello"


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_what_has_ended_keeps_no_descriptor(proxy: FaultProxy) -> None:
    before = _descriptors()
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"
    until(lambda: _descriptors() <= before)
