"""A lake as a feed's target: changes land in ingest, the first copy in stable."""

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from lockgate.endpoints.delta.faults import LOST
from lockgate.endpoints.delta.fenced import TableDead
from lockgate.endpoints.delta.files import DataFile
from lockgate.endpoints.delta.foreign import CommitLost
from lockgate.endpoints.delta.land import CopyTorn, LandItem
from lockgate.endpoints.delta.landing import RowMissing
from lockgate.endpoints.delta.rows import ChunkRow, SpanRow
from lockgate.endpoints.delta.sink import LakeSink
from lockgate.endpoints.delta.sink_tables import LakeTable
from lockgate.endpoints.delta.types import lake_schema
from lockgate.endpoints.delta.url import LakeUrl
from lockgate.endpoints.postgres.ddl.statements import require_supported
from lockgate.endpoints.postgres.pgoutput.relations import TablePlan
from lockgate.endpoints.postgres.sink.advance import Asked
from lockgate.endpoints.postgres.sink.chunks import Chunk, Edge
from lockgate.model.apply import ApplyError
from lockgate.model.ddl import Ddl
from lockgate.model.errors import (
    EndpointRefused,
    LockgateError,
    StaleOwner,
    StorageFull,
    Transient,
)
from lockgate.model.floors import Floors, Refusal, raised
from lockgate.model.ids import SpanId, TableId, Token
from lockgate.model.instructions import StartDispatcher
from lockgate.model.positions import Position
from lockgate.model.schema_changes import SchemaStep
from lockgate.model.selection import plan_for
from lockgate.model.spans import TRIGGER, SpanSpec
from lockgate.model.tables import TableShape
from lockgate.node.feed.preparing import lake_sink
from lockgate.node.feed.rounds import Work
from lockgate.node.feed.running import Running
from lockgate.node.feed.setup import shapes_of
from lockgate.node.feed.targets.lake_values import keeps_values
from lockgate.node.feed.targets.port import Applied, CopyJob
from lockgate.pipeline.copy import CopyOutcome
from lockgate.pipeline.lake_copy import LakeCopyOrder, copy_to_lake
from lockgate.pipeline.landing import land_items
from lockgate.pipeline.session import Spark

if TYPE_CHECKING:
    from lockgate.node.feed.context import FeedContext

__all__ = ["LakeTarget"]

_ROUND_S: Final = 0.5
"""A commit is a file or two in every table: small ones cost readers more than waiting does."""
_ENDS: Final = frozenset(each.code for each in (*LOST, CommitLost, RowMissing))
"""What says of a table that it is lost or damaged, when its changes are to land."""
_MENDED: Final = (*LOST, StorageFull, EndpointRefused)
"""What people mend without us: a table that is lost or damaged, by a resync; or the storage."""


