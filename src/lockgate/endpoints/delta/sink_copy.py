"""The first copy of a feed's tables into a lake: chunks recorded, then one commit with all of them.

begin_run ──► plan ──► chunk_landed, each with the files it wrote, which no table names
          ──► land: one commit of the stable table names them all; then the row says it is over.
              A chunk whose files are not there any more is to be copied once more
"""

from collections.abc import Callable, Sequence, Set

from msgspec import structs

from lockgate.endpoints.delta import rows as on
from lockgate.endpoints.delta.feed_document import FeedDocument
from lockgate.endpoints.delta.fenced import TableDead
from lockgate.endpoints.delta.files import DataFile, not_there
from lockgate.endpoints.delta.rows import ChunkRow, Edge, Refused, SpanRow
from lockgate.endpoints.delta.sink_tables import LakeTable, SinkTables
from lockgate.model.errors import DidNotLand, StaleOwner, Transient
from lockgate.model.floors import Refusal
from lockgate.model.ids import SpanId, Token
from lockgate.model.positions import Position

__all__ = ["NoLeader", "SinkCopies"]


class NoLeader(Transient):
    """The rows of a new table are the leader's to bring."""

    code = "lake-has-no-leader"

    def __init__(self, lake: str) -> None:
        super().__init__(
            "this installation does not lead the lake, and only a leader brings rows",
            object_=lake,
            hint="wait until the leader has drained the table, or `lockgate lake step-up`",
            operation="copy",
        )


class SinkCopies:
    """The copies of one feed's tables."""

    def __init__(
        self,
        rows: FeedDocument,
        tables: SinkTables,
        leader: Callable[[], Token | None],
        label: str,
    ) -> None:
        """`leader` is the token to lead the lake with, while this home leads."""
        self._rows = rows
        self._tables = tables
        self._leader = leader
        self._label = label

    def begin_run(self, span: SpanId, token: Token) -> int | Refusal:
        """The number of a new run: what an earlier one still writes, no table will name."""

        def more(row: SpanRow) -> SpanRow:
            return structs.replace(row, copy_run=row.copy_run + 1)

        return self._rows.ask(lambda: self._rows.change_row(span, token, more).copy_run)

    def plan(
        self, span: SpanId, token: Token, edges: Sequence[tuple[Edge, Edge]]
    ) -> tuple[ChunkRow, ...] | Refusal:
        """Record the chunks of a copy, or answer those that are recorded."""

        def plan(row: SpanRow) -> SpanRow:
            if row.chunks or row.copied:
                return row
            chunks = tuple(ChunkRow(no, low, high) for no, (low, high) in enumerate(edges))
            return structs.replace(row, chunks=chunks)

        return self._rows.ask(lambda: self._rows.change_row(span, token, plan).chunks)

    def chunk_landed(
        self,
        span: SpanId,
        token: Token,
        no: int,
        files: tuple[DataFile, ...],
        rows: int,
        bytes_: int,
        snapshot: str,
    ) -> Refusal | None:
        """Record what a chunk has written, and under which snapshot it was read."""

        def done(chunk: ChunkRow) -> ChunkRow:
            if chunk.no != no:
                return chunk
            return ChunkRow(no, chunk.low, chunk.high, files, rows, bytes_, snapshot, done=True)

        def note(row: SpanRow) -> SpanRow:
            return structs.replace(row, chunks=tuple(map(done, row.chunks)))

        answer = self._rows.ask(lambda: self._rows.change_row(span, token, note))
        return answer if isinstance(answer, Refusal) else None

    def land(self, span: SpanId, token: Token, settled: Position) -> Refusal | None:
        """All chunks are there: let the table have their rows, and the row say that it is over."""

        def work() -> None:
            row = on.mine(self._rows.read(), span, token)
            if row.copied:
                return
            if not row.chunks or not all(chunk.done for chunk in row.chunks):
                raise Refused(Refusal.BEHIND)
            leader = self._leader()
            if leader is None:
                raise NoLeader(self._label)
            table = self._tables.open(row)
            files = [file for chunk in row.chunks for file in chunk.files]
            snapshots = list(dict.fromkeys(c.snapshot for c in row.chunks if c.snapshot))
            try:
                table.stable.claim(leader)
                table.land_copy(leader, files, _begins(row), settled, snapshots)
            except TableDead:
                raise
            except StaleOwner as error:  # of the lake, not of the span
                raise NoLeader(self._label) from error
            except DidNotLand:
                lost = {file.path for file in not_there(table.stable.place, files)}
                if lost:  # the chunks are recorded as done, and would be taken for it again
                    self._rows.change_row(span, token, lambda row: _without(row, lost))
                raise
            self._tables.end(row.spec.table, row.incarnation)
            self._rows.change_row(span, token, _copied)

        return self._rows.ask(work)

    def joined(self, span: SpanId, token: Token, low: Position) -> Refusal | None:
        """Have the rows that the lake's leader brings, when they are as far as the span is."""

        def work() -> None:
            row = on.mine(self._rows.read(), span, token)
            if not self._tables.has_rows(row, low):
                raise NoLeader(self._label)
            self._rows.change_row(span, token, _copied)

        return self._rows.ask(work)

    def taken(self, span: SpanId, token: Token) -> bool | Refusal:
        """Whether the table has rows that this home did not bring, and is not as far as it is: it
        was another home's, and nobody closes the gap now. Then it is to be renewed, not copied."""

        def work() -> bool:
            row = on.mine(self._rows.read(), span, token)
            if row.copied:
                return False
            marks = self._tables.stable(row).look()
            # All chunks of ours are there: `land` takes up what is as far as they are.
            ours = bool(row.chunks) and all(chunk.done for chunk in row.chunks)
            return marks.settled > 0 and not (ours and marks.position >= _begins(row))

        return self._rows.ask(work)

    def over(self, span: SpanId, token: Token) -> Refusal | None:
        """There is nothing to copy."""
        answer = self._rows.ask(lambda: self._rows.change_row(span, token, _copied))
        return answer if isinstance(answer, Refusal) else None

    def renew(
        self, span: SpanId, token: Token, position: Position, as_: LakeTable
    ) -> Refusal | None:
        """Begin the table anew, in an incarnation of its own, to be copied once more. Readers have
        the old one until the new one has rows. NoLeader where nobody could bring them.

        Of the old one nothing is asked: it may be lost or damaged, and that is why."""

        def work() -> None:
            # A claim may not have come so far as to take the row, or have failed behind it.
            self._rows.change(lambda rows: on.claimed(rows, span, token))
            if self._leader() is None:
                raise NoLeader(self._label)
            self._tables.make(as_, position).ingest.claim(token)
            ingest = self._tables.ingest
            self._rows.change_row(span, token, lambda row: on.anew(row, position, ingest))

        return self._rows.ask(work)


def _begins(row: SpanRow) -> Position:
    """As of where its copy lands. A table that was begun anew is at its birth: the row may not have
    come so far."""
    return max(row.position, row.incarnation)


def _without(row: SpanRow, lost: Set[str]) -> SpanRow:
    """Have the chunks copied once more that brought these files."""

    def without(chunk: ChunkRow) -> ChunkRow:
        if lost.isdisjoint(file.path for file in chunk.files):
            return chunk
        return ChunkRow(chunk.no, chunk.low, chunk.high)

    return structs.replace(row, chunks=tuple(map(without, row.chunks)))


def _copied(row: SpanRow) -> SpanRow:
    return structs.replace(row, copied=True, chunks=())
