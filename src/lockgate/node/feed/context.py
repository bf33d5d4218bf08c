"""Everything that a feed's engine works with, put together from the feed's entry in the book.

Here the engine's words (apply these works, copy those spans) become calls of the endpoints, the
change log and Spark. It decides nothing and keeps nothing that would be missed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import msgspec

from lockgate.endpoints.postgres.capture import Capture, CaptureOptions, Follower
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.ddl import log as ddl_log
from lockgate.endpoints.postgres.ddl.changes import chooser
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.source import heartbeat, wal
from lockgate.endpoints.postgres.source.fetch import Fetch, FetchOptions
from lockgate.model.apply import ApplyError, ApplyItem, Receipt
from lockgate.model.ddl import Ddl
from lockgate.model.feed_config import FeedConfig, config_from_json
from lockgate.model.floors import Floors, Refusal, raised
from lockgate.model.ids import FeedId, TableId, Token
from lockgate.model.positions import Position
from lockgate.model.selection import target_of
from lockgate.model.tables import TableName, TableShape, parse_table
from lockgate.node.feed.copies import Copies
from lockgate.node.feed.finishing import Finishing
from lockgate.node.feed.following import following
from lockgate.node.feed.plans import RelationPlans
from lockgate.node.feed.rounds import Work
from lockgate.node.feed.schema import SchemaSteps
from lockgate.node.feed.setup import DDL_TABLE, Ends, numbered_shapes, shapes_of
from lockgate.node.telemetry.feed import FeedWatch
from lockgate.pipeline.apply import apply_items
from lockgate.pipeline.jobs import SparkLost, interrupt
from lockgate.pipeline.session import Spark
from lockgate.store.changelog import (
    Changelog,
    Retention,
    Segment,
    SegmentFiles,
    collect,
    leaves_values,
    read_shape,
)
from lockgate.store.feeds import FeedBook, FeedEntry

PART_ROWS = 150_000
"""A span's batch above this runs in parts, on as many tasks as Spark has slots."""
PART_ROWS_MAX = 400_000
"""A part of more rows than this would take too much of a task's memory: then there are more parts.

A power of two of them: then a part's keys are those of whole groups in the files (`clusters`)."""


class LogNews(NamedTuple):
    """What is new in a feed's change log."""

    resolved: Position
    segments: Sequence[Segment]
    ddls: Sequence[Ddl]


class Applied(NamedTuple):
    """What came of one span's batch."""

    work: Work
    rows: int = 0
    refusal: Refusal | None = None
    error: ApplyError | None = None
    floors: Floors = ()
    """Where the span stands now, when it was applied."""


class Upkeep(NamedTuple):
    """What was seen while things were kept in order."""

    finding: wal.WalFinding
    """What there is to warn of."""
    retained_bytes: int
    """Log that the source keeps for the feed."""


class SparkHandle(NamedTuple):
    """Spark, for those who use it and do not own it."""

    have: Callable[[], Spark]
    """Started when it is first needed, and again when it was lost."""
    running: Callable[[], Spark | None]
    lost: Callable[[Spark], None]
    """To be told of one that did not bring a job to its end."""

    @contextmanager
    def using(self) -> Iterator[Spark]:
        """For one job."""
        spark = self.have()
        try:
            yield spark
        except SparkLost:
            self.lost(spark)
            raise


