"""The nodes as a maintainer knows them.

    (unknown) ──member──► ASKED ──bootstrap answered──► READY
                            ▲                             │
                            └──── silent for too long ────┘      not a member: forgotten

Only READY nodes are given anything. One that is silent while its lease runs (hung, or cut off
from us alone) is treated like a dead one: its spans go elsewhere, and the sink's fence keeps
it from writing. When it speaks again it is asked again.
"""

import enum

from lockgate.model.batch import Member
from lockgate.model.ids import Millis, NodeRef


class NodeState(enum.Enum):
    """See the module's diagram."""

    ASKED = "asked"
    READY = "ready"


class NodeView:
    """One life of one node."""

    __slots__ = ("asked_at", "beat", "closed", "draining", "heard_at", "ref", "state")

    def __init__(self, ref: NodeRef, now: Millis) -> None:
        self.ref = ref
        self.state = NodeState.ASKED
        self.heard_at = now
        self.asked_at: Millis | None = None
        self.beat = 0
        self.draining = False
        self.closed = False
        """It has confirmed that nothing of the feed is left there."""


class NodeTable:
    """All nodes whose lease runs."""

    def __init__(self) -> None:
        self._views: dict[NodeRef, NodeView] = {}

    def update(self, members: tuple[Member, ...], now: Millis) -> list[NodeRef]:
        """Take the metastore's word on who is there; returns the lives that ended."""
        present = {member.ref: member for member in members}
        lost = [ref for ref in self._views if ref not in present]
        for ref in lost:
            del self._views[ref]
        for ref, member in present.items():
            view = self._views.get(ref)
            if view is None:
                view = self._views[ref] = NodeView(ref, now)
            view.draining = member.draining
        return lost

    def get(self, ref: NodeRef) -> NodeView | None:
        """The view of this very life of a node."""
        return self._views.get(ref)

    def all(self) -> list[NodeView]:
        """Every member."""
        return list(self._views.values())

    def ready(self, ref: NodeRef | None) -> bool:
        """True when the node may be asked for something."""
        view = self._views.get(ref) if ref is not None else None
        return view is not None and view.state is NodeState.READY

    def named(self, node: str) -> NodeRef | None:
        """The ready life of the node of this name."""
        for view in self._views.values():
            if view.ref.node == node and view.state is NodeState.READY:
                return view.ref
        return None

    def hosts(self) -> list[NodeRef]:
        """Where spans may be placed: draining nodes only if there are no others."""
        ready = [view for view in self._views.values() if view.state is NodeState.READY]
        chosen = [view for view in ready if not view.draining] or ready
        return sorted(view.ref for view in chosen)

    def draining(self) -> list[NodeRef]:
        """Ready nodes that are to be emptied."""
        return sorted(
            view.ref
            for view in self._views.values()
            if view.draining and view.state is NodeState.READY
        )

    def waiting(self) -> list[NodeView]:
        """Members that have not answered the bootstrap."""
        return [view for view in self._views.values() if view.state is NodeState.ASKED]

    def fall_silent(self, now: Millis, silence_ms: int) -> list[NodeRef]:
        """Ready nodes not heard of for too long; they have to answer a bootstrap again."""
        silent = [
            view
            for view in self._views.values()
            if view.state is NodeState.READY and now - view.heard_at >= silence_ms
        ]
        for view in silent:
            view.state = NodeState.ASKED
            view.asked_at = None
        return [view.ref for view in silent]
