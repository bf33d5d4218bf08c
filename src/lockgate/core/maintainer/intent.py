"""What is durable about a feed: taken over from former owners, made for a new feed, forgotten.

A feed's first spans are recorded before its trigger: the trigger's record makes them valid.
Without it, whatever a former owner left of the feed's conception is void.
"""

from lockgate.core.maintainer.barrier import Barrier
from lockgate.core.maintainer.checkpoint import Checkpoint
from lockgate.core.maintainer.operating import Operating
from lockgate.core.maintainer.reach import Reach
from lockgate.core.maintainer.spans import SpanTable
from lockgate.core.maintainer.wishes import wish_of
from lockgate.model.feeds import FeedSpec
from lockgate.model.ids import OperatorId
from lockgate.model.records import (
    BarrierRecord,
    OperatorRecord,
    ProgressRecord,
    Record,
    RecordKey,
    SpanRecord,
    key_of,
)
from lockgate.model.spans import TRIGGER, TRIGGER_SPEC, Birth, SpanSpec


class Intent:
    """The records of one feed, as its maintainer reads and ends them."""

    def __init__(
        self,
        spans: SpanTable,
        operating: Operating,
        barrier: Barrier,
        progress: Checkpoint,
        reach: Reach,
    ) -> None:
        self.spans = spans
        self.operating = operating
        self.barrier = barrier
        self.progress = progress
        self.reach = reach
        self._void_operators: list[OperatorId] = []
        """Operators of former owners and abandoned ones, whose records may still be there."""

    @property
    def is_conceived(self) -> bool:
        """The feed has its first spans, all of them."""
        return TRIGGER in self.spans

    def take_over(self, records: tuple[Record, ...]) -> None:
        """Go on from what former owners recorded."""
        for record in records:
            if isinstance(record, SpanRecord):
                self.spans.add(record)
            elif isinstance(record, ProgressRecord):
                self.progress.restore(record)
            elif isinstance(record, BarrierRecord):
                self.barrier.resume(record)
            elif isinstance(record, OperatorRecord):
                self._wish_again(record)

    def _wish_again(self, record: OperatorRecord) -> None:
        """The former owner's attempt is void; what it was for is wished for anew."""
        self._void_operators.append(record.operator)
        self.reach.record(deletes=(key_of(record),))
        wish = wish_of(record)
        if wish is not None:
            self.operating.wishes.append(wish)

    def conceive(self, spec: FeedSpec) -> None:
        """A feed that never ran: its first spans, then its trigger."""
        for stray in list(self.spans.all()):
            self.spans.drop(stray.id)
            self.reach.record(deletes=(RecordKey("span", stray.id),))
        start = spec.start
        tables = dict.fromkeys(spec.tables)
        specs = tuple(SpanSpec(self.operating.new_name(), table) for table in tables)
        trigger = SpanRecord(TRIGGER_SPEC, birth=Birth(start, specs), start=start)
        for record in (*(SpanRecord(spec, start=start) for spec in specs), trigger):
            self.spans.add(record)
            self.reach.record(puts=(record,))
        self.progress.value = start
        self.reach.record(puts=(ProgressRecord(start),))

    def abandon_operators(self) -> None:
        """Leave what is under way where it is recorded; a later owner takes it from there."""
        self._void_operators += self.operating.operators
        self.operating.abandon("not-running")

    def forget(self) -> None:
        """Delete everything this feed has recorded or may still have, the trigger first."""
        keys = [
            RecordKey("span", TRIGGER),
            *(RecordKey("operator", name) for name in self._void_operators),
            *(RecordKey("span", span.id) for span in self.spans.all()),
            RecordKey("barrier", "barrier"),
            RecordKey("progress", "progress"),
        ]
        for key in keys:
            self.reach.record(deletes=(key,))
