"""Connections: what is decided before there is a request.

uvicorn waits for ever for a request that never comes, or comes a byte at a time, and answers what
is no HTTP in plain text. Here a connection has so many seconds to say what it wants, there are so
many of them and no more, and also this error is a problem document.
"""

import asyncio
import json
import secrets
from dataclasses import asdict
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from lockgate.api.limits import Limits
from lockgate.api.problems import MEDIA_TYPE, Refused

__all__ = ["connection_class"]

_HINT: Final = "speak HTTP/1.1, or https where the server does"


def connection_class(limits: Limits) -> type[H11Protocol]:
    """uvicorn's connection, with limits."""

    class Connection(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.connections_max:
                transport.abort()
                return
            self._arm()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
            super().connection_lost(exc)

        def on_response_complete(self) -> None:
            self._arm()
            super().on_response_complete()

        def send_400_response(self, msg: str) -> None:
            refused = Refused(400, "malformed", msg, hint=_HINT)
            body = json.dumps(asdict(refused.problem(secrets.token_hex(8), ""))).encode()
            headers = [
                (b"content-type", MEDIA_TYPE.encode()),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ]
            events: list[Any] = [
                h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ]
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

        def _arm(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
            self._deadline = self.loop.call_later(limits.header_s, self._late)

        def _late(self) -> None:
            cycle: RequestResponseCycle | None = self.cycle  # None before the first request
            if cycle is None or cycle.response_complete:
                self.transport.close()

    return Connection
