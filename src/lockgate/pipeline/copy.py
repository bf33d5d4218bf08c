"""The initial copy of many spans at once into a database; see `copy_run` for how it goes.

All chunks of all tables are in one job, the heaviest first, so that every slot is busy to the end;
small tables go together in one task. A chunk lands with its rows, in the task's own transaction.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from lockgate.endpoints.postgres.copy.anew import begin_anew
from lockgate.endpoints.postgres.copy.items import CopyItem, CopyPart, CopyReceipt
from lockgate.endpoints.postgres.copy.plan import CHUNK_ROWS
from lockgate.endpoints.postgres.copy.snapshot import Held
from lockgate.endpoints.postgres.copy.survey import CopyOrder, Surveyed, survey
from lockgate.endpoints.postgres.sink.chunks import Chunk, Edge
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.sink.rows import Refused
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.feed_status import CopyProgress
from lockgate.model.floors import Refusal
from lockgate.model.ids import FeedId, SpanId, Token
from lockgate.model.tables import TableName
from lockgate.pipeline.copy_run import CopyOutcome, CopyRun
from lockgate.pipeline.jobs import run_tasks
from lockgate.pipeline.progress import Progress
from lockgate.pipeline.session import Spark

__all__ = ["CopyOrder", "CopyOutcome", "copy_spans"]

_RECEIPTS: Final = msgspec.msgpack.Decoder(list[CopyReceipt])


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
    tables = survey(source, target, feed, orders)
    run = _Run(spark, feed, source, tables, tag, target)
    return run.copy(
        lambda: _ledger(target, feed),
        orders,
        chunk_rows=chunk_rows,
        check=check,
        progress=lambda: Progress(target, feed, run.estimates(), report),
    )


class _Run(CopyRun):
    """Into a database."""

    def __init__(
        self,
        spark: Spark,
        feed: FeedId,
        source: PostgresUrl,
        tables: Mapping[TableName, Surveyed],
        tag: str,
        target: PostgresUrl,
    ) -> None:
        super().__init__(spark, feed, source, tables, tag)
        self._target = target

    def taken_up(
        self, order: CopyOrder, known: Surveyed, chunks: list[Chunk]
    ) -> list[Chunk] | Refusal:
        """Of a table without a key, the rest cannot be of another snapshot than what is there."""
        if known.table.key or len({chunk.done for chunk in chunks}) < 2:
            return chunks
        try:
            begin_anew(self._target, self.feed, order.span.id, order.token, known.table)
        except Refused as refused:
            return refused.refusal
        return [msgspec.structs.replace(c, done=False, rows=0, bytes=0) for c in chunks]

    def run(self, held: Held, packs: Sequence[Sequence[CopyPart]]) -> None:
        ends = self.source.to_wire(), self._target.to_wire()
        items = [
            msgspec.msgpack.encode(CopyItem(self.feed, *ends, held.id, held.text, tuple(parts)))
            for parts in packs
        ]
        for receipts in run_tasks(self.spark, "copy", items, self.tag, tasks=len(items)):
            for receipt in _RECEIPTS.decode(receipts):
                self.note(receipt.span, receipt.chunk, receipt.refusal, receipt.error)


class _SinkLedger:
    """The chunks in the target's own tables."""

    def __init__(self, sink: PostgresSink, feed: FeedId) -> None:
        self._sink = sink
        self._feed = feed

    def chunks(self, span: SpanId) -> list[Chunk]:
        return self._sink.chunks(self._feed, span)

    def plan_chunks(
        self, span: SpanId, token: Token, edges: Sequence[tuple[Edge, Edge]]
    ) -> list[Chunk] | Refusal:
        return self._sink.plan_chunks(self._feed, span, token, edges)


@contextmanager
def _ledger(target: PostgresUrl, feed: FeedId) -> Iterator[_SinkLedger]:
    with PostgresSink(target) as sink:
        yield _SinkLedger(sink, feed)
