"""Holding a state of a table fast, for who reads it for longer than a vacuum leaves old files."""

import contextlib
import getpass
import os
import socket
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from lockgate.endpoints.delta.layered import LayeredTable, Snapshot
from lockgate.endpoints.delta.missing import FilesMoved
from lockgate.endpoints.delta.pins import holding
from lockgate.lake.moments import AsOf
from lockgate.lake.opening import Options, looked_up, place_of
from lockgate.lake.reading import frame_at
from lockgate.model.positions import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["PinnedTable", "pin"]

_ATTEMPTS: Final = 5
"""States that go while one reaches for them, before it is said that none can be held."""


class PinnedTable:
    """One state of a table, which stays as long as it is held."""

    def __init__(self, table: LayeredTable, seen: Snapshot) -> None:
        self._table = table
        self._seen = seen
        self.rows = table.rows
        """The columns of its rows."""

    @property
    def position(self) -> Position:
        """Up to where in the source's log it is."""
        return self._seen.position

    def read(self, spark: "SparkSession", columns: Sequence[str] | None = None) -> "DataFrame":
        """Its rows: the same ones each time."""
        return frame_at(spark, self._table, self._seen, self.rows, columns)


@contextlib.contextmanager
def pin(
    path: str, table: str, *, as_of: AsOf | None = None, options: Options | None = None
) -> Iterator[PinnedTable]:
    """Hold the table as it is now, or was at a moment, until the end of the block.

    The pin is a small file in the lake, written anew every few minutes; it lets go by itself when
    this process has died.
    """
    root = place_of(path, options)
    with contextlib.ExitStack() as held:
        left = 0 if as_of is not None else _ATTEMPTS  # an older state does not come back
        while True:
            layered, seen = looked_up(root, table, as_of)
            try:
                held.enter_context(holding(layered.place, layered.home, seen, _who()))
                break
            except FilesMoved:
                left -= 1
                if left <= 0:
                    raise
        yield PinnedTable(layered, seen)


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()} {os.getpid()}"
