"""One request to a peer over HTTP, and what its failure means.

    no connection, no answer in time, 408, 429, 5xx   Transient: it may or may not have arrived
    any other answer than 2xx                         UsageError: again would change nothing

The key is shown to the peer that the metastore names and to nobody else: redirects are not
followed, proxies named by the environment are not used, and a node with TLS does not speak to one
in the clear.
"""

import contextlib
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx

from lockgate.model.errors import Transient, UsageError
from lockgate.model.ids import NodeId
from lockgate.model.secret import Secret
from lockgate.node.link.tls import LinkTls
from lockgate.node.link.wire import CONTENT_TYPE

__all__ = ["LinkClient"]

_ANSWER_BYTES_MAX: Final = 1024 * 1024

_KEEP_S: Final = 3.0
"""Less than the time after which a server closes an idle connection (5 s): a request on one that
is just being closed would be lost."""

_HINT_LATER: Final = "it is tried again; look at the node and the network if it stays so"
_CONNECTED: Final = frozenset({"connection.connect_tcp.complete", "connection.start_tls.complete"})


class LinkClient:
    """Connections to all peers, kept between requests; from any thread."""

    def __init__(self, key: Callable[[], Secret], tls: LinkTls | None, connect_s: float) -> None:
        self._key = key
        self._connect_s = connect_s
        self._scheme = "http" if tls is None else "https"
        self._client = httpx.Client(
            # Without TLS the context is never used, and, empty as it is, would trust nobody.
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if tls is None else tls.context(),
            trust_env=False,
            follow_redirects=False,
            # Bodies are small or MessagePack: unpacking what a peer packed is work for nothing.
            headers={"Content-Type": CONTENT_TYPE, "Accept-Encoding": "identity"},
            limits=httpx.Limits(max_connections=None, keepalive_expiry=_KEEP_S),
        )
        self._lock = threading.Lock()
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._closed = False

    def post(self, to: NodeId, address: str, path: str, body: bytes, timeout_s: float) -> bytes:
        """The body of the peer's answer.

        `timeout_s` is for each thing that is waited for (the connection, which has a limit of its
        own, the beginning of the answer) and for the answer as a whole.
        """
        if self._closed:
            raise Transient("the link is closed", object_=f"node {to}", hint="ask another node")
        url = self._url(to, address, path)
        deadline = time.monotonic() + timeout_s
        try:
            with self._client.stream(
                "POST",
                url,
                content=body,
                headers={"Authorization": self._authorization()},
                timeout=httpx.Timeout(timeout_s, connect=min(self._connect_s, timeout_s)),
                extensions={"trace": self._trace},
            ) as response:
                _check(to, url, response.status_code)
                return b"".join(_parts(to, response, deadline))
        except httpx.TimeoutException as error:
            raise _late(to, url, error) from error
        except httpx.HTTPError as error:
            raise _unreachable(to, url, error) from error
        except RuntimeError as error:  # what the library raises once it is closed
            if not self._closed:
                raise
            raise _unreachable(to, url, error) from error

    def abort(self) -> None:
        """End every connection at once, with whatever is under way on them, for good."""
        with self._lock:
            self._closed = True
            sockets = list(self._sockets)
        for one in sockets:
            _end(one)

    def close(self) -> None:
        """After `abort`, once nobody uses it any more."""
        self._client.close()

    def _url(self, to: NodeId, address: str, path: str) -> httpx.URL:
        try:
            url = httpx.URL(address.rstrip("/") + path)
        except httpx.InvalidURL:
            url = httpx.URL("")
        odd = url.userinfo or url.query or url.fragment
        if not url.host or odd or not 0 < (url.port or 80) < 65536:
            raise UsageError(
                "the address that the node gave of itself is not one",
                object_=f"node {to}",
                hint="start the node with an address such as https://host:port",
            )
        if url.scheme != self._scheme:
            raise UsageError(
                f"the node's address is of {url.scheme}, and this node speaks {self._scheme}",
                object_=f"node {to}",
                hint="set up TLS on all nodes of the cluster, or on none",
            )
        return url

    def _authorization(self) -> str:
        key = self._key().reveal()
        if not key or not key.isascii() or not key.isprintable():
            # Caught here, because the HTTP library would quote the header.
            raise UsageError(
                "the link key is empty or not plain text",
                object_="link key",
                hint="let the metastore make a new one",
            )
        return f"Bearer {key}"

    def _trace(self, event: str, info: dict[str, Any]) -> None:
        """Remember the sockets: a thread that waits on one is woken by its end, not by ours."""
        if event not in _CONNECTED:
            return
        one = info["return_value"].get_extra_info("socket")
        with self._lock:
            self._sockets.add(one)
            closed = self._closed
        if closed:
            _end(one)


def _check(to: NodeId, url: httpx.URL, status: int) -> None:
    if 200 <= status < 300:
        return
    if status in {408, 429} or status >= 500:
        raise Transient(
            f"the node could not answer (HTTP {status})", object_=f"node {to}", hint=_HINT_LATER
        )
    what, hint = {
        401: ("the node does not accept this node's key", "give all nodes the same metastore"),
        403: ("the node does not accept this node's key", "give all nodes the same metastore"),
        404: (
            f"what answers at {_place(url)} has no link",
            "look at the node's address, and what listens there",
        ),
        413: ("the node does not take that much at once", "raise its limit on bodies"),
    }.get(
        status,
        (
            f"the node refused (HTTP {status})",
            "run the same version of Lockgate on all nodes of a cluster",
        ),
    )
    raise UsageError(what, object_=f"node {to}", hint=hint)


def _parts(to: NodeId, response: httpx.Response, deadline: float) -> Iterator[bytes]:
    size = 0
    for part in response.iter_raw():
        size += len(part)
        if size > _ANSWER_BYTES_MAX:
            raise UsageError(
                f"the node's answer is larger than {_ANSWER_BYTES_MAX} bytes",
                object_=f"node {to}",
                hint="look at what listens at the node's address",
            )
        if time.monotonic() > deadline:
            raise _late(to, response.url, None)
        yield part


def _late(to: NodeId, url: httpx.URL, cause: Exception | None) -> Transient:
    kind = "could not be reached" if isinstance(cause, httpx.ConnectTimeout) else "did not answer"
    return Transient(
        f"the node at {_place(url)} {kind} in time", object_=f"node {to}", hint=_HINT_LATER
    )


def _unreachable(to: NodeId, url: httpx.URL, cause: Exception) -> Transient:
    return Transient(
        f"the node at {_place(url)} cannot be reached",
        object_=f"node {to}",
        hint=_HINT_LATER,
        cause=cause,
    )


def _place(url: httpx.URL) -> str:
    return url.netloc.decode("ascii")


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
