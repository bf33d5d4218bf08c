"""The part of a feed's change log that somebody here still needs, kept in memory.

A round asks for the same segments again and again until they are applied; only what is new is
read from the metastore.
"""

import bisect
from collections.abc import Iterable

from lockgate.model.ddl import Ddl
from lockgate.model.ids import Millis, TableId
from lockgate.model.positions import Position
from lockgate.store.changelog import Segment


class LogTail:
    """Segments and schema changes after some position, up to `resolved`."""

    def __init__(self, after: Position) -> None:
        self.after = after
        """What is at or before this was let go."""
        self.resolved = after
        self._segments: dict[TableId, list[Segment]] = {}
        self._ddls: list[Ddl] = []

    def extend(self, resolved: Position, segments: Iterable[Segment], ddls: Iterable[Ddl]) -> None:
        """What was read after the former `resolved`, in the log's order."""
        if resolved <= self.resolved:
            return
        for segment in segments:
            self._segments.setdefault(segment.table, []).append(segment)
        self._ddls.extend(ddls)
        self.resolved = resolved

    def let_go(self, upto: Position) -> None:
        """Nobody here needs what lies at or before `upto`."""
        if upto <= self.after:
            return
        self.after = upto
        for table, segments in list(self._segments.items()):
            kept = [segment for segment in segments if segment.high > upto]
            if kept:
                self._segments[table] = kept
            else:
                del self._segments[table]
        self._ddls = self._ddls[self._first_ddl(upto) :]

    def next_ddl(self, table: TableId | None, after: Position) -> Ddl | None:
        """The first schema change after a position that concerns a table, or any table."""
        for ddl in self._ddls[self._first_ddl(after) :]:
            if table is None or ddl.concerns(table):
                return ddl
        return None

    def segments(self, table: TableId, after: Position, upto: Position) -> list[Segment]:
        """All that hold changes in (after, upto]."""
        return [
            segment
            for segment in self._segments.get(table, ())
            if segment.high > after and segment.low <= upto
        ]

    def oldest_ms(self, after: Position) -> Millis | None:
        """When the oldest segment after a position came into the log."""
        return min(
            (
                segment.written_at
                for segments in list(self._segments.values())
                for segment in segments
                if segment.high > after
            ),
            default=None,
        )

    def cut(self, table: TableId, after: Position, upto: Position, rows_max: int) -> Position:
        """The furthest position ≤ `upto` that keeps a batch near `rows_max` rows.

        A transaction is not cut: all segments that share a position are taken together.
        """
        rows, reached = 0, after
        for segment in self.segments(table, after, upto):
            if rows and rows + segment.rows > rows_max:
                return max(after + 1, min(upto, reached))
            rows += segment.rows
            reached = segment.high
        return upto

    def _first_ddl(self, after: Position) -> int:
        return bisect.bisect_right(self._ddls, after, key=lambda ddl: ddl.position)
