"""The verbs of nodes and of tokens: who runs the feeds, and who may ask."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from lockgate.client.transport import Transport
from lockgate.model.documents import NodeStatus
from lockgate.model.tokens import Role

__all__ = ["NewToken", "Nodes", "TokenName", "Tokens"]


class Nodes:
    """Lockgate processes. `lg.nodes`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> Iterator[NodeStatus]:
        """All that ever joined, by name."""
        return self._transport.pages("/api/v1/nodes", NodeStatus)

    def drain(self, name: str) -> NodeStatus:
        """Have everything leave a node. It goes on by itself; `list` shows how far it is."""
        return self._transport.post(
            f"/api/v1/nodes/{quote(name, safe='')}/drain", NodeStatus, safe=True
        )


@dataclass(frozen=True)
class TokenName:
    """A token as far as it is told: not itself."""

    name: str
    role: Role


@dataclass(frozen=True)
class NewToken:
    """A token that was made just now. It is shown this once."""

    name: str
    role: Role
    token: str


class Tokens:
    """Who may ask for what. `lg.tokens`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> Iterator[TokenName]:
        """All tokens by name, with their roles."""
        return self._transport.pages("/api/v1/tokens", TokenName)

    def add(self, name: str, role: Role | str = Role.VIEWER) -> NewToken:
        """A new token. Keep what is answered: nobody can ask for it again."""
        body = {"name": name, "role": Role(role).value}
        return self._transport.post("/api/v1/tokens", NewToken, body, safe=False)

    def remove(self, name: str) -> None:
        """From now on it opens nothing."""
        self._transport.delete(f"/api/v1/tokens/{quote(name, safe='')}")
