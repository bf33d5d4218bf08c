"""A PostgreSQL database as a feed's target."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import msgspec

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.copy.anew import begin_anew
from lockgate.endpoints.postgres.copy.items import CopyTable
from lockgate.endpoints.postgres.ddl.changes import Chooser
from lockgate.endpoints.postgres.ddl.statements import compose_step
from lockgate.endpoints.postgres.schema.compose import TablePlan
from lockgate.endpoints.postgres.schema.create import facts_of
from lockgate.endpoints.postgres.schema.discover import DEFINITION
from lockgate.endpoints.postgres.sink.advance import Asked
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.sink.rows import Refused
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.apply import ApplyError, ApplyItem, Receipt
from lockgate.model.ddl import Ddl
from lockgate.model.errors import LockgateError, StaleOwner
from lockgate.model.floors import Floors, Refusal, raised
from lockgate.model.ids import SpanId, TableId, Token
from lockgate.model.instructions import StartDispatcher
from lockgate.model.positions import Position
from lockgate.model.schema_changes import SchemaStep
from lockgate.model.spans import SpanSpec
from lockgate.model.tables import parse_table
from lockgate.node.feed.chosen import Chosen
from lockgate.node.feed.finishing import Builder, Finishing
from lockgate.node.feed.rounds import Work
from lockgate.node.feed.running import Running
from lockgate.node.feed.targets.port import Applied, CopyJob, Look
from lockgate.pipeline.apply import apply_items
from lockgate.pipeline.copy import CopyOrder, CopyOutcome, copy_spans
from lockgate.pipeline.session import Spark
from lockgate.store.changelog import leaves_values
from lockgate.store.feeds import FeedBook

if TYPE_CHECKING:
    from lockgate.node.feed.context import FeedContext

__all__ = ["PostgresTarget"]

PART_ROWS: Final = 150_000
"""A span's batch above this runs in parts, on as many tasks as Spark has slots."""
PART_ROWS_MAX: Final = 400_000
"""A part of more rows than this would take too much of a task's memory: then there are more parts.

A power of two of them: then a part's keys are those of whole groups in the files (`clusters`)."""
BUILT_AT_ONCE: Final = 2
"""Tables whose keys and indexes are made side by side."""


