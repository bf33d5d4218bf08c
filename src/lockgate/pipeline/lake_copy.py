"""The first copy of many tables at once into a lake; see `copy_run` for how it goes.

Tasks write files that nobody names; the driver has each receipt recorded as it comes. When all
chunks of a table are recorded, its sink lets the table have them in one commit: until then readers
see nothing of it. So a chunk that landed is not read again, whoever goes on, and a broken copy has
left no trace but files.

A table is one span in a lake, and needs a key.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final, Protocol

import msgspec
import pyarrow as pa

from lockgate.endpoints.delta.copy_task import (
    FILE_BYTES_MAX,
    FILE_ROWS_MAX,
    LakeCopyItem,
    LakeCopyPart,
    LakeCopyReceipt,
)
from lockgate.endpoints.delta.files import DataFile
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.types import lake_schema
from lockgate.endpoints.postgres.copy.items import CopyPart
from lockgate.endpoints.postgres.copy.plan import CHUNK_ROWS
from lockgate.endpoints.postgres.copy.snapshot import Held, TableRewritten
from lockgate.endpoints.postgres.copy.survey import CopyOrder, Surveyed, survey_source
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.apply import ApplyError
from lockgate.model.errors import LockgateError
from lockgate.model.feed_status import CopyProgress
from lockgate.model.floors import Refusal
from lockgate.model.ids import FeedId, SpanId, Token
from lockgate.model.tables import TableName
from lockgate.pipeline.copy_run import CopyOutcome, CopyRun, Ledger
from lockgate.pipeline.jobs import run_each
from lockgate.pipeline.progress import Landed
from lockgate.pipeline.session import Spark

__all__ = ["CopyOutcome", "LakeCopyOrder", "LakeLedger", "copy_to_lake"]

_RECEIPTS: Final = msgspec.msgpack.Decoder(list[LakeCopyReceipt])


class LakeCopyOrder(CopyOrder, frozen=True, kw_only=True):
    """A table whose rows are to be copied, and where it lies in the lake."""

    place: Place
    """Of its incarnation; the stable table is there."""
    rows: pa.Schema | None = None
    """The stable table's; None: what the source's columns make of it now (`lake_schema`)."""


class LakeLedger(Ledger, Protocol):
    """The chunks of the feed's spans, where the lake keeps them."""

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
        """Record what a chunk has written, and under which snapshot it was read."""


def copy_to_lake(
    spark: Spark,
    feed: FeedId,
    source: PostgresUrl,
    orders: Sequence[LakeCopyOrder],
    ledger: LakeLedger,
    tag: str,
    *,
    chunk_rows: int = CHUNK_ROWS,
    report: Callable[[CopyProgress], None] | None = None,
    check: Callable[[], None] = lambda: None,
) -> list[CopyOutcome]:
    """Copy what is not copied yet of all these tables. Raises what concerns all of them.

    An outcome without refusal and error says that all chunks are recorded: the sink may commit
    them. `check` is called when the snapshot is taken and nothing is copied yet: it may raise.
    """
    if not orders:
        return []
    tables = survey_source(source, feed, orders)
    schemas, unfit = _schemas(orders, tables)
    run = _Run(spark, feed, source, tables, tag, ledger, schemas, report)
    fit = [order for order in orders if order.span.id in schemas]
    outcomes = run.copy(
        lambda: nullcontext(ledger),
        fit,
        chunk_rows=chunk_rows,
        check=check,
        progress=run.reporting,
    )
    done = {outcome.span: outcome for outcome in outcomes}
    return [
        done.get(order.span.id)
        or CopyOutcome(order.span.id, order.token, error=unfit[order.span.id])
        for order in orders
    ]


def _schemas(
    orders: Sequence[LakeCopyOrder], tables: Mapping[TableName, Surveyed]
) -> tuple[dict[SpanId, bytes], dict[SpanId, ApplyError]]:
    """What each table's rows are in the lake, and why some cannot be there."""
    schemas: dict[SpanId, bytes] = {}
    unfit: dict[SpanId, ApplyError] = {}
    for order in orders:
        known = tables[order.selection.table]
        try:
            schema = lake_schema(known.shape)
            names = tuple(column.name for column in known.shape.columns)
            if order.rows is not None:
                schema = order.rows
            if names != known.table.columns or not set(names) <= set(schema.names):
                raise TableRewritten(
                    "the table has other columns than were planned for",
                    object_=str(known.table.source),
                    hint="it is copied when the feed has come to that change",
                    operation="copy",
                )
            schemas[order.span.id] = schema.serialize().to_pybytes()
        except LockgateError as error:
            unfit[order.span.id] = ApplyError.of(error)
    return schemas, unfit


class _Run(CopyRun):
    """Into a lake."""

    def __init__(
        self,
        spark: Spark,
        feed: FeedId,
        source: PostgresUrl,
        tables: Mapping[TableName, Surveyed],
        tag: str,
        ledger: LakeLedger,
        schemas: Mapping[SpanId, bytes],
        report: Callable[[CopyProgress], None] | None,
    ) -> None:
        super().__init__(spark, feed, source, tables, tag)
        self._ledger = ledger
        self._schemas = schemas
        self._report = report
        self._landed: Landed | None = None

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Say how far it is, and again with each chunk that lands."""
        if self._report is not None:
            self._landed = Landed(self.estimates(), self.chunks, self._report)
        yield

    def run(self, held: Held, packs: Sequence[Sequence[CopyPart]]) -> None:
        items = [
            msgspec.msgpack.encode(
                LakeCopyItem(
                    self.feed, self.source.to_wire(), held.id, tuple(map(self._lake, pack))
                )
            )
            for pack in packs
        ]

        def take(_: int, receipts: bytes) -> None:
            for receipt in _RECEIPTS.decode(receipts):
                self._take_receipt(receipt, held)

        run_each(self.spark, "lake-copy", items, self.tag, take)

    def _lake(self, part: CopyPart) -> LakeCopyPart:
        order = self.orders[part.span]
        assert isinstance(order, LakeCopyOrder)
        rows, size = self.share(part)
        return LakeCopyPart(
            part,
            order.place.to_wire(),
            self.tables[part.table.source].shape,
            self._schemas[part.span],
            ordered=rows > FILE_ROWS_MAX or size > FILE_BYTES_MAX,
        )

    def _take_receipt(self, receipt: LakeCopyReceipt, held: Held) -> None:
        refusal = None
        if receipt.error is None:
            part = self.left[receipt.span, receipt.chunk]
            refusal = self._ledger.landed(
                receipt.span,
                part.token,
                receipt.chunk,
                receipt.files,
                receipt.rows,
                receipt.bytes,
                held.text,
            )
        self.note(receipt.span, receipt.chunk, refusal, receipt.error)
        if self._landed is not None and refusal is None and receipt.error is None:
            self._landed.more(receipt.span, receipt.rows)
