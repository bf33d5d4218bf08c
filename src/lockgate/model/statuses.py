"""What nodes say of their dispatchers. All acknowledgement in Lockgate is by status.

A request is repeated until a status shows its effect, so a lost, repeated or reordered
message changes only how long it takes.
"""

import enum

from lockgate.model.ddl import Ddl
from lockgate.model.feeds import Outcome, Trouble
from lockgate.model.ids import Epoch, FeedId, OperatorId, SpanId, Token
from lockgate.model.positions import ORIGIN, Position
from lockgate.model.value import Value


class Stage(enum.Enum):
    """Where a dispatcher is in its life, as its node reports it."""

    PREPARING = "preparing"
    """Target of a merge that is not committed: it exists, it does nothing."""
    STARTING = "starting"
    """Claiming its row at the sink."""
    WORKING = "working"
    HELD = "held"
    """Source of a merge: alive, and applying nothing."""
    STOPPING = "stopping"
    FAILED = "failed"
    FENCED = "fenced"
    """The sink did not accept its token any more: it has ended, and waits to be removed."""
    GONE = "gone"
    """No dispatcher, and none will come from any request up to the status's token."""


class Heat(enum.Enum):
    """Whether a span deserves to be cut or joined."""

    COLD = "cold"
    NORMAL = "normal"
    HOT = "hot"


class DispatcherStatus(Value, frozen=True, array_like=True):
    """One dispatcher on one node, at one moment."""

    span: SpanId
    token: Token
    stage: Stage
    position: Position = ORIGIN
    """Applied at the sink up to here. Known once the dispatcher has claimed its row."""
    barrier: Position = ORIGIN
    """The DDL it stands before, when it does. At or below `position`: written, waits to pass."""
    ddl: Ddl | None = None
    """The DDL itself; told by the trigger dispatcher alone."""
    operator: OperatorId = ""
    heat: Heat = Heat.NORMAL
    points: tuple[bytes, ...] = ()
    """Where a hot span would be cut."""
    trouble: Trouble | None = None


class Phase(enum.Enum):
    """Where a maintainer is in its life."""

    LOADING = "loading"
    BOOTSTRAPPING = "bootstrapping"
    RUNNING = "running"
    CLOSING = "closing"
    REVOKING = "revoking"
    FORGETTING = "forgetting"
    ENDED = "ended"


class MaintainerStatus(Value, frozen=True):
    """One maintainer, as its node reports it to the coordinator."""

    feed: FeedId
    epoch: Epoch
    phase: Phase
    checkpoint: Position = ORIGIN
    spans: int = 0
    operators: int = 0
    finished: bool = False
    """Everything up to the feed's `until` is applied."""
    trouble: Trouble | None = None
    outcome: Outcome | None = None
    """Set once it has ended."""