class FeedContext:
    """One feed's endpoints, change log and pipeline."""

    def __init__(
        self,
        entry: FeedEntry,
        book: FeedBook,
        changelog: Changelog,
        files: SegmentFiles,
        spark: SparkHandle,
        ends: Ends,
        watch: FeedWatch | None = None,
    ) -> None:
        self.entry = entry
        self.feed: FeedId = entry.feed
        self.config: FeedConfig = config_from_json(bytes(entry.config))
        self.source, self.target = ends
        self.sink = PostgresSink(self.target)
        self.changelog = changelog
        self.files = files
        self._spark = spark
        self.watch = watch or FeedWatch(entry.feed)
        self._shapes: dict[str, TableShape] = {}
        self._choose = chooser(self.config)
        self.schema = SchemaSteps(self.feed, self.target, self._choose)
        self.copies = Copies(self)
        self._finishing = Finishing(self, book)

    @property
    def tag(self) -> str:
        """What the feed's Spark jobs are known by."""
        return f"feed-{self.feed}"

    def close(self) -> None:
        """Give connections back."""
        self.sink.disconnect()

    def target_of(self, table: TableId) -> TableName:
        """Where a table's rows go."""
        return target_of(self.config, parse_table(table))

    # --- capture ------------------------------------------------------------------------------

    def capture(self, token: Token, landed: Callable[[], None]) -> Capture:
        """One attempt at capturing, under the trigger's token."""
        assert self.entry.start is not None
        memory = f"{self.config.decoding_memory_bytes >> 10}kB"
        return Capture(
            self.feed,
            token,
            changelog=self.changelog,
            files=self.files,
            open_source=lambda resolved: Fetch(
                self.source,
                self.entry.slot,
                self.entry.publication,
                resolved,
                options=FetchOptions(decoding_work_mem=memory),
                purpose=f"capture {self.feed}",
            ),
            ddl_table=DDL_TABLE,
            plan=RelationPlans(
                self.source,
                self.config,
                shapes_of(self.entry),
                None if self.entry.logged else frozenset(self.entry.numbers.values()),
            ),
            follower=self._follower(),
            start=self.entry.start,
            options=CaptureOptions(flush_ms=self.config.flush_interval_ms),
            landed=landed,
        )

    def _follower(self) -> Follower | None:
        """Who follows column changes by the stream alone, where the source logs none."""
        if self.entry.logged:
            return None
        return following(self.source, self._choose, numbered_shapes(self.entry))

    # --- the change log -----------------------------------------------------------------------

    def read_log(self, after: Position) -> LogNews:
        """What has come into the log after a position."""
        view = self.changelog.read(self.feed, after)
        ddls = [ddl for change in view.changes if (ddl := self.schema.ddl(change)) is not None]
        return LogNews(view.upto, view.segments, ddls)

    def _shape(self, segment: Segment) -> TableShape:
        found = self._shapes.get(segment.shape)
        if found is None:
            found = self._shapes[segment.shape] = read_shape(self.files.uri(segment.path))
        return found

    # --- applying -----------------------------------------------------------------------------

    def apply(self, works: Sequence[Work]) -> list[Applied]:
        """One Spark job for all works."""
        with self._spark.using() as spark:
            return self._apply(spark, works)

    def _apply(self, spark: Spark, works: Sequence[Work]) -> list[Applied]:
        planned: list[tuple[Work, list[ApplyItem]]] = []
        done: list[Applied] = []
        for work in works:
            items = self._items(work, spark.slots)
            if isinstance(items, Refusal):
                done.append(Applied(work, refusal=items))
            else:
                planned.append((work, items))
        items = [item for _, items in planned for item in items]
        receipts = iter(apply_items(spark, items, self.target, self.tag, source=self.source))
        done += [self._applied(work, [next(receipts) for _ in items]) for work, items in planned]
        return done

    def _applied(self, work: Work, receipts: list[Receipt]) -> Applied:
        """All parts together: the first that failed speaks for them."""
        one = work.running
        assert one.floors is not None
        rows = sum(receipt.changes for receipt in receipts)
        for receipt in receipts:
            if not receipt.applied:
                return Applied(work, rows, receipt.refusal, receipt.error)
        floors: Floors | Refusal = raised(one.floors, work.to)
        if one.batch_parts > 1:
            floors = self.sink.finish_batch(self.feed, one.span, one.token)
            one.batch_parts = 1
        if isinstance(floors, Refusal):
            return Applied(work, rows, floors)
        return Applied(work, rows, floors=floors)

    def _items(self, work: Work, slots: int) -> list[ApplyItem] | Refusal:
        one = work.running
        assert one.floors is not None
        shape = self._shape(work.segments[0])
        uris = tuple(self.files.uri(segment.path) for segment in work.segments)
        one.batch_parts = parts = 1
        if work.rows > PART_ROWS and shape.key and not one.one_part and not leaves_values(uris):
            parts = max(slots, _power_of_two(-(-work.rows // PART_ROWS_MAX)))
        numbers: Sequence[int] = (0,)
        if parts > 1:
            batch = self.sink.record_batch(
                self.feed, one.span, one.token, one.floors, work.to, parts
            )
            if isinstance(batch, Refusal):
                return batch
            if (batch.to, batch.floors) != (work.to, one.floors):
                return Refusal.MOVED
            parts = one.batch_parts = batch.parts
            numbers = [number for number in range(parts) if number not in batch.landed]
        whole = ApplyItem(
            feed=self.feed,
            span=one.spec,
            token=one.token,
            floors=one.floors,
            to=work.to,
            target=self.target_of(one.table),
            shape=shape,
            segments=uris,
            parts=parts,
            snapshots=one.snapshots,
        )
        return [msgspec.structs.replace(whole, part=number) for number in numbers]

    def interrupt(self) -> None:
        """Stop the feed's tasks, if Spark has begun to run any."""
        spark = self._spark.running()
        try:
            if spark is not None:
                interrupt(spark, self.tag)
        except Exception:  # a Spark that is gone runs nothing; one that hears us not is fenced
            self.watch.lines.bug("tasks could not be stopped", next="the fence stops their effect")

    def using_spark(self) -> AbstractContextManager[Spark]:
        """Spark, for one job."""
        return self._spark.using()

    # --- upkeep -------------------------------------------------------------------------------

    def upkeep(self, token: Token) -> Upkeep:
        """Have an idle source's slot move on, mind its disk, delete what nobody needs.

        Raises WalLimitReached when the source's disk is worth more than the feed.
        """
        with connect(self.source, purpose=f"upkeep {self.feed}", autocommit=True) as connection:
            heartbeat.beat(connection, self.feed)
            if self.entry.logged:
                ddl_log.trim(connection)
            limits = wal.WalLimits(self.config.wal_warn_bytes, self.config.wal_stop_bytes)
            kept = wal.retained(connection, self.entry.slot)
            self.watch.kept(kept, limits)
            finding = wal.stop_if_over(kept, limits)
        below = self.sink.least_position(self.feed)
        if below is not None:
            keep = Retention(age_ms=self.config.retention_s * 1000)
            collect(self.changelog, self.files, self.feed, token, below + 1, keep)
        return Upkeep(finding, kept.bytes)

    def finish(self, token: Token) -> bool:
        """Try to build what the copy left; True when nothing of that is to be done any more."""
        return self._finishing.attempt(token)

    def clear(self, token: Token) -> None:
        """The feed is removed: its change log goes too."""
        self.changelog.forget(self.feed, token)
        self.files.remove(self.feed, token)


def _power_of_two(least: int) -> int:
    """The smallest that is not less."""
    return 1 << (least - 1).bit_length()
