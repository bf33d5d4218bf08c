"""How many messages went which way, by peer. Whatever the link loses is found here.

sent       handed over, and the peer said so
failed     tried in vain, or without an answer: they may have arrived
dropped    never tried: the queue was full, the peer was gone for good, the link was closed
received   from this peer, handed to the core
strayed    from this peer, meant for another node, and ignored
"""

import threading
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from lockgate.model.ids import NodeId
from lockgate.model.value import Value

__all__ = ["Counters", "PeerCounts"]


class PeerCounts(Value, frozen=True):
    """Messages to and from one peer since the process began."""

    sent: int = 0
    failed: int = 0
    dropped: int = 0
    received: int = 0
    strayed: int = 0


_NONE = PeerCounts()


class Counters:
    """Shared by both directions; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._peers: dict[NodeId, PeerCounts] = {}

    def add(
        self,
        peer: NodeId,
        *,
        sent: int = 0,
        failed: int = 0,
        dropped: int = 0,
        received: int = 0,
        strayed: int = 0,
    ) -> None:
        """Count so many messages more."""
        with self._lock:
            was = self._peers.get(peer, _NONE)
            self._peers[peer] = msgspec.structs.replace(
                was,
                sent=was.sent + sent,
                failed=was.failed + failed,
                dropped=was.dropped + dropped,
                received=was.received + received,
                strayed=was.strayed + strayed,
            )

    def of(self, peer: NodeId) -> PeerCounts:
        """Of one peer; nothing but zeros for one that was never heard of."""
        with self._lock:
            return self._peers.get(peer, _NONE)

    def snapshot(self) -> Mapping[NodeId, PeerCounts]:
        """Of all peers at one moment."""
        with self._lock:
            return MappingProxyType(dict(self._peers))
