"""What a maintainer's report means for its feed.

A maintainer says where it is; it decides nothing about its feed. Its word is judged only when
it is the recorded owner under the recorded epoch, so every word here is about the present.
"""

from typing import NamedTuple

from lockgate.core.coordinator.feeds import Occasion
from lockgate.model.feeds import Goal
from lockgate.model.ids import Epoch, FeedId, Millis
from lockgate.model.positions import Position
from lockgate.model.records import FeedRecord
from lockgate.model.statuses import MaintainerStatus, Phase


class News(NamedTuple):
    """Something happened to the feed."""

    occasion: Occasion
    error: str = ""


class Judge:
    """Remembers when and where each epoch was first seen running, to tell progress.

    A feed whose source stands still gets no further: to have run for `calm_ms` without trouble
    counts as progress too.
    """

    def __init__(self, attempts_max: int, calm_ms: Millis) -> None:
        self._attempts_max = attempts_max
        self._calm_ms = calm_ms
        self._began_at: dict[FeedId, tuple[Epoch, Position, Millis]] = {}

    def news(self, now: Millis, record: FeedRecord, status: MaintainerStatus) -> News | None:
        """What the status of a running maintainer says that the record does not know yet."""
        if record.goal is not Goal.RUN:
            return None
        if status.trouble is not None:
            what = status.trouble.what
            if status.trouble.retryable and record.attempts < self._attempts_max:
                return News(Occasion.TROUBLE, what)
            return News(Occasion.HOPELESS, what)
        if status.finished:
            return News(Occasion.ALL_APPLIED)
        if self._got_further(now, status) and record.attempts > 0:
            return News(Occasion.PROGRESS)
        return None

    def _got_further(self, now: Millis, status: MaintainerStatus) -> bool:
        """True when this epoch has applied more than its predecessors had, or ran calmly."""
        if status.phase is not Phase.RUNNING:
            return False
        began = self._began_at.get(status.feed)
        if began is None or began[0] != status.epoch:
            self._began_at[status.feed] = (status.epoch, status.checkpoint, now)
            return False
        return status.checkpoint > began[1] or now - began[2] >= self._calm_ms
