"""Stands in front of everything: what goes in has been checked, what comes out is in order.

    request ─► id ─► size of the target ─► door (verb, who, rate, role) ─► body, whole ─► handler
                                                                                            │
    answer ◄── headers ◄── log ◄── a problem document, whatever was raised ◄────────────────┘

It is the outermost layer and not a set of dependencies, because dependencies run after the body
was read and parsed: a stranger's 64 MiB would be in memory before anybody asked for a token.
Bodies are read here, whole, within a size and a time; handlers never meet a slow sender.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lockgate.api import problems
from lockgate.api.door import Asked, Door
from lockgate.api.lanes import Busy
from lockgate.api.limits import Limits
from lockgate.api.logs import Log
from lockgate.api.problems import Refused
from lockgate.api.scrub import Scrubber
from lockgate.api.verbs import Access, Lane, Verb
from lockgate.model.errors import LockgateError

__all__ = ["Answered", "Guard"]

Answered = Callable[[str, int, float], None]
"""Told of every request: its operation (empty: none), the status, how many seconds it took."""

_LISTS: Final = frozenset({"tables"})
"""What may be said more than once in a query: it is a list."""
_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
"""On every answer. No Strict-Transport-Security: it holds for all ports of a host, and the others
are not ours. No CORS: no page of another origin has business here."""


class _Gone(Exception):
    """Whoever asked has hung up."""


class Guard:
    """An ASGI application around the real one."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        door: Door,
        limits: Limits,
        log: Log,
        scrubber: Scrubber,
        answered: Answered,
    ) -> None:
        self._app = app
        self._door = door
        self._limits = limits
        self._log = log
        self._scrubber = scrubber
        self._answered = answered
        self._in_flight: Counter[Lane | None] = Counter()
        """Per lane for other nodes, whose messages must not wait for their verbs; None: people."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        asked = Asked(secrets.token_hex(8), (scope.get("client") or ("-", 0))[0])
        out = _Out(send, asked.id)
        try:
            await self._serve(asked, scope, receive, out)
        except _Gone:
            out.status = 499
        except Exception as error:
            await self._tell(error, asked, scope, receive, out)
        finally:
            seconds = time.monotonic() - began
            self._answered(asked.verb.operation if asked.verb else "", out.status, seconds)
            ms = seconds * 1000
            self._log.request(asked.id, asked.verb, asked.who, asked.address, out.status, ms)

    async def _serve(self, asked: Asked, scope: Scope, receive: Receive, out: "_Out") -> None:
        _check_target(scope, self._limits.target_bytes_max)
        verb = self._door.find(asked, scope["method"], scope["path"])
        spent_s = await self._admitted(asked, verb, scope)
        link = verb.access is Access.LINK
        kind = verb.lane if link else None
        most = self._limits.link_in_flight_max if link else self._limits.in_flight_max
        if self._in_flight[kind] >= most:
            raise Refused.for_now(503, "busy", "too much is being asked at once", 1, "ask again")
        self._in_flight[kind] += 1
        try:
            body = await self._body(verb, scope, receive)
            inner = dict(
                scope, method=verb.method, state={**scope.get("state", {}), "asked": asked}
            )
            await self._handled(verb, inner, _replay(body, receive), out, spent_s)
        finally:
            self._in_flight[kind] -= 1

    async def _admitted(self, asked: Asked, verb: Verb, scope: Scope) -> float:
        """How many seconds of the request's it took to see that whoever asks may."""
        began = time.monotonic()
        patience = asyncio.timeout(self._limits.request_s)
        try:
            async with patience:
                await self._door.admit(asked, verb, scope["headers"])
        except TimeoutError:
            if not patience.expired():
                raise
            # Whatever was asked, nothing of it was begun.
            raise Refused.for_now(
                503, "transient", "it took too long to see who asks", 5, "ask again"
            ) from None
        return time.monotonic() - began

    async def _handled(
        self, verb: Verb, scope: Scope, receive: Receive, out: "_Out", spent_s: float
    ) -> None:
        extra_s = self._limits.wait_s_max if verb.lane is Lane.WAIT else 0.0
        patience = asyncio.timeout(self._limits.request_s - spent_s + extra_s)
        try:
            async with patience:
                await self._app(scope, receive, out)
        except TimeoutError:
            if not patience.expired():  # somebody else's, and then it is a bug
                raise
            raise _too_long(verb) from None

    async def _body(self, verb: Verb, scope: Scope, receive: Receive) -> bytes:
        headers = dict(scope["headers"])
        link = verb.access is Access.LINK
        most = self._limits.link_bytes_max if link else self._limits.body_bytes_max
        told = headers.get(b"content-length", b"")
        if told.isdigit() and int(told) > most:
            raise _too_large(most)
        try:
            async with asyncio.timeout(self._limits.body_s):
                body = await _read(receive, most)
        except TimeoutError:
            raise Refused(
                408, "timeout", "the body did not arrive in time", hint="send it faster"
            ) from None
        kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        if body and verb.body and not _fits(kind, verb):
            raise Refused(
                415, "media-type", f"the body is not {verb.body}", hint=f"send {verb.body}"
            )
        return body

    async def _tell(
        self, error: Exception, asked: Asked, scope: Scope, receive: Receive, out: "_Out"
    ) -> None:
        operation = asked.verb.operation if asked.verb else ""
        headers = {}
        if isinstance(error, Busy):
            error = _busy(asked.verb)
        if isinstance(error, Refused):
            problem = error.problem(asked.id, operation)
            headers = error.headers
        elif isinstance(error, LockgateError):
            problem = problems.of_error(error, asked.id, operation, self._scrubber)
        else:
            problem = problems.of_bug(asked.id, operation)
        if problem.status == 500:
            self._log.bug(asked.id, asked.verb, error)
        if not out.started:  # else it is too late, and the server closes the connection
            await problems.respond(problem, headers)(scope, receive, out)


