"""What the HTTP interface answers about endpoints, nodes and the past (feeds: `feed_status.py`).

Plain frozen dataclasses: no secret is in any of them, the HTTP interface describes them in its
OpenAPI, and the client reads them back as the same types.
"""

import enum
from dataclasses import dataclass

from lockgate.model.feed_status import FindingDocument

__all__ = [
    "Endpoint",
    "EndpointReport",
    "Health",
    "HistoryEntry",
    "NodeState",
    "NodeStatus",
    "Waited",
]


@dataclass(frozen=True)
class Endpoint:
    """A named database."""

    name: str
    url: str
    """Without its secrets: references stand as written, anything else of a password is `***`."""
    kind: str
    """`postgres`."""
    feeds: tuple[str, ...] = ()
    """Those that use it."""


@dataclass(frozen=True)
class EndpointReport:
    """What a look at an endpoint found, as a source and as a target."""

    name: str
    as_source: tuple[FindingDocument, ...]
    as_target: tuple[FindingDocument, ...]
    source_ok: bool
    target_ok: bool
    next_steps: tuple[str, ...] = ()


class NodeState(enum.Enum):
    """A node as the metastore knows it."""

    UP = "up"
    DRAINING = "draining"
    DRAINED = "drained"
    DOWN = "down"
    """Its lease has run out, or it left."""


@dataclass(frozen=True)
class NodeStatus:
    """One Lockgate process."""

    name: str
    state: NodeState
    incarnation: int
    address: str
    """Where it listens: a URL."""
    coordinator: bool
    feeds: int
    """Maintainers on it."""
    dispatchers: int
    next_steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class HistoryEntry:
    """Who did what, when."""

    id: int
    at: str
    """By the metastore's clock, ISO 8601 in UTC."""
    who: str
    """The name of the token, or `lockgate` itself."""
    verb: str
    """`feed create`, `span move`, `node drain`, …"""
    object: str
    """Which feed, node or endpoint."""
    detail: str = ""
    outcome: str = ""
    """`done`, `refused`, or a word of how it went."""


@dataclass(frozen=True)
class Waited:
    """Whether all that was committed at the source when it was asked is applied by now."""

    level: bool
    position: str
    checkpoint: str
    seconds: float


@dataclass(frozen=True)
class Health:
    """A node that answers."""

    status: str
    """`ok`, or `starting` while it is no member of the cluster."""
    node: str
    version: str
