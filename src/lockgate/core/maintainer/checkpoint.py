"""The checkpoint: everything up to here is at the sink, for every table of the feed.

It is the least position of all live spans. Positions are lower bounds taken from statuses, so
the checkpoint is never ahead of the sink; it stays below a DDL whose consequences are not
recorded, so it never passes the start of a table that is about to be; and it never goes back.
"""

from lockgate.core.maintainer.barrier import Barrier
from lockgate.core.maintainer.spans import SpanTable
from lockgate.model.positions import ORIGIN, Position
from lockgate.model.records import ProgressRecord
from lockgate.model.spans import TRIGGER


class Checkpoint:
    """How far the feed is."""

    def __init__(self, spans: SpanTable, barrier: Barrier) -> None:
        self.spans = spans
        self.barrier = barrier
        self.value: Position = ORIGIN
        self.born = False
        """The feed's first rows are at the sink: spans other than the trigger can claim theirs."""

    def restore(self, record: ProgressRecord) -> None:
        """What a former owner recorded."""
        self.value = record.checkpoint
        self.born = record.born

    def advance(self) -> ProgressRecord | None:
        """Look again; what is to be recorded, if anything changed."""
        before = (self.value, self.born)
        trigger = self.spans.get(TRIGGER)
        self.born = self.born or (trigger is not None and trigger.working)
        if len(self.spans):
            least = min(span.position for span in self.spans.all())
            if self.barrier.record is not None:
                least = min(least, self.barrier.record.ddl.position - 1)
            self.value = max(self.value, least)
        if (self.value, self.born) == before:
            return None
        return ProgressRecord(self.value, self.born)
