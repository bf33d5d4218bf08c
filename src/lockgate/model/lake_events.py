"""What comes in to the keeper of a lake. `now` is handed in beside each event.

Everything that the keeper asked for is answered at least once; a repeated answer changes nothing.
"""

from typing import get_args

import msgspec

from lockgate.model.events import Tick
from lockgate.model.ids import Epoch, TableId
from lockgate.model.lake import LakeTrouble, Leadership, TableSeen, WorkNumber, WorkOutcome
from lockgate.model.positions import ORIGIN, Position
from lockgate.model.value import Value

__all__ = [
    "LAKE_ANSWERS",
    "LAKE_VERBS",
    "DrainTable",
    "DropTable",
    "KeeperOver",
    "LakeEvent",
    "LakeRefused",
    "LakeReleased",
    "LakeSurveyed",
    "LakeTakeFailed",
    "LakeTaken",
    "LakeVerb",
    "ReleaseFailed",
    "StepDown",
    "StepUp",
    "SurveyFailed",
    "Tick",
    "WishNotRecorded",
    "WishOutdated",
    "WishRecorded",
    "WorkEnded",
]

# --- people ---------------------------------------------------------------------------------------


class StepUp(Value, frozen=True, tag=True):
    """Lead the lake, whoever leads it now."""

    request: str


class StepDown(Value, frozen=True, tag=True):
    """Lead it no longer. Refused while changes are not drained, unless they are to be `flush`ed."""

    request: str
    flush: bool = False


class DrainTable(Value, frozen=True, tag=True):
    """Drain a table, or with None all of them, now."""

    request: str
    table: TableId | None


class DropTable(Value, frozen=True, tag=True):
    """Drop a table: the newest incarnation of the name, or one that is told by its number."""

    request: str
    table: TableId
    incarnation: int | None = None
    wait_ms: int = 0
    """How long to wait for work that is under way for it, rather than be told that it is busy."""


# --- the home's metastore -------------------------------------------------------------------------


class WishRecorded(Value, frozen=True):
    """The wish of this serial is durable."""

    serial: int


class WishNotRecorded(Value, frozen=True):
    """It is not durable, or nobody knows; it is recorded again."""

    serial: int
    why: str = ""


class WishOutdated(Value, frozen=True):
    """A later keeper of this home has been there: this one is over."""

    serial: int


class KeeperOver(Value, frozen=True):
    """From the node: this keeper is to end; the home's lease is lost, or the lake is removed."""


# --- the lake -------------------------------------------------------------------------------------


class LakeTaken(Value, frozen=True):
    """The lake's epoch is this keeper's."""

    attempt: int
    epoch: Epoch


class LakeRefused(Value, frozen=True):
    """Another has taken the lake since it was wished for (`model.lake.taken`)."""

    attempt: int
    leader: Leadership


class LakeTakeFailed(Value, frozen=True):
    """It was not taken, or nobody knows; the same attempt is made again."""

    attempt: int
    why: str = ""


class LakeReleased(Value, frozen=True):
    """The lake is not this keeper's any more; it may have been another's already."""

    epoch: Epoch


class ReleaseFailed(Value, frozen=True):
    """It was not given up, or nobody knows; it is asked again."""

    epoch: Epoch
    why: str = ""


class LakeSurveyed(Value, frozen=True):
    """What a survey found: all incarnations, dead ones too, of one table or of all of them."""

    number: int
    leader: Leadership
    tables: tuple[TableSeen, ...]
    unseen: dict[TableId, LakeTrouble] = msgspec.field(default_factory=dict)
    """Names of which nothing could be found out, and why: what was known of them stays."""


class SurveyFailed(Value, frozen=True):
    """The lake, or that table's directory, could not be looked at."""

    number: int
    trouble: LakeTrouble


class WorkEnded(Value, frozen=True):
    """A piece of work is over: nothing of it runs any more, no task either."""

    work: WorkNumber
    table: TableId
    incarnation: int
    outcome: WorkOutcome
    trouble: LakeTrouble | None = None
    """With FAILED, UNKNOWN and HELD: why."""
    drained_to: Position = ORIGIN
    """Of a drain: where stable stands now."""


LakeVerb = StepUp | StepDown | DrainTable | DropTable
LakeEvent = (
    Tick
    | LakeVerb
    | WishRecorded
    | WishNotRecorded
    | WishOutdated
    | KeeperOver
    | LakeTaken
    | LakeRefused
    | LakeTakeFailed
    | LakeReleased
    | ReleaseFailed
    | LakeSurveyed
    | SurveyFailed
    | WorkEnded
)

LAKE_VERBS: tuple[type, ...] = get_args(LakeVerb)
LAKE_ANSWERS: tuple[type, ...] = tuple(
    event for event in get_args(LakeEvent) if event not in {Tick, KeeperOver, *LAKE_VERBS}
)
