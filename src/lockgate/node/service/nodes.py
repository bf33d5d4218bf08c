"""Nodes as people see them, and emptying one."""

from lockgate.model.batch import LoadFailed
from lockgate.model.documents import NodeState, NodeStatus
from lockgate.model.errors import NotFound
from lockgate.model.events import DrainNode
from lockgate.model.records import COORDINATOR, DrainRecord, DrainState
from lockgate.node.service.cluster import Cluster
from lockgate.node.service.noting import noted
from lockgate.node.service.remarks import Remark, decoded
from lockgate.node.service.stores import Stores
from lockgate.store.members import NodeRow

__all__ = ["NodeDesk"]


class NodeDesk:
    """The verbs of nodes."""

    def __init__(self, stores: Stores, cluster: Cluster) -> None:
        self._stores = stores
        self._cluster = cluster

    def all(self) -> list[NodeStatus]:
        """All that ever joined, by name."""
        drains = self._drains()
        leader = self._cluster.leader()
        remarks: dict[tuple[str, int], list[Remark]] = {}
        for report in self._stores.reports.all():
            remark = decoded(report.body)
            if remark is not None:
                remarks.setdefault((report.node, report.incarnation), []).append(remark)
        return [
            _status(row, drains, leader, remarks.get((row.node, row.incarnation), []))
            for row in self._stores.members.all()
        ]

    def one(self, name: str) -> NodeStatus:
        """One of them."""
        for node in self.all():
            if node.name == name:
                return node
        raise NotFound(
            "no node of this name ever joined",
            object_=name,
            hint="`lockgate node list` shows those that did",
        )

    def drain(self, name: str, who: str) -> NodeStatus:
        """Have everything leave a node."""
        self.one(name)
        with noted(self._stores.history, who, "node drain", name):
            self._cluster.ask_coordinator(lambda request: DrainNode(request, name), name)
        return self.one(name)

    def _drains(self) -> dict[str, DrainRecord]:
        loaded = self._stores.metastore.look(COORDINATOR)
        if isinstance(loaded, LoadFailed):
            return {}
        return {each.node.node: each for each in loaded.records if isinstance(each, DrainRecord)}


def _status(
    row: NodeRow, drains: dict[str, DrainRecord], leader: str | None, remarks: list[Remark]
) -> NodeStatus:
    drain = drains.get(row.node)
    state = NodeState.UP if row.alive else NodeState.DOWN
    if row.alive and drain is not None and drain.node == row.ref:
        drained = drain.state is DrainState.DRAINED
        state = NodeState.DRAINED if drained else NodeState.DRAINING
    steps: tuple[str, ...] = ()
    if state is NodeState.DRAINED:
        steps = ("stop the node's process; a node that is started again takes work again",)
    elif state is NodeState.DOWN:
        steps = ("start it again; what it had runs on the other nodes meanwhile",)
    return NodeStatus(
        name=row.node,
        state=state,
        incarnation=row.incarnation,
        address=row.address,
        coordinator=row.alive and row.node == leader,
        feeds=sum(each.owner is not None for each in remarks) if row.alive else 0,
        dispatchers=sum(len(each.spans) for each in remarks) if row.alive else 0,
        next_steps=steps,
    )