class LakeTarget:
    """`Target`, for a lake."""

    round_s = _ROUND_S
    renews = True

    def __init__(self, context: "FeedContext", url: LakeUrl, home: str) -> None:
        self._context = context
        self._sink = lake_sink(url, context.config, home, context.entry.birth, context.source_id)

    def disconnect(self) -> None:
        """There is nothing to give back."""

    # --- who may write, and how far it is -------------------------------------------------------

    def claim(self, start: StartDispatcher) -> Floors | Refusal:
        born = None
        if start.birth is not None:
            shapes = shapes_of(self._context.entry)
            follows = self._sink.head.token() is None
            born = {
                spec.table: self._born(shapes[spec.table], follows) for spec in start.birth.spans
            }
        try:
            return self._sink.claim(start.spec, start.token, start.birth, born)
        except LOST:
            if start.spec.id == TRIGGER or not self._is_gone(start.spec.table):
                raise
        return self._sink.pass_by(start.spec, start.token)

    def _is_gone(self, table: TableId) -> bool:
        """Whether the source has dropped it, or calls it something else by now: then no resync
        helps, and the log tells of its end. Not, while nobody can tell."""
        with contextlib.suppress(LockgateError):
            return table not in self._context.copies.look({table})
        return False

    def _born(self, shape: TableShape, follows: bool) -> LakeTable:
        """A table of a new feed: one of our own, or the leader's."""
        table = self._as(shape)
        living = self._sink.tables.lake.living(table.name) if follows else None
        return msgspec.structs.replace(table, incarnation=living or 0)

    def advance(self, asked: Sequence[Asked]) -> dict[SpanId, Floors | Refusal]:
        return self._sink.advance(asked)

    def held_upto(self) -> Position | None:
        """Nobody holds a feed here: a lake is read as of any position."""
        return None

    def least_position(self) -> Position | None:
        return self._sink.least_position()

    # --- changes --------------------------------------------------------------------------------

    def apply(self, spark: Spark, works: Sequence[Work]) -> list[Applied]:
        rows = self._sink.rows.spans()
        done: list[Applied] = []
        items: list[tuple[Work, LandItem]] = []
        for work in works:
            row = rows.get(work.running.span)
            if row is None:
                done.append(Applied(work, refusal=Refusal.GONE))
            elif row.dropped:
                done.append(self._passed(work))
            elif not row.copied:
                done.append(self._to_be_copied(work))
            else:
                items.append((work, self._item(work, row)))
        receipts = land_items(spark, [item for _, item in items], self._context.tag)
        for (work, _), receipt in zip(items, receipts, strict=True):
            if receipt.applied:
                one = work.running
                self._sink.landed(one.span, one.token, work.to, rows[one.span].incarnation)
                done.append(self._moved(work, receipt.changes))
            elif receipt.error is not None and receipt.error.code == CopyTorn.code:
                done.append(self._begun_anew(work))
            elif receipt.error is not None and receipt.error.code in _ENDS:
                done.append(self._lost(work, receipt.error))
            else:
                done.append(Applied(work, receipt.changes, receipt.refusal, receipt.error))
        return done

    def _to_be_copied(self, work: Work) -> Applied:
        """Begun anew since it was claimed: a claim tells, and the copy begins."""
        work.running.copy_in_doubt = True
        return Applied(work, refusal=Refusal.MOVED)

    def _lost(self, work: Work, error: ApplyError) -> Applied:
        """A batch that cannot land for what is wrong with its table."""
        one = work.running
        try:
            if not self._is_gone(one.table):
                return Applied(work, error=error)
            refusal = self._sink.pass_by(one.spec, one.token)
        except LockgateError as another:
            return Applied(work, error=ApplyError.of(another))
        return Applied(work, refusal=refusal if isinstance(refusal, Refusal) else Refusal.MOVED)

    def _begun_anew(self, work: Work) -> Applied:
        """Its copy cannot be brought level with the log. Readers have an older state, if any."""
        try:
            self.empty(work.running, whole=True)
        except LockgateError as error:
            return Applied(work, error=ApplyError.of(error))
        return self._to_be_copied(work)

    def _passed(self, work: Work) -> Applied:
        """Its table was dropped here: there is nothing to write."""
        self._sink.landed(work.running.span, work.running.token, work.to)
        return self._moved(work, 0)

    def _moved(self, work: Work, changes: int) -> Applied:
        assert work.running.floors is not None
        return Applied(work, changes, floors=raised(work.running.floors, work.to))

    def _item(self, work: Work, row: SpanRow) -> LandItem:
        one = work.running
        return LandItem(
            one.span,
            one.token,
            one.low,
            work.to,
            self._sink.tables.place_of(row).to_wire(),
            self._sink.tables.ingest_of(row),
            self._context.shape_of(work),
            self._context.uris_of(work),
        )

    def write_ddl(
        self, token: Token, ddl: Ddl, births: Sequence[SpanSpec], step: SchemaStep
    ) -> Position | Refusal:
        require_supported(step)
        after: dict[TableId, LakeTable] = {}
        fills: set[TableId] = set()
        for change in step.tables:
            if change.now is not None and change.shape is not None:
                after[change.now.id] = self._as(change.shape)
                if not keeps_values(change):
                    fills.add(change.now.id)
        try:
            return self._sink.write_ddl(token, ddl, births, after, fills)
        except _MENDED as error:
            # The change waits for that, like any batch; the feed need not fail, nor other tables.
            raise Transient(
                "a schema change cannot be written yet",
                object_=error.object,
                hint=error.hint,
                operation="write a schema change",
                cause=error,
            ) from error

    def _as(self, shape: TableShape) -> LakeTable:
        """What a table of the source is in the lake."""
        context = self._context
        names = [column.name for column in shape.columns]
        selection = plan_for(context.config, shape.table, names, shape.key)
        masks = {} if selection is None else selection.masks
        travelling = TablePlan(shape, masks).travelling
        name = context.target_of(shape.table.id).id
        return LakeTable(name, lake_schema(travelling), shape.key)

    # --- the first copy -------------------------------------------------------------------------

    def is_copied(self, one: Running) -> bool:
        row = self._sink.rows.spans().get(one.span)
        return row is not None and (row.copied or row.dropped)

    def skip_copy(self, one: Running) -> None:
        self._sink.copies.over(one.span, one.token)

    def begin_copy(self, one: Running) -> int | Refusal:
        return self._sink.copies.begin_run(one.span, one.token)

    def has_rows(self, one: Running) -> bool:
        row = self._sink.rows.spans().get(one.span)
        return row is not None and any(chunk.done for chunk in row.chunks)

    def empty(self, one: Running, *, whole: bool) -> None:  # noqa: ARG002 - all of it is anew
        """Go on in a new incarnation; readers have the old one until the new one is copied."""
        copies = self._context.copies
        look = copies.look({one.table})
        if one.table not in look:
            raise Transient(
                "the table is gone at the source",
                object_=one.table,
                hint="the feed hears of it when it comes to that in the log",
                operation="copy",
            )
        refusal = self._sink.copies.renew(
            one.span, one.token, copies.end_of_log(), self._as(look[one.table].shape)
        )
        if refusal is not None:
            raise StaleOwner(
                "the span has a newer owner",
                object_=one.span,
                hint="nothing: it goes on there",
                cause=refusal.value,
            )

    def copy(self, spark: Spark, job: CopyJob) -> list[CopyOutcome]:
        if self._sink.head.token() is None:
            return [self._followed(one) for one in job.spans]
        context = self._context
        copies = self._sink.copies
        answers = {one.span: copies.taken(one.span, one.token) for one in job.spans}
        refused = {span: told for span, told in answers.items() if isinstance(told, Refusal)}
        taken = [one for one in job.spans if answers[one.span] is True]
        rows = self._sink.rows.spans()
        orders = [
            LakeCopyOrder(
                one.spec,
                one.token,
                job.look[one.table].selection,
                one.copy_run,
                place=self._sink.tables.place_of(rows[one.span]),
            )
            for one in job.spans
            if one.span in rows and answers[one.span] is False
        ]
        outcomes = copy_to_lake(
            spark,
            context.feed,
            context.source,
            orders,
            _Ledger(self._sink),
            context.tag,
            chunk_rows=context.config.chunk_rows,
            report=job.report,
            check=job.check,
        )
        return [
            *(
                CopyOutcome(one.span, one.token, refusal=refused[one.span])
                for one in job.spans
                if one.span in refused
            ),
            *(self._outrun(one) for one in taken),
            *(self._landed(done) for done in outcomes),
        ]

    def _landed(self, done: CopyOutcome) -> CopyOutcome:
        """Let the table have what was copied, and know under which snapshots: whoever lands changes
        asks the table, not the engine."""
        if done.error is not None and done.error.code == TableDead.code:
            # It was dropped, and its files are going: claimed again, the span learns of it.
            return msgspec.structs.replace(done, error=None, refusal=Refusal.MOVED)
        if done.error or done.refusal:
            return done
        try:
            refusal = self._sink.copies.land(done.span, done.token, done.settled)
        except LockgateError as error:
            return msgspec.structs.replace(done, error=ApplyError.of(error))
        return msgspec.structs.replace(done, refusal=refusal, snapshots=())

    def _followed(self, one: Running) -> CopyOutcome:
        """Somebody else leads the lake: its rows are ours once they are as far as we are."""
        try:
            if (refusal := self._sink.copies.joined(one.span, one.token, one.low)) is not None:
                return CopyOutcome(one.span, one.token, refusal=refusal)
        except LockgateError as error:
            return CopyOutcome(one.span, one.token, error=ApplyError.of(error))
        return CopyOutcome(one.span, one.token)

    def _outrun(self, one: Running) -> CopyOutcome:
        """Its table has the rows of a home that led before. Are they as far as we are, they are
        ours; else nobody closes the gap between, and the next copy is into a table begun anew."""
        followed = self._followed(one)
        if followed.error is not None:
            self.empty(one, whole=True)
        return followed

    def forget_snapshots(self, one: Running) -> Refusal | None:  # noqa: ARG002 - it has none
        return None

    def finish(self, token: Token) -> float | None:  # noqa: ARG002 - a lake has nothing to build
        return None


class _Ledger:
    """The chunks of the feed's tables, for the copy."""

    def __init__(self, sink: LakeSink) -> None:
        self._sink = sink

    def chunks(self, span: SpanId) -> list[Chunk]:
        row = self._sink.rows.spans().get(span)
        return [] if row is None else _chunks(row.chunks)

    def plan_chunks(
        self, span: SpanId, token: Token, edges: Sequence[tuple[Edge, Edge]]
    ) -> list[Chunk] | Refusal:
        planned = self._sink.copies.plan(span, token, edges)
        return planned if isinstance(planned, Refusal) else _chunks(planned)

    def landed(
        self,
        span: SpanId,
        token: Token,
        chunk_no: int,
        files: tuple[DataFile, ...],
        rows: int,
        bytes_: int,
        snapshot: str,
    ) -> Refusal | None:
        return self._sink.copies.chunk_landed(span, token, chunk_no, files, rows, bytes_, snapshot)


def _chunks(rows: Sequence[ChunkRow]) -> list[Chunk]:
    return [
        Chunk(
            row.no,
            row.low,
            row.high,
            snapshot=row.snapshot,
            rows=row.rows,
            bytes=row.bytes,
            done=row.done,
        )
        for row in rows
    ]
