"""A source whose tables are copied into a lake, and a record of the chunks in a file.

The record stands for the sink's: a file, so that it outlives a process that is killed.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pyarrow as pa
from psycopg import sql

from lockgate.endpoints.delta.files import DataFile, read_file
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.types import from_lake, lake_schema
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.pgoutput.relations import TablePlan
from lockgate.endpoints.postgres.schema.discover import describe, tables
from lockgate.endpoints.postgres.schema.identifiers import identifier
from lockgate.endpoints.postgres.sink.chunks import Chunk, Edge
from lockgate.endpoints.postgres.types import to_text
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import LockgateError
from lockgate.model.floors import Refusal
from lockgate.model.ids import SpanId, Token
from lockgate.model.selection import TableSelection
from lockgate.model.spans import SpanSpec
from lockgate.model.tables import TableName, TableShape
from lockgate.model.value import Value
from lockgate.pipeline.lake_copy import CopyOutcome, LakeCopyOrder, copy_to_lake
from lockgate.pipeline.session import Spark
from tests.support.lakes import DISPATCHER, LEADER

TOKEN = Token(1, 1, 1)


class _Row(Value, frozen=True):
    chunk: Chunk
    files: tuple[DataFile, ...] = ()


class Record:
    """The chunks of all spans, in a file that is exchanged as a whole."""

    def __init__(self, path: Path, owner: Token = TOKEN) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.owner = owner
        self.calls: list[tuple[SpanId, int]] = []
        """Which chunks landed, through this object."""

    def rows(self) -> dict[SpanId, list[_Row]]:
        if not self._path.exists():
            return {}
        return msgspec.json.decode(self._path.read_bytes(), type=dict[SpanId, list[_Row]])

    def files(self, span: SpanId) -> list[DataFile]:
        return [file for row in self.rows()[span] for file in row.files]

    def done(self) -> int:
        return sum(row.chunk.done for rows in self.rows().values() for row in rows)

    def chunks(self, span: SpanId) -> list[Chunk]:
        return [row.chunk for row in self.rows().get(span, [])]

    def plan_chunks(
        self, span: SpanId, token: Token, edges: Sequence[tuple[Edge, Edge]]
    ) -> list[Chunk] | Refusal:
        if token != self.owner:
            return Refusal.NEWER
        with self._lock:
            rows = self.rows()
            if not rows.get(span):
                rows[span] = [_Row(Chunk(no, *edge)) for no, edge in enumerate(edges)]
                self._write(rows)
        return self.chunks(span)

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
        if token != self.owner:
            return Refusal.NEWER
        with self._lock:
            known = self.rows()
            chunk = known[span][chunk_no].chunk
            done = msgspec.structs.replace(
                chunk, done=True, rows=rows, bytes=bytes_, snapshot=snapshot
            )
            known[span][chunk_no] = _Row(done, files)
            self._write(known)
            self.calls.append((span, chunk_no))
        return None

    def _write(self, rows: dict[SpanId, list[_Row]]) -> None:
        part = self._path.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(rows))
        part.rename(self._path)


class LakeScene:
    """All tables of a source, and a lake with a table for each that can be there."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = PostgresUrl.parse(url)
        self.here = connect(self.url, purpose="test", autocommit=True)
        self.lake_url = f"delta:{folder}/lake"
        self.lake = Lake(Place(str(folder / "lake"), "lake"))
        self.record = Record(folder / "chunks.json")
        self.shapes: dict[TableName, TableShape] = {}
        self.selections: dict[TableName, TableSelection] = {}

    def begin(self, **more: Any) -> None:
        """Make the tables; `more` goes to all selections."""
        for name, each in describe(self.here, tables(self.here)).items():
            left_out = more.get("left_out", frozenset())
            shape = each.shape(left_out)
            columns = tuple(column.name for column in shape.columns)
            selection = TableSelection(name, name, columns, **more)
            self.selections[name] = selection
            self.shapes[name] = TablePlan(shape, selection.masks).travelling
            try:
                schema = lake_schema(self.shapes[name])
            except LockgateError:
                continue
            key = list(shape.key)
            LayeredTable.create(self.place(name), "h", schema, key, LEADER, DISPATCHER)

    def place(self, name: TableName) -> Place:
        return self.lake.place(name.id, 1)

    @staticmethod
    def span(name: TableName) -> SpanId:
        return f"s-{name.name}"

    def orders(self, token: Token = TOKEN) -> list[LakeCopyOrder]:
        return [
            LakeCopyOrder(
                SpanSpec(self.span(name), name.id), token, selection, place=self.place(name)
            )
            for name, selection in self.selections.items()
        ]

    def copy(self, spark: Spark, token: Token = TOKEN, **more: Any) -> list[CopyOutcome]:
        options = {"chunk_rows": 200} | more
        return copy_to_lake(
            spark, "feed", self.url, self.orders(token), self.record, "copy", **options
        )

    def table(self, name: TableName) -> LayeredTable:
        """With all that is recorded committed."""
        table = LayeredTable.open(self.place(name), "h")
        table.land_copy(LEADER, self.record.files(self.span(name)), 1, 1)
        return table

    def rows(self, name: TableName) -> list[tuple[str | None, ...]]:
        """The rows of all recorded files, as the texts that PostgreSQL would write."""
        stable = self.place(name).child("stable")
        schema = lake_schema(self.shapes[name])
        parts = [read_file(stable, file.path) for file in self.record.files(self.span(name))]
        return as_texts(pa.concat_tables([schema.empty_table(), *parts]), self.shapes[name])

    def assert_equal(self, name: TableName) -> None:
        """The recorded files have the rows of the source, as the server itself writes them."""
        self.assert_same(name, self.rows(name))

    def assert_same(self, name: TableName, rows: list[tuple[str | None, ...]]) -> None:
        """These texts are the rows of the source, for the server reads them as that."""
        names = [sql.Identifier(column.name) for column in self.shapes[name].columns]
        columns = sql.SQL(", ").join(names)
        back, table = sql.Identifier(f"back of {name.name}"), identifier(name)
        with self.here.cursor() as cursor:
            cursor.execute(
                sql.SQL("CREATE TEMP TABLE {} AS SELECT {} FROM {} WITH NO DATA").format(
                    back, columns, table
                )
            )
            with cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(back, columns)) as copy:
                for row in rows:
                    copy.write_row(row)
        found = self._printed(columns, back)
        self.here.execute(sql.SQL("DROP TABLE {}").format(back))
        assert found == self._printed(columns, table), name

    def _printed(self, columns: sql.Composed, table: sql.Composable) -> list[bytes]:
        query = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT").format(columns, table)
        with self.here.cursor().copy(query) as copy:
            return sorted(map(bytes, copy))


def as_texts(rows: pa.Table, shape: TableShape) -> list[tuple[str | None, ...]]:
    """Rows of a lake as PostgreSQL would write them, in one order."""
    columns = []
    for column in shape.columns:
        values = from_lake(rows[column.name], column)
        columns.append([text for part in values.chunks for text in to_text(part).to_pylist()])
    return sorted(zip(*columns, strict=True), key=str)


@contextmanager
def lake_scene(url: str, folder: Path, *ddl: str) -> Iterator[LakeScene]:
    """With these tables, not begun: rows may be put into them first."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in ddl:
            connection.execute(statement.encode())
    scene = LakeScene(url, folder)
    with scene.here:
        yield scene
