"""A TCP proxy that lets the server's bytes through piecewise: it pauses behind a chosen word."""

import contextlib
import socket
import threading
import time
from typing import Self


class Dribble:
    """Forwards a loopback port to `host:port`; whoever reads sees a pause behind each `word`.

    The pause only makes it likely that the reader wakes up in between. Tests pass without it too.
    """

    def __init__(self, host: str, port: int, word: bytes, pause_s: float = 0.05) -> None:
        self._target = (host, port)
        self._word = word
        self._pause_s = pause_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.pauses = 0

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        for one in (self._listener, *self._sockets):
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                for one in (client, server):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets += [client, server]
                for run in (self._ask, self._answer):
                    thread = threading.Thread(target=run, args=(client, server), daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)

    def _answer(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            rest = b""
            while data := server.recv(65536):
                rest += data
                while (at := rest.find(self._word)) >= 0:
                    end = at + len(self._word)
                    client.sendall(rest[:end])
                    rest = rest[end:]
                    self.pauses += 1
                    time.sleep(self._pause_s)
                client.sendall(rest)
                rest = b""
            client.shutdown(socket.SHUT_WR)
