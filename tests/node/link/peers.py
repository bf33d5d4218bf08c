"""A node as its peers see it: an HTTP server with the link behind it, on a loopback port."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

from msgspec.structs import replace

from lockgate.model.errors import Transient, UsageError
from lockgate.model.instructions import Answer
from lockgate.model.messages import Message
from lockgate.model.secret import Secret
from lockgate.node.link.intake import Intake
from lockgate.node.link.settings import LinkSettings
from lockgate.node.link.transport import LinkTransport
from lockgate.node.link.wire import CONTENT_TYPE, MESSAGES_PATH, VERBS_PATH, Verb

KEY: Final = Secret("key of the cluster")

PATIENT: Final = LinkSettings(
    connect_s=10.0, answer_s=60.0, backoff_s=0.01, backoff_max_s=0.05, idle_s=60.0
)
"""Whoever waits for a peer waits longer than any test; a busy machine fails none."""

IMPATIENT: Final = replace(PATIENT, answer_s=0.3)
"""Gives up on a silent peer soon enough for a test to see it."""


class Peer:
    """A node named `name` that keeps what it is told. Serves from when it is entered."""

    def __init__(self, name: str, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.got: list[Message] = []
        self.bodies = 0
        self.status: int | None = None
        """What it answers to everything, instead of looking at it."""
        self.headers: dict[str, str] = {}
        self.seen: list[dict[str, str]] = []
        """The headers of every request."""
        self.listening = threading.Event()
        self.listening.set()
        """While it is not set, requests wait before they are read by the link."""
        self.answer: Callable[[Verb], Answer] = lambda verb: Answer(verb.request)
        self.intake = Intake(name, self.got.append)
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.peer = self
        self._scheme = "http"
        if tls is not None:
            self._scheme = "https"
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.listening.set()
        self._server.shutdown()
        self._thread.join()
        self._server.end_connections()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    peer: Peer
    daemon_threads = False
    request_queue_size = 64

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._open: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        for request in list(self._open):
            with suppress(OSError):
                request.shutdown(2)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is nothing to write home about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        peer = self.server.peer
        body = self.rfile.read(int(self.headers["Content-Length"]))
        peer.listening.wait()
        peer.bodies += 1
        peer.seen.append({name.lower(): value for name, value in self.headers.items()})
        try:
            status, answer = self._answer(peer, body)
        except UsageError:
            status, answer = 400, b""
        except Transient:
            status, answer = 503, b""
        self.send_response(status)
        for name, value in peer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _answer(self, peer: Peer, body: bytes) -> tuple[int, bytes]:
        if peer.status is not None:
            return peer.status, b""
        if self.headers["Authorization"] != f"Bearer {KEY.reveal()}":
            return 401, b""
        if self.headers["Content-Type"] != CONTENT_TYPE:
            return 415, b""
        if self.path == MESSAGES_PATH:
            peer.intake.receive(body)
            return 204, b""
        if self.path == VERBS_PATH:
            return 200, peer.intake.carry_out(body, peer.answer)
        return 404, b""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Tests say what they see themselves."""


def nowhere(_: str) -> str | None:
    """The addresses of a cluster in which nobody has one."""
    return None


@contextmanager
def transport(
    addresses: Callable[[str], str | None],
    settings: LinkSettings = PATIENT,
    key: Secret = KEY,
    **more: Any,
) -> Iterator[LinkTransport]:
    """The link of node `a`; whatever it tells itself is in `here`, if that is given."""
    here: list[Message] = more.pop("here", [])
    link = LinkTransport(here.append, "a", addresses, lambda: key, settings=settings, **more)
    try:
        yield link
    finally:
        link.close()
