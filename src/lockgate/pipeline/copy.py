"""The initial copy of many spans at once: planned, recorded, run on Spark, taken up where it was.

    survey ─► plan, recorded at the sink ─► one snapshot ─► one job, a task per chunk ─► outcomes
                      ▲                                          │ something failed
                      └── the next run: what is left, under a new snapshot

All chunks of all tables are in one job, the heaviest first, so that every slot is busy to the end;
small tables go together in one task. What has landed is recorded at the sink with the rows
themselves, so nothing here has to survive: whoever comes next reads what is left.

A part that failed for a reason that may pass is tried again under the same snapshot, a few times:
one snapshot for a whole table keeps the questions of the stream simple.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.copy.anew import begin_anew
from lockgate.endpoints.postgres.copy.items import CopyItem, CopyPart, CopyReceipt
from lockgate.endpoints.postgres.copy.plan import CHUNK_ROWS, plan_edges
from lockgate.endpoints.postgres.copy.snapshot import Held, TableRewritten, held_snapshot, log_end
from lockgate.endpoints.postgres.copy.survey import CopyOrder, Surveyed, survey
from lockgate.endpoints.postgres.sink.chunks import Chunk
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.sink.rows import Refused
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.apply import ApplyError
from lockgate.model.feed_status import CopyProgress
from lockgate.model.floors import Refusal
from lockgate.model.ids import FeedId, SpanId, Token
from lockgate.model.positions import Position
from lockgate.model.tables import TableName
from lockgate.model.value import Value
from lockgate.pipeline.jobs import run_tasks
from lockgate.pipeline.progress import Progress
from lockgate.pipeline.session import Spark

__all__ = ["CopyOrder", "CopyOutcome", "copy_spans"]

_ATTEMPTS: Final = 3
_PAUSE_S: Final = 0.5
_PART_COST_ROWS: Final = 2_000
"""What a chunk costs before its first row, in rows."""
_RECEIPTS: Final = msgspec.msgpack.Decoder(list[CopyReceipt])


class CopyOutcome(Value, frozen=True):
    """What came of one span. With neither refusal nor error, all its rows are there."""

    span: SpanId
    token: Token
    snapshots: tuple[str, ...] = ()
    """Under which its chunks were read, oldest first."""
    settled: Position = 0
    """From this position on the snapshots are not needed: they have seen nothing beyond it."""
    rows: int = 0
    bytes: int = 0
    refusal: Refusal | None = None
    error: ApplyError | None = None


def copy_spans(
    spark: Spark,
    feed: FeedId,
    source: PostgresUrl,
    target: PostgresUrl,
    orders: Sequence[CopyOrder],
    tag: str,
    *,
    chunk_rows: int = CHUNK_ROWS,
    report: Callable[[CopyProgress], None] | None = None,
    check: Callable[[], None] = lambda: None,
) -> list[CopyOutcome]:
    """Copy what is not copied yet of all these spans. Raises what concerns all of them.

    `check` is called when the snapshot is taken and nothing is copied yet: it may raise.
    """
    if not orders:
        return []
    run = _Run(spark, feed, source, target, tag)
    run.plan(orders, chunk_rows)
    if run.left:
        with (
            held_snapshot(source, feed, run.oids()) as held,
            Progress(target, feed, run.estimates(), report),
        ):
            check()
            run.copy(held)
        settled = held.settled
    else:
        settled = log_end(source, feed)
    return run.outcomes(orders, settled)


class _Run:
    """One run: the spans that take part in it, and what is left to do."""

    def __init__(
        self, spark: Spark, feed: FeedId, source: PostgresUrl, target: PostgresUrl, tag: str
    ) -> None:
        self._spark = spark
        self._feed = feed
        self._source = source
        self._target = target
        self._tag = tag
        self._tables: dict[TableName, Surveyed] = {}
        self._chunks: dict[SpanId, list[Chunk]] = {}
        self._orders: dict[SpanId, CopyOrder] = {}
        self._refusals: dict[SpanId, Refusal] = {}
        self._errors: dict[SpanId, ApplyError] = {}
        self.left: dict[tuple[SpanId, int], CopyPart] = {}

    # --- planning ---------------------------------------------------------------------------------

    def plan(self, orders: Sequence[CopyOrder], chunk_rows: int) -> None:
        """Have the chunks of every span recorded, and find out which are left."""
        self._tables = survey(self._source, self._target, self._feed, orders)
        with (
            PostgresSink(self._target) as sink,
            connect(self._source, purpose=f"{self._feed} plan", autocommit=True) as connection,
        ):
            for order in orders:
                known = self._tables[order.selection.table]
                chunks: list[Chunk] | Refusal = sink.chunks(self._feed, order.span.id)
                if not chunks:
                    edges = plan_edges(
                        connection,
                        known.table,
                        known.size,
                        chunk_rows=chunk_rows,
                        slots=self._spark.slots,
                    )
                    chunks = sink.plan_chunks(self._feed, order.span.id, order.token, edges)
                if isinstance(chunks, Refusal):
                    self._refusals[order.span.id] = chunks
                else:
                    self._take(order, known, chunks)

    def _take(self, order: CopyOrder, known: Surveyed, chunks: list[Chunk]) -> None:
        span = order.span.id
        left = [chunk for chunk in chunks if not chunk.done]
        if left and len(left) < len(chunks) and not known.table.key:
            try:
                begin_anew(self._target, self._feed, span, order.token, known.table)
            except Refused as refused:
                self._refusals[span] = refused.refusal
                return
            left = [msgspec.structs.replace(c, done=False, rows=0, bytes=0) for c in chunks]
        self._orders[span] = order
        self._chunks[span] = chunks
        for chunk in left:
            part = CopyPart(span, order.token, known.table, chunk, order.run)
            self.left[span, chunk.no] = part

    def oids(self) -> list[int]:
        """Everything that will be read."""
        tables = {part.table.source for part in self.left.values()}
        return [oid for table in tables for oid in self._tables[table].parts]

    def estimates(self) -> dict[SpanId, tuple[int, int]]:
        """For each span, its chunks and about how many rows they have together."""
        return {
            span: (len(chunks), self._rows(self._orders[span]))
            for span, chunks in self._chunks.items()
            if chunks
        }

    def _rows(self, order: CopyOrder) -> int:
        return self._tables[order.selection.table].size.rows

    # --- running ----------------------------------------------------------------------------------

    def copy(self, held: Held) -> None:
        """Run what is left, and what failed of it again if that may help."""
        for (span, number), part in list(self.left.items()):
            parts = self._tables[part.table.source].parts
            storage = tuple((oid, held.storage[oid]) for oid in parts if oid in held.storage)
            table = msgspec.structs.replace(part.table, storage=storage)
            self.left[span, number] = msgspec.structs.replace(part, table=table)
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_PAUSE_S * 2**attempt)
            self._errors.clear()
            self._job(held)
            errors = self._errors.values()
            if any(error.code == TableRewritten.code for error in errors):
                break  # only a new snapshot helps
            if not any(error.retryable for error in errors):
                break

    def _job(self, held: Held) -> None:
        parts = [part for part in self.left.values() if part.span not in self._refusals]
        items = [
            msgspec.msgpack.encode(
                CopyItem(
                    self._feed,
                    self._source.to_wire(),
                    self._target.to_wire(),
                    held.id,
                    held.text,
                    tuple(some),
                )
            )
            for some in _packed(parts, self._weight, self._spark.slots)
        ]
        for receipts in run_tasks(self._spark, "copy", items, self._tag, tasks=len(items)):
            for receipt in _RECEIPTS.decode(receipts):
                self._note(receipt)

    def _note(self, receipt: CopyReceipt) -> None:
        if receipt.landed:
            del self.left[receipt.span, receipt.chunk]
        elif receipt.refusal is not None:
            self._refusals[receipt.span] = receipt.refusal
        elif receipt.error is not None:
            known = self._errors.get(receipt.span)
            # An error that somebody has to act on says more than one that may pass.
            if known is None or known.retryable:
                self._errors[receipt.span] = receipt.error

    def _weight(self, part: CopyPart) -> float:
        rows = self._tables[part.table.source].size.rows
        return _PART_COST_ROWS + rows / len(self._chunks[part.span])

    # --- at the end -------------------------------------------------------------------------------

    def outcomes(self, orders: Iterable[CopyOrder], settled: Position) -> list[CopyOutcome]:
        """What the sink says now, for it alone knows."""
        with PostgresSink(self._target) as sink:
            return [self._outcome(sink, order, settled) for order in orders]

    def _outcome(self, sink: PostgresSink, order: CopyOrder, settled: Position) -> CopyOutcome:
        span = order.span.id
        refusal, error = self._refusals.get(span), self._errors.get(span)
        chunks = sink.chunks(self._feed, span)
        landed = [chunk for chunk in chunks if chunk.done]
        return CopyOutcome(
            span,
            order.token,
            tuple(dict.fromkeys(chunk.snapshot for chunk in landed if chunk.snapshot)),
            settled,
            sum(chunk.rows for chunk in landed),
            sum(chunk.bytes for chunk in landed),
            refusal,
            None if refusal else error,
        )


def _packed(
    parts: Sequence[CopyPart], weight: Callable[[CopyPart], float], slots: int
) -> list[list[CopyPart]]:
    """Heavy parts by themselves and first; light ones together, so that each task is worth it."""
    ordered = sorted(parts, key=weight, reverse=True)
    total = sum(map(weight, ordered))
    enough = min(CHUNK_ROWS / 2, total / (4 * slots))
    packs: list[list[CopyPart]] = []
    load = enough
    for part in ordered:
        if load + weight(part) > enough:
            packs.append([])
            load = 0.0
        packs[-1].append(part)
        load += weight(part)
    return packs
