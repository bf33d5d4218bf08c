"""The feeds, twice: as decided and as durable.

    decide ──► decided ──(writer)──► durable ──► then: messages, answers

Decisions are made on what is decided, so that two in a row never contradict each other.
Whatever leaves the coordinator is taken from what is durable, so that nobody is ever told of
something that a successor would not find in the records (law: Record).
"""

from collections.abc import Callable, Iterable

from lockgate.core.writer import Writer
from lockgate.model.batch import Raise
from lockgate.model.ids import FeedId
from lockgate.model.records import FeedRecord


class FeedBook:
    """All feeds that this coordinator knows, the removed ones too."""

    def __init__(self, writer: Writer, records: Iterable[FeedRecord]) -> None:
        self.decided: dict[FeedId, FeedRecord] = {record.feed: record for record in records}
        self.durable: dict[FeedId, FeedRecord] = dict(self.decided)
        self._writer = writer

    def settled(self, feed: FeedId) -> bool:
        """True when nothing decided about the feed still waits to become durable."""
        return self.decided.get(feed) is self.durable.get(feed)

    def decide(
        self,
        record: FeedRecord,
        *,
        raises: Iterable[Raise] = (),
        then: Callable[[], None] | None = None,
    ) -> None:
        """Make this the feed's record; run `then` when it is durable."""
        self.decided[record.feed] = record
        self._writer.write(puts=(record,), raises=raises, then=lambda: self._recorded(record, then))

    def _recorded(self, record: FeedRecord, then: Callable[[], None] | None) -> None:
        self.durable[record.feed] = record
        if then is not None:
            then()
