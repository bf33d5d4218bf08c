"""Looks at the target all the time: what must hold at every moment, not only in the end.

Cover   the rows of a feed's table cover every key exactly once, in every snapshot
Fence   the token in a row never goes back: a former owner never takes anything back
        nor does the position: two owners that both advance would be seen here
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import psycopg

from soak.background import Background

__all__ = ["Row", "Watcher", "read_rows", "uncovered"]

_EVERY_S: Final = 0.05
_AGAIN_S: Final = 0.3
_ROWS: Final = """
SELECT feed, span, table_id, low, high, epoch, seq, incarnation, position FROM lockgate.progress
UNION ALL
SELECT feed, 'trigger', '', '', NULL, epoch, seq, incarnation, position FROM lockgate.feeds
"""


class Row(NamedTuple):
    """A span at the target."""

    feed: str
    span: str
    table: str
    low: bytes
    high: bytes | None
    token: tuple[int, int, int]
    position: int


def read_rows(connection: psycopg.Connection[Any]) -> list[Row]:
    """All of them, in one snapshot; none before the first feed is set up."""
    try:
        found = connection.execute(_ROWS).fetchall()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return []
    return [
        Row(feed, span, table, bytes(low), high and bytes(high), (epoch, seq, life), position or 0)
        for feed, span, table, low, high, epoch, seq, life, position in found
    ]


def uncovered(ranges: Iterable[tuple[bytes, bytes | None]]) -> str:
    """What is wrong with ranges that should cover every key exactly once; empty when nothing is."""
    at: bytes | None = b""
    for low, high in sorted(ranges, key=lambda one: one[0]):
        if at is None or low < at:
            return f"two cover {low.hex() or 'the first key'}"
        if low > at:
            return f"nobody covers {at.hex() or 'the first key'} up to {low.hex()}"
        at = high
    return "" if at is None else f"nobody covers {at.hex() or 'anything'} and what follows"


class Watcher(Background):
    """A thread that looks, and notes what it should not have seen."""

    def __init__(self, url: str) -> None:
        super().__init__("watcher", again_s=_AGAIN_S)
        self._url = url
        self._last: dict[tuple[str, str], Row] = {}
        self.violations: list[str] = []
        self.looks = 0

    def _work(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._stopped.wait(_EVERY_S):
                self.see(read_rows(connection))

    def _broke(self, bug: BaseException) -> None:
        self.violations.append(f"the watcher broke: {bug!r}")

    def see(self, rows: list[Row]) -> None:
        """Take in one snapshot, and note what is wrong with it."""
        self.looks += 1
        ranges: dict[tuple[str, str], list[tuple[bytes, bytes | None]]] = {}
        for row in rows:
            if row.table:
                ranges.setdefault((row.feed, row.table), []).append((row.low, row.high))
            self._compare(self._last.get((row.feed, row.span)), row)
            self._last[row.feed, row.span] = row
        for (feed, table), covering in ranges.items():
            if wrong := uncovered(covering):
                self.violations.append(f"{feed}: {table}: {wrong}")

    def _compare(self, before: Row | None, row: Row) -> None:
        if before is None:
            return
        if row.token < before.token:
            self.violations.append(f"{row.feed}/{row.span}: token {before.token} → {row.token}")
        if row.position < before.position:
            self.violations.append(
                f"{row.feed}/{row.span}: position {before.position} → {row.position}"
            )
