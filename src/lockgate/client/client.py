"""`lockgate.connect`: a node, and through it the cluster, as a Python object."""

import os
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from lockgate.client.cluster import Nodes, Tokens
from lockgate.client.diffs import Diffs
from lockgate.client.endpoints import Endpoints
from lockgate.client.feeds import Feeds
from lockgate.client.lakes import Lakes
from lockgate.client.moves import Moves
from lockgate.client.place import find
from lockgate.client.routes import RouteTable
from lockgate.client.transport import TRIES_MAX, Transport
from lockgate.model.documents import Health, HistoryEntry
from lockgate.model.secret import Secret

__all__ = ["Client", "connect"]

TIMEOUT_S: Final = 30.0


def connect(
    url: str | None = None,
    token: str | Secret | None = None,
    *,
    home: str | os.PathLike[str] | None = None,
    ca: str | os.PathLike[str] | None = None,
    timeout_s: float = TIMEOUT_S,
    tries: int = TRIES_MAX,
) -> "Client":
    """A client of the node at `url`. Nothing is sent before the first verb.

    What is not given is taken from LOCKGATE_URL, LOCKGATE_TOKEN, LOCKGATE_HOME and LOCKGATE_CA; the
    defaults are http://127.0.0.1:8642 and the token in ./lockgate-home. Every verb raises
    `lockgate.model.errors.LockgateError`s and nothing else.
    """
    return Client(Transport(find(url, token, home, ca), timeout_s, tries=tries))


class Client:
    """The verbs of the commands, by what they are about. Ends its connections as a context."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.endpoints = Endpoints(transport)
        self.feeds = Feeds(transport)
        self.lakes = Lakes(transport)
        self.diffs = Diffs(transport)
        self.moves = Moves(transport, self.diffs)
        self.nodes = Nodes(transport)
        self.routes = RouteTable(transport)
        self.tokens = Tokens(transport)

    @property
    def url(self) -> str:
        """Of the node that is asked."""
        return self._transport.url

    def history(
        self, object_: str = "", *, before: int | None = None, limit: int | None = None
    ) -> Iterator[HistoryEntry]:
        """Who did what, the newest first; of one feed, node or endpoint, or of all. `limit` is the
        size of a page: further ones are asked for as the answer is read."""
        return self._transport.pages(
            "/api/v1/history",
            HistoryEntry,
            "before",
            object=object_ or None,
            before=before,
            limit=limit,
        )

    def health(self) -> Health:
        """Whether the node is there, which one it is, and of which version. Needs no token."""
        return self._transport.get("/healthz", Health)

    def metrics(self) -> str:
        """For Prometheus."""
        return self._transport.text("/metrics")

    def close(self) -> None:
        """End the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
