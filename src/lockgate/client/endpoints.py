"""The verbs of endpoints."""

from collections.abc import Iterator
from urllib.parse import quote

from lockgate.client.transport import DATABASES_S, Transport
from lockgate.model.documents import Endpoint, EndpointReport
from lockgate.model.secret import Secret

__all__ = ["Endpoints"]


class Endpoints:
    """Named databases. `lg.endpoints`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def add(self, name: str, url: str | Secret) -> Endpoint:
        """Name a database. `url` may hold references, `${env:SHOP_PW}` or `${file:/run/pw}`, which
        are looked up on the nodes. The same again is no error."""
        return self._transport.post(
            "/api/v1/endpoints", Endpoint, {"name": name, "url": url}, safe=True
        )

    def list(self) -> Iterator[Endpoint]:
        """All endpoints by name, page by page as they are asked for."""
        return self._transport.pages("/api/v1/endpoints", Endpoint)

    def get(self, name: str) -> Endpoint:
        """One of them."""
        return self._transport.get(_path(name), Endpoint)

    def test(self, name: str) -> EndpointReport:
        """Have the node look at it, as a source and as a target."""
        return self._transport.post(
            f"{_path(name)}/test", EndpointReport, safe=True, more_s=DATABASES_S
        )

    def remove(self, name: str) -> None:
        """Forget it; a Conflict while a feed uses it."""
        self._transport.delete(_path(name))


def _path(name: str) -> str:
    return f"/api/v1/endpoints/{quote(name, safe='')}"
