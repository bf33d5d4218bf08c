"""Everything that a feed's engine works with, put together from the feed's entry in the book.

Here the engine's words (apply these works, copy those spans) become calls of the endpoints, the
change log and Spark. It decides nothing and keeps nothing that would be missed.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from lockgate.endpoints.delta.url import LakeUrl
from lockgate.endpoints.postgres.capture import Capture, CaptureOptions, Follower
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.ddl import log as ddl_log
from lockgate.endpoints.postgres.ddl.changes import chooser
from lockgate.endpoints.postgres.source import heartbeat, wal
from lockgate.endpoints.postgres.source.fetch import Fetch, FetchOptions
from lockgate.endpoints.postgres.source.identity import identity
from lockgate.model.ddl import Ddl
from lockgate.model.errors import LockgateError
from lockgate.model.feed_config import FeedConfig, config_from_json
from lockgate.model.ids import FeedId, TableId, Token
from lockgate.model.positions import Position
from lockgate.model.selection import target_of
from lockgate.model.tables import TableName, TableShape, parse_table
from lockgate.node.feed.copies import Copies
from lockgate.node.feed.ends import Ends
from lockgate.node.feed.following import following
from lockgate.node.feed.plans import RelationPlans
from lockgate.node.feed.rounds import Work
from lockgate.node.feed.schema import SchemaSteps
from lockgate.node.feed.setup import DDL_TABLE, numbered_shapes, shapes_of
from lockgate.node.feed.targets.lake import LakeTarget
from lockgate.node.feed.targets.port import Applied, Target
from lockgate.node.feed.targets.postgres import PostgresTarget
from lockgate.node.telemetry.feed import FeedWatch
from lockgate.pipeline.jobs import SparkLost, interrupt
from lockgate.pipeline.session import Spark
from lockgate.store.changelog import (
    Changelog,
    Retention,
    Segment,
    SegmentFiles,
    collect,
    read_shape,
)
from lockgate.store.feeds import FeedBook, FeedEntry


class LogNews(NamedTuple):
    """What is new in a feed's change log."""

    resolved: Position
    segments: Sequence[Segment]
    ddls: Sequence[Ddl]


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
        home: str,
        watch: FeedWatch | None = None,
    ) -> None:
        """`home` is the name of this installation, by which it is known at endpoints."""
        self.entry = entry
        self.feed: FeedId = entry.feed
        self.config: FeedConfig = config_from_json(bytes(entry.config))
        self.source = ends.source
        self.changelog = changelog
        self.files = files
        self._spark = spark
        self._book = book
        self._source_id: str | None = entry.source or None
        self.watch = watch or FeedWatch(entry.feed)
        self._shapes: dict[str, TableShape] = {}
        self._choose = chooser(self.config)
        self.schema = SchemaSteps(self.feed, self._choose)
        self.copies = Copies(self)
        self.target: Target = (
            LakeTarget(self, ends.target, home)
            if isinstance(ends.target, LakeUrl)
            else PostgresTarget(self, ends.target, self._choose, book)
        )

    @property
    def tag(self) -> str:
        """What the feed's Spark jobs are known by."""
        return f"feed-{self.feed}"

    def close(self) -> None:
        """Give connections back."""
        self.target.disconnect()

    def target_of(self, table: TableId) -> TableName:
        """Where a table's rows go."""
        return target_of(self.config, parse_table(table))

    def source_id(self) -> str:
        """Which log positions are of. A feed of before that was written down asks once; empty: the
        source did not answer."""
        if self._source_id is None:
            self._source_id = ""
            with contextlib.suppress(LockgateError):
                purpose = f"identify {self.feed}"
                with connect(self.source, purpose=purpose, autocommit=True) as connection:
                    self._source_id = identity(connection)
                self._book.identify(self.entry, self._source_id)
        return self._source_id

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
            return self.target.apply(spark, works)

    def shape_of(self, work: Work) -> TableShape:
        """What the changes of a batch look like."""
        return self._shape(work.segments[0])

    def uris_of(self, work: Work) -> tuple[str, ...]:
        """Where they are."""
        return tuple(self.files.uri(segment.path) for segment in work.segments)

    def interrupt(self) -> None:
        """Stop the feed's tasks, if Spark has begun to run any."""
        spark = self._spark.running()
        try:
            if spark is not None:
                interrupt(spark, self.tag)
        except Exception as error:  # a Spark that is gone runs nothing; a deaf one is fenced
            self.watch.lines.warning(
                "tasks could not be stopped",
                why=type(error).__name__,
                next="the fence stops their effect",
            )

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
        below = self.target.least_position()
        if below is not None:
            keep = Retention(age_ms=self.config.retention_s * 1000)
            collect(self.changelog, self.files, self.feed, token, below + 1, keep)
        return Upkeep(finding, kept.bytes)

    def finish(self, token: Token) -> float | None:
        """Try to build what the copy left: after how many seconds to try again. None: nothing of
        that is to be done any more."""
        return self.target.finish(token)

    def clear(self, token: Token) -> None:
        """The feed is removed: its change log goes too."""
        self.changelog.forget(self.feed, token)
        self.files.remove(self.feed, token)
