"""The nodes that ever joined: where each is, and whether its lease runs by the store's clock.

For people, and for finding the way to a node. Who decides about nodes learns of them from `renew`,
which in the same breath proves that the asker is alive itself.
"""

import sqlalchemy as sa

from lockgate.model.ids import Incarnation, NodeId, NodeRef
from lockgate.model.value import Value
from lockgate.store.leases import runs
from lockgate.store.tables import nodes
from lockgate.store.transactions import Alive, Clock, Transactions

__all__ = ["Members", "NodeRow"]


class NodeRow(Value, frozen=True):
    """The newest life of a node. `address` and `home` are empty where it told none."""

    node: NodeId
    incarnation: Incarnation
    address: str
    home: str
    alive: bool

    @property
    def ref(self) -> NodeRef:
        """The life itself."""
        return NodeRef(self.node, self.incarnation)


class Members:
    """All nodes of one metastore."""

    def __init__(self, transactions: Transactions, clock: Clock) -> None:
        self._transactions = transactions
        self._clock = clock

    def all(self) -> list[NodeRow]:
        """Every node, by name."""

        def work(connection: sa.Connection, _: Alive) -> list[NodeRow]:
            rows = connection.execute(sa.select(nodes).order_by(nodes.c.node)).all()
            now = self._clock(connection)
            return [
                NodeRow(row.node, row.incarnation, row.address, row.home, runs(row, now))
                for row in rows
            ]

        with self._transactions.told("read which nodes there are"):
            return self._transactions.read(work)
