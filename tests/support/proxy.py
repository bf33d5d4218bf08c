"""A TCP proxy that hurts: cuts connections at a chosen word of the client's, or falls silent."""

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Self


class FaultProxy:
    """Forwards a loopback port to `target`. Faults are armed, and hit once."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._word: bytes | None = None
        self._then: Callable[[], None] | None = None
        self._forward = False
        self._talking = threading.Event()
        self._talking.set()
        self._closed = False
        self._deaf_to: bytes | None = None
        self.hits = 0

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def cut_at(self, word: bytes, *, forward: bool, then: Callable[[], None] | None = None) -> None:
        """When the client next says `word`, cut its connection.

        `forward`: the server hears the word, and has answered, before the cut; the answer is lost.
        """
        self._forward, self._then, self._word = forward, then, word

    def fall_silent(self) -> None:
        """Forward nothing in either direction any more; connections stay open."""
        self._talking.clear()

    def talk(self) -> None:
        """Forward again."""
        self._talking.set()

    def deafen(self, word: bytes) -> None:
        """Lose what clients say from now on, on connections on which `word` was said before."""
        self._deaf_to = word

    def listen(self) -> None:
        """Lose nothing more."""
        self._deaf_to = None

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._talking.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._sockets:
            _end(one)
        for thread in self._threads:
            thread.join(5)
        for one in self._sockets:
            one.close()

    def _spawn(self, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            try:
                server = socket.create_connection(self._target)
            except OSError:
                _end(client)
                continue
            self._sockets.append(server)
            cutting = threading.Event()
            self._spawn(lambda c=client, s=server, e=cutting: self._requests(c, s, e))
            self._spawn(lambda c=client, s=server, e=cutting: self._answers(c, s, e))

    def _requests(
        self, client: socket.socket, server: socket.socket, cutting: threading.Event
    ) -> None:
        said = b""
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                self._talking.wait()
                if self._deaf_to is not None and self._deaf_to in said:
                    continue
                said = (said + data)[:4096]  # what a connection is for is said at its beginning
                if self._word is not None and self._word in data:
                    self._word = None
                    self.hits += 1
                    if self._forward:
                        cutting.set()  # the next answer is swallowed, and then comes the cut
                        server.sendall(data)
                        continue
                    if self._then is not None:
                        self._then()
                    break
                server.sendall(data)
        if not cutting.is_set():
            _end(server)
            _end(client)

    def _answers(
        self, client: socket.socket, server: socket.socket, cutting: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                self._talking.wait()
                if cutting.is_set():
                    if self._then is not None:
                        self._then()
                    break
                client.sendall(data)
        _end(client)
        _end(server)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
