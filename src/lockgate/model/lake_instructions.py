"""What the keeper of a lake wants done. The node does it for real, the simulator in a fake lake."""

import enum

from lockgate.model.ids import Epoch, TableId, Token
from lockgate.model.lake import HomeId, LakeTrouble, WishRecord, WorkKind, WorkNumber
from lockgate.model.value import Value

__all__ = [
    "LakeAnswer",
    "LakeInstruction",
    "LakeVerdict",
    "RecordWish",
    "ReleaseLake",
    "RunWork",
    "StopWork",
    "Survey",
    "TableTrouble",
    "TakeLake",
]


class RecordWish(Value, frozen=True):
    """Metastore: have this durable, unless a later keeper was there (`model.lake.accepted`).

    Answered by `WishRecorded`, `WishNotRecorded` or `WishOutdated`."""

    record: WishRecord


class TakeLake(Value, frozen=True):
    """Lake: raise its epoch by compare-and-set, if `model.lake.taken` allows it.

    Answered by `LakeTaken`, `LakeRefused` or, when it failed or nobody knows, `LakeTakeFailed`."""

    home: HomeId
    keeper: int
    attempt: int
    over: Epoch


class ReleaseLake(Value, frozen=True):
    """Lake: say that nobody leads it, if it is still ours (`model.lake.released`).

    Answered by `LakeReleased`, also when it was another's by then, or by `ReleaseFailed`."""

    home: HomeId
    epoch: Epoch


class Survey(Value, frozen=True):
    """Lake: look at one table, or with None at all. Look at the leader *first*, tables after it.

    Answered by `LakeSurveyed` or `SurveyFailed`. A table that cannot be looked at is listed with
    its trouble and fails no survey."""

    number: int
    table: TableId | None


class RunWork(Value, frozen=True):
    """Executor: do this under this token. Answered by `WorkEnded` when nothing of it runs any more,
    whatever became of it."""

    work: WorkNumber
    kind: WorkKind
    table: TableId
    incarnation: int
    token: Token
    dropped: bool = False
    """Of a kill: a drop of the name has come to it on its way to older ones, see `TableSeen`."""


class StopWork(Value, frozen=True):
    """Executor: nobody wants this any more. It may end early; `WorkEnded` comes as ever."""

    work: WorkNumber


class LakeVerdict(enum.Enum):
    """What came of a request."""

    DONE = "done"
    NOTHING = "nothing-to-do"
    BUSY = "busy"
    """Work is under way for the table. Nothing was changed."""
    SUPERSEDED = "superseded"
    """The table's end came first."""
    REFUSED = "refused"
    NOT_FOUND = "not-found"
    FAILED = "failed"
    UNKNOWN = "outcome-unknown"
    """It may have been done, or may still happen: look again."""


class TableTrouble(Value, frozen=True):
    """A table for which it did not work."""

    table: TableId
    trouble: LakeTrouble


class LakeAnswer(Value, frozen=True):
    """To the person who asked. Every request is answered once."""

    request: str
    verdict: LakeVerdict
    what: str = ""
    hint: str = ""
    incarnation: int = 0
    """Of a drop: which one it was about."""
    failed: tuple[TableTrouble, ...] = ()


LakeInstruction = RecordWish | TakeLake | ReleaseLake | Survey | RunWork | StopWork | LakeAnswer
