"""A feed as people and scripts see it: the document of `feed status`."""

from lockgate.model.feeds import FeedState
from lockgate.model.ids import Epoch, FeedId
from lockgate.model.value import Value


class CopyProgress(Value, frozen=True):
    """How far the first copy of the rows has come."""

    rows_done: int = 0
    rows_total: int = 0
    """An estimate by the source's statistics until all is copied."""
    percent: float = 0.0
    eta_s: float | None = None


class FeedStatus(Value, frozen=True):
    """What holds now, and what can be done next."""

    name: FeedId
    state: FeedState
    epoch: Epoch
    owner: str
    resolved: str
    """Everything up to here is captured."""
    checkpoint: str
    """Everything up to here is applied."""
    lag_s: float | None
    """Age of the oldest captured change that is not applied yet; 0 when there is none."""
    tables: int
    spans: int
    copy: CopyProgress
    rows_applied: int = 0
    error: str = ""
    next_steps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What people should know although nothing is wrong."""
