"""A TCP proxy that hurts: between a client and a database, or between two nodes.

    armed, hits once      cut_at(word)
    until it is undone    fall_silent / talk     both directions wait; nothing is lost
                          lose(way) / heal       bytes of one direction vanish, connections stay
                          delay(seconds) / heal  every piece comes late
                          refuse() / heal        nobody gets a new connection
                          deafen(word) / listen  like `lose`, on connections that said `word`
    at once               cut()                  all connections end

`heal` undoes everything but `deafen` and what is armed. It ends the connections on which bytes have
vanished: what was said before and after would otherwise be joined to what nobody ever said.
"""

import contextlib
import enum
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Self

__all__ = ["FaultProxy", "Way"]


class Way(enum.Enum):
    """A direction."""

    TO_SERVER = "to the server"
    TO_CLIENT = "to the client"


class _Line:
    """One client's connection, and the one that was made for it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.cutting = threading.Event()
        self.holes: set[Way] = set()

    def end(self) -> None:
        _end(self.client)
        _end(self.server)

    def close(self) -> None:
        self.client.close()
        self.server.close()


class FaultProxy:
    """Forwards a loopback port to `target`, as long as it is entered."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = _listener()
        self._lines: list[_Line] = []
        self._threads: list[threading.Thread] = []
        self._word: bytes | None = None
        self._then: Callable[[], None] | None = None
        self._forward = False
        self._talking = threading.Event()
        self._talking.set()
        self._closed = threading.Event()
        self._deaf_to: bytes | None = None
        self._lost: frozenset[Way] = frozenset()
        self._delay_s = 0.0
        self._refusing = False
        self.hits = 0
        self.connections = 0

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

    def lose(self, way: Way) -> None:
        """One-way silence: what is said this way vanishes, while connections stay open."""
        self._lost |= {way}

    def delay(self, seconds: float) -> None:
        """Every piece that is forwarded, either way, comes this much later."""
        self._delay_s = seconds

    def refuse(self) -> None:
        """New connections are refused, as if nobody listened; open ones stay."""
        if not self._refusing:
            self._refusing = True
            # The port stays bound, so that it is still ours when we listen again.
            self._listener.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """End all connections; new ones are taken."""
        for line in list(self._lines):
            line.end()

    def heal(self) -> None:
        """Forward everything at once again, both ways, and take new connections."""
        self._lost = frozenset()
        self._delay_s = 0.0
        self._talking.set()
        for line in list(self._lines):
            if line.holes:
                line.end()
        if self._refusing:
            self._refusing = False
            self._listener.listen()
            self._spawn(self._accept)

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._talking.set()
        _end(self._listener)
        self._listener.close()
        self.cut()
        for thread in list(self._threads):
            thread.join(5)

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
            try:
                server = socket.create_connection(self._target)
            except OSError:
                _end(client)
                client.close()
                continue
            line = _Line(client, server)
            self._lines.append(line)
            self.connections += 1
            if self._closed.is_set():
                line.end()
            self._spawn(partial(self._serve, line))

    def _serve(self, line: _Line) -> None:
        """Both directions, until both have ended."""
        answers = threading.Thread(target=self._answers, args=(line,), daemon=True)
        answers.start()
        self._requests(line)
        answers.join()
        line.close()
        self._lines.remove(line)
        self._threads.remove(threading.current_thread())

    def _passes(self, line: _Line, way: Way) -> bool:
        """Wait as long as the faults say; then, whether the piece is passed on."""
        self._talking.wait()
        if self._delay_s:
            self._closed.wait(self._delay_s)
        if way in self._lost:
            line.holes.add(way)
        # After a hole nothing more: what comes next would be joined to what came before it.
        return way not in line.holes

    def _requests(self, line: _Line) -> None:
        said = b""
        with contextlib.suppress(OSError):
            while data := line.client.recv(65536):
                if not self._passes(line, Way.TO_SERVER):
                    continue
                if self._deaf_to is not None and self._deaf_to in said:
                    continue
                said = (said + data)[:4096]  # what a connection is for is said at its beginning
                if self._word is not None and self._word in data:
                    self._word = None
                    self.hits += 1
                    if self._forward:
                        line.cutting.set()  # the next answer is swallowed, and then comes the cut
                        line.server.sendall(data)
                        continue
                    if self._then is not None:
                        self._then()
                    break
                line.server.sendall(data)
        if not line.cutting.is_set():
            line.end()

    def _answers(self, line: _Line) -> None:
        with contextlib.suppress(OSError):
            while data := line.server.recv(65536):
                if not self._passes(line, Way.TO_CLIENT):
                    continue
                if line.cutting.is_set():
                    if self._then is not None:
                        self._then()
                    break
                line.client.sendall(data)
        line.end()


def _listener() -> socket.socket:
    """On a port that was asked for by number: only such a one stays bound while it refuses."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with contextlib.suppress(OSError):
            return socket.create_server(("127.0.0.1", port))


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