class _Out:
    """Passes an answer on, with the headers of every answer."""

    def __init__(self, send: Send, id_: str) -> None:
        self._send = send
        self._id = id_
        self.started = False
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            headers = [*message.get("headers", ()), *_HEADERS, (b"x-request-id", self._id.encode())]
            message = {**message, "headers": headers}
        await self._send(message)


def _check_target(scope: Scope, most: int) -> None:
    raw: bytes = scope.get("raw_path") or scope["path"].encode("utf-8", "replace")
    query: bytes = scope["query_string"]
    if len(raw) + len(query) > most:
        raise Refused(414, "too-large", "the path and query are too long", hint="shorten them")
    if "\0" in scope["path"] or b"\0" in query or b"%00" in query:
        raise Refused(422, "usage", "there is a NUL in the path or query", hint="leave it out")
    said = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    names = Counter(name for name, _ in said)
    if any(many > 1 and name not in _LISTS for name, many in names.items()):
        # Which of them counts is nothing that anybody should have to know.
        what = "a parameter of the query is given more than once"
        raise Refused(422, "usage", what, hint="give it once")


async def _read(receive: Receive, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise _Gone
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise _too_large(most)
        if not message.get("more_body", False):
            return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    told = False

    async def again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _fits(kind: str, verb: Verb) -> bool:
    if verb.access is Access.LINK:
        return kind in {"", verb.body, "application/x-msgpack", "application/octet-stream"}
    return kind == verb.body


def _too_large(most: int) -> Refused:
    return Refused(413, "too-large", f"the body has more than {most} bytes", hint="send less")


def _busy(verb: Verb | None) -> Refused:
    if verb is not None and verb.lane is Lane.WAIT:
        return Refused.for_now(429, "too-many", "too many wait already", 5, "ask again, or poll")
    return Refused.for_now(503, "busy", "the node has too much to do", 1, "ask again")


def _too_long(verb: Verb) -> Refused:
    if verb.changes:
        return Refused.for_now(
            503,
            "outcome-unknown",
            "it took too long, and it is not known whether it took effect",
            5,
            "look at how things stand before asking again",
        )
    return Refused.for_now(503, "transient", "it took too long", 5, "ask again")
