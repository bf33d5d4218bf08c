"""Names and fences: who somebody is, and which of several owners is the newer one.

No counter here comes from a clock. The metastore gives out a `Term` per coordinator, an
`Epoch` per maintainer of a feed, an `Incarnation` per life of a node, and none of them twice;
a `Seq` numbers the operations of one maintainer, which has its epoch to itself.
"""

from lockgate.model.value import Value

NodeId = str
FeedId = str
TableId = str
SpanId = str
OperatorId = str

Incarnation = int
Term = int
Epoch = int
Seq = int
Millis = int
"""Time of whoever hands the event in; only differences of one node's own readings mean anything."""

UNFENCED: Epoch = 0
"""The epoch of an owner nobody elected: one process without a coordinator, or an older node."""


class NodeRef(Value, frozen=True, order=True, array_like=True):
    """One life of one node. A node that starts again, or lost its lease, is another NodeRef."""

    node: NodeId
    incarnation: Incarnation

    def __str__(self) -> str:
        return f"{self.node}/{self.incarnation}"


class Token(Value, frozen=True, order=True, array_like=True):
    """What a dispatcher works under, ordered: a later owner first, then its later operation.

    The incarnation says which life of the node the operation was meant for, so that a
    request that outlives its addressee is not obeyed by the addressee's successor.
    """

    epoch: Epoch
    seq: Seq
    incarnation: Incarnation

    def __str__(self) -> str:
        return f"{self.epoch}.{self.seq}.{self.incarnation}"

    def floor(self) -> "Token":
        """Below every token of the same epoch: what a new row at the sink starts with."""
        return Token(self.epoch, 0, 0)


NO_TOKEN = Token(0, 0, 0)

SEQ_MAX: Seq = 2**62
"""Above every sequence a maintainer gives out: what a close stands for."""
