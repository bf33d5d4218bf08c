"""A source and a target with a feed between them, to copy tables while they change.

The stream is a real slot of the source, made before anything is copied; `catch_up` applies all that
it holds, as the feed would, leaving out what the copy's snapshots have seen.
"""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql

from lockgate.endpoints.postgres.copy.locate import chunk_finder
from lockgate.endpoints.postgres.copy.survey import CopyOrder, key_columns
from lockgate.endpoints.postgres.schema.compose import TablePlan
from lockgate.endpoints.postgres.schema.create import create
from lockgate.endpoints.postgres.schema.definitions import TableDefinition
from lockgate.endpoints.postgres.schema.discover import describe, tables
from lockgate.endpoints.postgres.schema.identifiers import identifier
from lockgate.endpoints.postgres.sink.apply import apply
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.apply import ApplyItem
from lockgate.model.floors import Floors
from lockgate.model.ids import Token
from lockgate.model.selection import TableSelection
from lockgate.model.spans import TRIGGER_SPEC, Birth, SpanSpec
from lockgate.model.tables import TableName
from lockgate.pipeline.copy import CopyOutcome
from tests.support.streams import Stream, stream_of

TOKEN = Token(1, 1, 1)

_NUMBERS = itertools.count(1)


class Scene:
    """All tables of the source that are there when it begins, one span each."""

    def __init__(self, stream: Stream, source: str, target: str) -> None:
        self.stream = stream
        self.source = PostgresUrl.parse(source)
        self.target = PostgresUrl.parse(target)
        self.feed = f"copy{next(_NUMBERS)}"
        self.sink = PostgresSink(self.target)
        self.there = psycopg.connect(target, autocommit=True)
        self.here = stream.connection
        self.definitions: dict[TableName, TableDefinition] = {}
        self.floors: dict[TableName, Floors] = {}

    def close(self) -> None:
        self.sink.disconnect()
        self.there.close()

    def begin(self, *, token: Token = TOKEN) -> None:
        """The same tables at the target, a slot, and the feed's rows."""
        names = [name for name in tables(self.here) if name.schema != "lockgate"]
        self.definitions = describe(self.here, names)
        create(self.there, [TablePlan(each, each.table) for each in self.definitions.values()])
        self.stream.execute("ALTER PUBLICATION pub SET (publish_via_partition_root = true)")
        self.stream.slot()
        self.sink.prepare()
        spans = tuple(self.span(name) for name in names)
        born = self.sink.claim(self.feed, TRIGGER_SPEC, token, None, Birth(0, spans))
        assert isinstance(born, tuple), born
        self.claim(token)

    def claim(self, token: Token) -> None:
        """Own all spans under the token."""
        for name in self.definitions:
            found = self.sink.claim(self.feed, self.span(name), token, None, None)
            assert isinstance(found, tuple), found
            self.floors[name] = found

    @staticmethod
    def span(name: TableName) -> SpanSpec:
        return SpanSpec(f"s-{name.name}", name.id)

    def orders(self, token: Token = TOKEN, **more: Any) -> list[CopyOrder]:
        """To copy every table; `more` goes to all selections."""
        return [
            CopyOrder(
                self.span(name),
                token,
                TableSelection(
                    name, name, tuple(column.name for column in each.shape().columns), **more
                ),
            )
            for name, each in self.definitions.items()
        ]

    def catch_up(self, outcomes: Sequence[CopyOutcome], token: Token = TOKEN) -> None:
        """Apply everything that the slot holds."""
        decoded = self.stream.decoded()
        if decoded.commit is None:
            return
        to = decoded.commit.end_lsn - 1
        by_span = {outcome.span: outcome for outcome in outcomes}
        for name, definition in self.definitions.items():
            batches = [rows for shape, rows in decoded.batches if shape.table == name]
            if not batches:
                continue
            changes = pa.Table.from_batches(batches)
            span = self.span(name)
            shape = next(shape for shape, _ in decoded.batches if shape.table == name)
            outcome = by_span[span.id]
            finder = None
            if len(outcome.snapshots) > 1:
                finder = chunk_finder(
                    self.source,
                    self.feed,
                    key_columns(definition),
                    shape.key,
                    self.sink.chunks(self.feed, span.id),
                    outcome.snapshots,
                )
            receipt = apply(
                ApplyItem(
                    self.feed,
                    span,
                    token,
                    self.floors[name],
                    to,
                    name,
                    shape,
                    ("all",),
                    snapshots=outcome.snapshots,
                ),
                self.target,
                read=lambda *_, changes=changes: changes,
                chunk_of=finder,
            )
            assert receipt.applied, receipt
            # A change of a row that is not there would mean that the copy and the stream overlap
            # or leave a gap.
            assert receipt.missing == 0, receipt

    def assert_equal(self) -> None:
        """Every row of every table is at the target, and no other."""
        for name in self.definitions:
            query = sql.SQL("SELECT whole_row::text FROM {} AS whole_row").format(identifier(name))
            here = sorted(row[0] for row in self.here.execute(query))
            there = sorted(row[0] for row in self.there.execute(query))
            assert len(here) == len(there), f"{name}: {len(here)} rows, {len(there)} at the target"
            assert here == there, name


@contextmanager
def scene_of(source: str, target: str, *ddl: str) -> Iterator[Scene]:
    """A scene with these tables, not begun: rows may be put into them first."""
    with stream_of(source) as stream:
        for statement in ddl:
            stream.execute(statement)
        scene = Scene(stream, source, target)
        yield scene
        scene.close()
