"""Listens: the interface on a socket, in a thread of its own.

    server = serve(service, "127.0.0.1:0")
    server.start()              # listening when it returns, or UsageError
    server.url                  # with the real port
    server.stop(deadline_s=10)  # no new requests; running ones may end; then it is over

Without TLS it listens on loopback only: a token that crosses a network in the clear is no secret.
Addresses of clients are those of their connections; X-Forwarded-For is not believed, since anybody
can write it.
"""

import asyncio
import contextlib
import ipaddress
import logging
import socket
import ssl
import threading
from typing import Final

import uvicorn

from lockgate.api.app import Interface, make_interface
from lockgate.api.connections import connection_class
from lockgate.api.guard import Answered
from lockgate.api.limits import Limits
from lockgate.api.ports import Service
from lockgate.api.scrub import Scrubber
from lockgate.api.tls import TlsFiles, server_context
from lockgate.api.verbs import Lane
from lockgate.model.errors import LockgateError, UsageError
from lockgate.model.server_config import split_address

__all__ = ["Server", "serve"]

_START_S: Final = 10.0


class Server:
    """A listening interface. Made by `serve`."""

    def __init__(
        self,
        interface: Interface,
        listener: socket.socket,
        context: ssl.SSLContext | None,
        host: str,
    ) -> None:
        self._interface = interface
        self._listener = listener
        self._host = host
        self.port: int = listener.getsockname()[1]
        """The real one, also where 0 was asked for."""
        self._secure = context is not None
        config = uvicorn.Config(
            interface.app,
            loop="asyncio",
            http=connection_class(interface.limits),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=30,
            h11_max_incomplete_event_size=interface.limits.header_bytes_max,
        )
        config.load()
        config.ssl = context
        self._server = uvicorn.Server(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="api", daemon=True)

    @property
    def url(self) -> str:
        """Where it is, for who is on the same network."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._secure else 'http'}://{host}:{self.port}"

    def start(self) -> None:
        """Take requests from now on."""
        self._thread.start()
        for _ in range(int(_START_S / 0.005)):
            if self._server.started or not self._thread.is_alive():
                break
            self._thread.join(0.005)
        if not self._server.started:
            self.stop(0.0)
            raise LockgateError(
                "the interface did not start",
                object_=self.url,
                hint="see the log",
                cause=self._failed,
            )

    def stop(self, deadline_s: float = 10.0) -> None:
        """Take nothing new, let what runs end within the deadline, and close. Again is no error.

        Who only waits is let go at once, and told to ask elsewhere.
        """
        self._server.config.timeout_graceful_shutdown = max(0, deadline_s)  # type: ignore[assignment]
        self._server.should_exit = True
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(self._interface.lanes[Lane.WAIT].close)
        if self._thread.ident is not None:
            self._thread.join(deadline_s + 5.0)
        self._listener.close()

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            self._failed = error

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve(sockets=[self._listener])


def serve(
    service: Service,
    listen: str,
    tls: TlsFiles | None = None,
    *,
    limits: Limits | None = None,
    scrubber: Scrubber | None = None,
    answered: Answered = lambda _operation, _status, _seconds: None,
) -> Server:
    """A server of the service's interface, bound to its address and not started yet."""
    host, port = split_address(listen)
    context = server_context(tls) if tls is not None else None
    family, address = _resolved(host, port)
    if context is None and not ipaddress.ip_address(address[0].partition("%")[0]).is_loopback:
        raise UsageError(
            f"other machines can reach {host}, and tokens could be read on the way",
            object_="listen",
            hint="give a certificate and a key for TLS, or listen on 127.0.0.1",
        )
    interface = make_interface(service, limits=limits, scrubber=scrubber, answered=answered)
    return Server(interface, _bound(listen, family, address), context, host)


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """The address to bind: what the name means, so that no name can be loopback in name only."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise _cannot_listen(f"{host}:{port}", error) from None
    family, _, _, _, address = found[0]
    return family, (str(address[0]), int(address[1]))


def _bound(listen: str, family: socket.AddressFamily, address: tuple[str, int]) -> socket.socket:
    # TCP by name: only then does asyncio turn Nagle's algorithm off, which costs 40 ms an answer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise _cannot_listen(listen, error) from None
    return listener


def _cannot_listen(listen: str, error: OSError) -> UsageError:
    return UsageError(
        "the address cannot be listened on",
        object_=listen,
        hint="see that nothing else listens there, or take port 0 for a free one",
        cause=error.strerror or str(error),
    )
