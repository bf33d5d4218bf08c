"""Writers of tables that move: one per table, at a steady rate, at whichever side lets them.

A write is repeated, at the one side and the other, until it is acknowledged. How long that took
from its first attempt is what an application would feel of a flip: of each writer, the slowest
write that was under way during it.
"""

import itertools
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Final, NamedTuple, Self

import psycopg
from psycopg import sql

from bench.rig.servers import session

AGAIN_S: Final = 0.005
PATIENCE_S: Final = 60.0


class Write(NamedTuple):
    """One that was acknowledged."""

    ended: float
    took_s: float


class Movers:
    """As a context: they write until its end."""

    def __init__(self, sides: Sequence[str], tables: Sequence[str], writes_per_s: int) -> None:
        self._sides = sides
        self._tables = tables
        self._every_s = len(tables) / writes_per_s
        self._writes: dict[str, list[Write]] = {table: [] for table in tables}
        self._ended = threading.Event()
        self._broken: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(each,)) for each in tables]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    @property
    def written(self) -> dict[str, int]:
        """Acknowledged writes of each table."""
        return {table: len(writes) for table, writes in self._writes.items()}

    def got_on(self) -> None:
        """Wait until everybody has written once more; raises when somebody does not."""
        before, deadline = self.written, time.monotonic() + PATIENCE_S
        while any(now <= before[table] for table, now in self.written.items()):
            if self._broken:
                raise RuntimeError("a writer met what no guard has said") from self._broken[0]
            if time.monotonic() > deadline:
                raise RuntimeError("a writer does not get on")
            time.sleep(AGAIN_S)

    def slowest(self, began: float, ended: float) -> list[float]:
        """Of each writer, how long the slowest write took of those under way in this time."""
        return [
            max(
                one.took_s
                for one in reversed(writes)
                if one.ended >= began and one.ended - one.took_s <= ended
            )
            for writes in self._writes.values()
        ]

    def _run(self, table: str) -> None:
        insert = sql.SQL("INSERT INTO {} (n) VALUES (%s)").format(sql.Identifier(table))
        try:
            with ExitStack() as stack:
                sides = [stack.enter_context(session(url)) for url in self._sides]
                at = 0
                due = time.monotonic()
                for number in itertools.count():
                    due = max(due + self._every_s, time.monotonic() - self._every_s)
                    if self._ended.wait(max(0.0, due - time.monotonic())):
                        return
                    began = time.monotonic()
                    while not _wrote(sides[at], insert, number):
                        at = 1 - at
                        if self._ended.wait(AGAIN_S):
                            return
                    ended = time.monotonic()
                    self._writes[table].append(Write(ended, ended - began))
        except BaseException as error:
            self._broken.append(error)


def _wrote(side: psycopg.Connection, insert: sql.Composed, number: int) -> bool:
    try:
        side.execute(insert, (number,))
    except psycopg.Error as error:
        if not (error.sqlstate or "").startswith("LK"):
            raise
        return False
    return True
