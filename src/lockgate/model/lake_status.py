"""A lake and its tables as people are shown them."""

import enum

from lockgate.model.ids import Epoch, TableId
from lockgate.model.lake import Figures, LakeRole, LakeTrouble, Leadership, WorkKind
from lockgate.model.value import Value

__all__ = ["LakeStatus", "TableState", "TableStatus"]


class TableState(enum.Enum):
    """What a table is doing."""

    LIVE = "live"
    DRAINING = "draining"
    DEAD = "dead"


class TableStatus(Value, frozen=True):
    """One incarnation of a table."""

    table: TableId
    incarnation: int
    state: TableState
    figures: Figures
    active: WorkKind | None = None
    queued: tuple[WorkKind, ...] = ()
    trouble: LakeTrouble | None = None
    """Why something could not be done to it. It is tried again."""
    attempts: int = 0
    meant: bool = False
    """It is what its name means: not one that is replaced, or that awaits its rows."""


class LakeStatus(Value, frozen=True):
    """What one home's keeper knows of a lake."""

    role: LakeRole
    stage: str
    epoch: Epoch
    """Under which this home leads; 0 while it does not."""
    leader: Leadership
    tables: tuple[TableStatus, ...]
    done: int = 0
    """Of a step-up or a flush: tables that are through, of `total`."""
    total: int = 0
    trouble: LakeTrouble | None = None
    """Why the lake could not be looked at. It is tried again."""
