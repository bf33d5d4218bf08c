"""What every first copy does, wherever it goes: plan, record, one snapshot, run, try again.

    survey ─► plan, recorded at the sink ─► one snapshot ─► a task per chunk ─► outcomes
                      ▲                                          │ something failed
                      └── the next run: what is left, under a new snapshot

What has landed is recorded at the sink, so nothing here has to survive: whoever comes next reads
what is left. How the rows get there, and what it takes to land, is for the kinds of copies.

A part that failed for a reason that may pass is tried again under the same snapshot, a few times:
one snapshot for a whole table keeps the questions of the stream simple.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol

import msgspec

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.copy.items import CopyPart
from lockgate.endpoints.postgres.copy.plan import CHUNK_ROWS, plan_edges
from lockgate.endpoints.postgres.copy.snapshot import Held, TableRewritten, held_snapshot, log_end
from lockgate.endpoints.postgres.copy.survey import CopyOrder, Surveyed
from lockgate.endpoints.postgres.sink.chunks import Chunk, Edge
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.apply import ApplyError
from lockgate.model.floors import Refusal
from lockgate.model.ids import FeedId, SpanId, Token
from lockgate.model.positions import Position
from lockgate.model.tables import TableName
from lockgate.model.value import Value
from lockgate.pipeline.session import Spark

__all__ = ["CopyOutcome", "CopyRun", "Ledger"]

_ATTEMPTS: Final = 3
_PAUSE_S: Final = 0.5
_PART_COST_ROWS: Final = 2_000
"""What a chunk costs before its first row, in rows."""


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


class Ledger(Protocol):
    """The chunks of the feed's spans, where the sink keeps them."""

    def chunks(self, span: SpanId) -> list[Chunk]:
        """All that are recorded of a span."""

    def plan_chunks(
        self, span: SpanId, token: Token, edges: Sequence[tuple[Edge, Edge]]
    ) -> list[Chunk] | Refusal:
        """Record them before any is copied; if some are there already, those stay."""


