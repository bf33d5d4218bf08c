"""A service behind the real HTTP interface on a real loopback socket, for client and commands.

    with serve(FakeService()) as served:
        served.url, served.service, served.token(Role.ADMIN)

And `Scripted`: a socket that answers with bytes that a test wrote, one answer per connection; for
what no Lockgate would ever answer.
"""

import contextlib
import io
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import structlog
import uvicorn

from lockgate.api.app import make_interface
from lockgate.api.logs import configure_logs
from lockgate.api.scrub import Scrubber
from lockgate.model.tokens import Role
from tests.support.services import FakeService
from tests.support.waiting import until


@dataclass(frozen=True)
class Served:
    """Where the interface is, and what is behind it."""

    url: str
    service: FakeService

    def token(self, role: Role = Role.ADMIN) -> str:
        """One of the role, that is known to the service from its start."""
        return self.service.keys[role].reveal()


@contextlib.contextmanager
def serve(
    service: FakeService, *, tls: tuple[Path, Path] | None = None, port: int = 0
) -> Iterator[Served]:
    """The interface of `service`, until the block ends. `tls`: certificate and key."""
    configure_logs(io.StringIO(), Scrubber())  # what it logs is not what the tests look at
    listener = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(
        make_interface(service).app,
        log_config=None,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
        ssl_certfile=tls[0] if tls else None,
        ssl_keyfile=tls[1] if tls else None,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        until(lambda: server.started)
        scheme = "https" if tls else "http"
        yield Served(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}", service)
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
        structlog.reset_defaults()


class Scripted:
    """Answers the n-th connection with the n-th script, and every later one with the last."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.requests: list[bytes] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._listener.close()

    def _serve(self) -> None:
        number = 0
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(10)
                self.requests.append(_request(connection))
                connection.sendall(self._answers[min(number, len(self._answers) - 1)])
            number += 1


def answer(status: str, body: bytes = b"", headers: Sequence[str] = ()) -> bytes:
    """An HTTP answer, whole, after which the connection is closed."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _request(connection: socket.socket) -> bytes:
    """All of a request, so that closing the connection does not reset it."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += (more := connection.recv(65536))
        if not more:
            return data
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    wanted = int(lengths[0].partition(b":")[2]) if lengths else 0
    while len(body) < wanted:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body