class PostgresTarget:
    """`Target`, for a database."""

    round_s = 0.0
    renews = False

    def __init__(
        self,
        context: "FeedContext",
        url: PostgresUrl,
        choose: Chooser,
        book: FeedBook,
    ) -> None:
        self._context = context
        self._feed = context.feed
        self._url = url
        self._choose = choose
        self._sink = PostgresSink(url)
        self._prepared = False
        self._finishing = Finishing(context, url, self._sink, book)

    def disconnect(self) -> None:
        self._sink.disconnect()

    # --- who may write, and how far it is -------------------------------------------------------

    def claim(self, start: StartDispatcher) -> Floors | Refusal:
        if not self._prepared:
            # An earlier version may have made the fence's tables.
            self._sink.prepare()
            self._prepared = True
        return self._sink.claim(self._feed, start.spec, start.token, start.lineage, start.birth)

    def advance(self, asked: Sequence[Asked]) -> dict[SpanId, Floors | Refusal]:
        return self._sink.advance(self._feed, asked)

    def least_position(self) -> Position | None:
        return self._sink.least_position(self._feed)

    def held_upto(self) -> Position | None:
        return self._sink.held_upto(self._feed)

    # --- changes --------------------------------------------------------------------------------

    def apply(self, spark: Spark, works: Sequence[Work]) -> list[Applied]:
        planned: list[tuple[Work, list[ApplyItem]]] = []
        done: list[Applied] = []
        for work in works:
            items = self._items(work, spark.slots)
            if isinstance(items, Refusal):
                done.append(Applied(work, refusal=items))
            else:
                planned.append((work, items))
        items = [item for _, items in planned for item in items]
        context = self._context
        receipts = iter(apply_items(spark, items, self._url, context.tag, source=context.source))
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
            floors = self._sink.finish_batch(self._feed, one.span, one.token)
            one.batch_parts = 1
        if isinstance(floors, Refusal):
            return Applied(work, rows, floors)
        return Applied(work, rows, floors=floors)

    def _items(self, work: Work, slots: int) -> list[ApplyItem] | Refusal:
        one = work.running
        assert one.floors is not None
        shape, uris = self._context.shape_of(work), self._context.uris_of(work)
        one.batch_parts = parts = 1
        if work.rows > PART_ROWS and shape.key and not one.one_part and not leaves_values(uris):
            parts = max(slots, _power_of_two(-(-work.rows // PART_ROWS_MAX)))
        numbers: Sequence[int] = (0,)
        if parts > 1:
            batch = self._sink.record_batch(
                self._feed, one.span, one.token, one.floors, work.to, parts
            )
            if isinstance(batch, Refusal):
                return batch
            if (batch.to, batch.floors) != (work.to, one.floors):
                return Refusal.MOVED
            parts = one.batch_parts = batch.parts
            numbers = [number for number in range(parts) if number not in batch.landed]
        whole = ApplyItem(
            feed=self._feed,
            span=one.spec,
            token=one.token,
            floors=one.floors,
            to=work.to,
            target=self._context.target_of(one.table),
            shape=shape,
            segments=uris,
            parts=parts,
            snapshots=one.snapshots,
        )
        return [msgspec.structs.replace(whole, part=number) for number in numbers]

    def write_ddl(
        self, token: Token, ddl: Ddl, births: Sequence[SpanSpec], step: SchemaStep
    ) -> Position | Refusal:
        purpose = f"schema {self._feed}"
        with connect(self._url, purpose=purpose, autocommit=True) as connection:
            facts = facts_of(connection, self._planned(step))
        statements = compose_step(step, self._choose, feed=self._feed, facts=facts)
        return self._sink.write_ddl(self._feed, token, ddl, births, statements)

    def _planned(self, step: SchemaStep) -> list[TablePlan]:
        # A step that could not be understood has tables without a definition.
        known = [each.after for each in step.tables if bytes(each.after) not in (b"", b"null")]
        after = [DEFINITION.decode(definition) for definition in known]
        return [plan for definition in after if (plan := self._choose(definition)) is not None]

    # --- the first copy -------------------------------------------------------------------------

    def is_copied(self, one: Running) -> bool:
        if self._sink.all_done(self._feed, one.span) is not True:
            return False
        chunks = self._sink.chunks(self._feed, one.span)
        one.snapshots = tuple(dict.fromkeys(c.snapshot for c in chunks if c.snapshot))
        one.settled = self._context.copies.end_of_log() if one.snapshots else 0
        return True

    def skip_copy(self, one: Running) -> None:
        self._sink.forget_chunks(self._feed, one.span, one.token, uncopied=True)

    def begin_copy(self, one: Running) -> int | Refusal:
        return self._sink.begin_copy_run(self._feed, one.span, one.token)

    def has_rows(self, one: Running) -> bool:
        return any(chunk.done for chunk in self._sink.chunks(self._feed, one.span))

    def empty(self, one: Running, *, whole: bool) -> None:
        table = CopyTable(parse_table(one.table), self._context.target_of(one.table), ())
        try:
            begin_anew(self._url, self._feed, one.span, one.token, table, whole=whole)
        except Refused as refused:
            raise StaleOwner(
                "the span has a newer owner",
                object_=one.span,
                hint="nothing: it goes on there",
                cause=refused.refusal.value,
            ) from refused

    def copy(self, spark: Spark, job: CopyJob) -> list[CopyOutcome]:
        """Afterwards the tables have their keys, and their indexes as far as the rows fit them; the
        others are left for when the feed is finished."""
        context = self._context
        orders = [
            CopyOrder(one.spec, one.token, job.look[one.table].selection, one.copy_run)
            for one in job.spans
        ]
        outcomes = copy_spans(
            spark,
            self._feed,
            context.source,
            self._url,
            orders,
            context.tag,
            chunk_rows=context.config.chunk_rows,
            report=job.report,
            check=job.check,
        )
        return self._all_built(zip(job.spans, outcomes, strict=True), job.look)

    def _all_built(
        self, copied: Iterable[tuple[Running, CopyOutcome]], look: Look
    ) -> list[CopyOutcome]:
        """Build what was left for after the rows, of several tables at once."""
        by_table: dict[TableId, list[tuple[Running, CopyOutcome]]] = {}
        for one, done in copied:
            by_table.setdefault(one.table, []).append((one, done))

        def build(table: TableId) -> list[CopyOutcome]:
            return [
                done if done.error or done.refusal else self._built(one, done, look[table])
                for one, done in by_table[table]
            ]

        with ThreadPoolExecutor(BUILT_AT_ONCE, thread_name_prefix="build") as builders:
            return [done for outcomes in builders.map(build, by_table) for done in outcomes]

    def _built(self, one: Running, copied: CopyOutcome, table: Chosen) -> CopyOutcome:
        """Have the key and the indexes of the span's table, and that recorded."""
        try:
            Builder(self._url, self._feed, one.span, one.token).indexes(table.plan)
            refusal = self._sink.mark_built(self._feed, one.span, one.token)
        except StaleOwner:
            refusal = Refusal.NEWER
        except LockgateError as error:
            return msgspec.structs.replace(copied, error=ApplyError.of(error))
        return msgspec.structs.replace(copied, refusal=refusal)

    def forget_snapshots(self, one: Running) -> Refusal | None:
        return self._sink.forget_chunks(self._feed, one.span, one.token)

    def finish(self, token: Token) -> float | None:
        return self._finishing.attempt(token)


def _power_of_two(least: int) -> int:
    """The smallest that is not less."""
    return 1 << (least - 1).bit_length()