class CopyRun(ABC):
    """One run: the spans that take part in it, and what is left to do."""

    def __init__(
        self,
        spark: Spark,
        feed: FeedId,
        source: PostgresUrl,
        tables: Mapping[TableName, Surveyed],
        tag: str,
    ) -> None:
        self.spark = spark
        self.feed = feed
        self.source = source
        self.tag = tag
        self.tables = tables
        self.chunks: dict[SpanId, list[Chunk]] = {}
        self.orders: dict[SpanId, CopyOrder] = {}
        self._refusals: dict[SpanId, Refusal] = {}
        self._errors: dict[SpanId, ApplyError] = {}
        self.left: dict[tuple[SpanId, int], CopyPart] = {}

    def copy(
        self,
        opened: Callable[[], AbstractContextManager[Ledger]],
        orders: Sequence[CopyOrder],
        *,
        chunk_rows: int,
        check: Callable[[], None],
        progress: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> list[CopyOutcome]:
        """Copy what is not copied yet of all these spans. Raises what concerns all of them.

        The ledger is opened for the plan and again at the end: hours may lie between. `progress`
        is entered while it is copied.
        """
        with opened() as ledger:
            self._plan(ledger, orders, chunk_rows)
        if self.left:
            tables = {part.table.source for part in self.left.values()}
            oids = [oid for table in tables for oid in self.tables[table].parts]
            with held_snapshot(self.source, self.feed, oids) as held, progress():
                check()
                self._copy(held)
            settled = held.settled
        else:
            settled = log_end(self.source, self.feed)
        with opened() as ledger:
            return [self._outcome(ledger, order, settled) for order in orders]

    # --- planning ---------------------------------------------------------------------------------

    def _plan(self, ledger: Ledger, orders: Iterable[CopyOrder], chunk_rows: int) -> None:
        """Have the chunks of every span recorded, and find out which are left."""
        with connect(self.source, purpose=f"{self.feed} plan", autocommit=True) as connection:
            for order in orders:
                known = self.tables[order.selection.table]
                chunks: list[Chunk] | Refusal = ledger.chunks(order.span.id)
                if not chunks:
                    edges = plan_edges(
                        connection,
                        known.table,
                        known.size,
                        chunk_rows=chunk_rows,
                        slots=self.spark.slots,
                    )
                    chunks = ledger.plan_chunks(order.span.id, order.token, edges)
                if not isinstance(chunks, Refusal):
                    chunks = self.taken_up(order, known, chunks)
                if isinstance(chunks, Refusal):
                    self._refusals[order.span.id] = chunks
                else:
                    self._take(order, known, chunks)

    def taken_up(
        self, order: CopyOrder, known: Surveyed, chunks: list[Chunk]
    ) -> list[Chunk] | Refusal:
        """The chunks as they are to be copied, some of which may have landed before."""
        del order, known
        return chunks

    def _take(self, order: CopyOrder, known: Surveyed, chunks: list[Chunk]) -> None:
        span = order.span.id
        self.orders[span] = order
        self.chunks[span] = chunks
        for chunk in chunks:
            if not chunk.done:
                part = CopyPart(span, order.token, known.table, chunk, order.run)
                self.left[span, chunk.no] = part

    def estimates(self) -> dict[SpanId, tuple[int, int]]:
        """For each span, its chunks and about how many rows they have together."""
        return {
            span: (len(chunks), self.tables[self.orders[span].selection.table].size.rows)
            for span, chunks in self.chunks.items()
            if chunks
        }

    def share(self, part: CopyPart) -> tuple[float, float]:
        """About how many rows and bytes a part has."""
        size, parts = self.tables[part.table.source].size, len(self.chunks[part.span])
        return size.rows / parts, size.bytes / parts

    # --- running ----------------------------------------------------------------------------------

    def _copy(self, held: Held) -> None:
        """Run what is left, and what failed of it again if that may help."""
        for (span, number), part in list(self.left.items()):
            oids = self.tables[part.table.source].parts
            storage = tuple((oid, held.storage[oid]) for oid in oids if oid in held.storage)
            table = msgspec.structs.replace(part.table, storage=storage)
            self.left[span, number] = msgspec.structs.replace(part, table=table)
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_PAUSE_S * 2**attempt)
            self._errors.clear()
            self.run(held, _packed(self._parts(), self._weight, self.spark.slots))
            errors = self._errors.values()
            if any(error.code == TableRewritten.code for error in errors):
                break  # only a new snapshot helps
            if not any(error.retryable for error in errors):
                break

    @abstractmethod
    def run(self, held: Held, packs: Sequence[Sequence[CopyPart]]) -> None:
        """Copy the parts, a task for each pack, and `note` what came of each."""

    def note(
        self, span: SpanId, chunk: int, refusal: Refusal | None, error: ApplyError | None
    ) -> None:
        """What came of a part: with neither, it has landed."""
        if refusal is not None:
            self._refusals[span] = refusal
        elif error is not None:
            known = self._errors.get(span)
            # An error that somebody has to act on says more than one that may pass.
            if known is None or known.retryable:
                self._errors[span] = error
        else:
            del self.left[span, chunk]

    def _parts(self) -> list[CopyPart]:
        """What is left and may land."""
        return [part for part in self.left.values() if part.span not in self._refusals]

    def _weight(self, part: CopyPart) -> float:
        return _PART_COST_ROWS + self.share(part)[0]

    # --- at the end -------------------------------------------------------------------------------

    def _outcome(self, ledger: Ledger, order: CopyOrder, settled: Position) -> CopyOutcome:
        """What the sink says now, for it alone knows."""
        span = order.span.id
        refusal, error = self._refusals.get(span), self._errors.get(span)
        landed = [chunk for chunk in ledger.chunks(span) if chunk.done]
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
