"""Live changes at a steady rate, and how long each takes to the target: a process of its own.

    python -m bench.rig.traffic            what to do comes on stdin, what came of it goes to stdout

One thread writes small transactions on a schedule, at the source. A row's clock starts right
before its COMMIT is sent. Another looks every 20 ms for the greatest key at the target; a row's
clock stops when the answer that first shows its transaction has come. Both err on the side of a
greater lag. Of a lake, the other one is a reader that takes a snapshot and reads the keys of the
files that are new in it.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import psycopg

from bench.rig import orders
from bench.rig.lake_reader import LakeReader, is_lake

INSERTS, UPDATES, DELETES = 6, 3, 1
PER_TRANSACTION: Final = INSERTS + UPDATES + DELETES
POLL_S: Final = 0.02
PATIENCE_S: Final = 120.0
_STRIDE: Final = 7919

_INSERT: Final = (
    f"INSERT INTO orders SELECT {orders.ROW} FROM generate_series(%s::bigint, %s::bigint) i"
)
_UPDATE: Final = "UPDATE orders SET amount = amount + 1, note = 'changed' WHERE id = ANY(%s)"
_DELETE: Final = "DELETE FROM orders WHERE id = %s"


class Traffic(msgspec.Struct, frozen=True):
    """What to write, where, and for how long."""

    source: str
    target: str
    before: int
    """The table has the keys 1 to this; enough of them that rows to delete never run out."""
    changes_per_s: int
    seconds: int


class Outcome(msgspec.Struct, frozen=True):
    """What came of it."""

    changes: int
    took_s: float
    """From the first transaction to the last."""
    lags_s: list[float]
    """Of each transaction. All are of the same size, so this is also the lag row by row."""

    def lag_s(self, percent: float) -> float:
        """So many per cent of all rows were seen within this time."""
        return float(np.percentile(self.lags_s, percent))


def run(traffic: Traffic) -> Outcome:
    """Have it written and watched in another process; returns when the last row was seen."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.rig.traffic"],
        cwd=Path(__file__).parents[2],
        input=msgspec.json.encode(traffic),
        stdout=subprocess.PIPE,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=Outcome)


# --- in the other process -------------------------------------------------------------------------


class _Writer(threading.Thread):
    def __init__(self, traffic: Traffic) -> None:
        super().__init__(name="writer")
        self._traffic = traffic
        self.committed: list[tuple[int, float]] = []
        """The greatest key of each transaction, and when its commit was asked for."""

    def run(self) -> None:
        """One transaction after the other, each when it is due."""
        traffic = self._traffic
        every_s = PER_TRANSACTION / traffic.changes_per_s
        began = time.monotonic()
        with psycopg.connect(traffic.source) as connection:
            for number in range(int(traffic.seconds / every_s)):
                time.sleep(max(0.0, began + number * every_s - time.monotonic()))
                last = self._change(connection, number)
                at = time.monotonic()
                connection.commit()
                self.committed.append((last, at))

    def _change(self, connection: psycopg.Connection, number: int) -> int:
        before = self._traffic.before
        first = before + number * INSERTS + 1
        last = first + INSERTS - 1
        updated = [
            # In the second quarter of the old rows; those that are deleted are all beyond it.
            before // 4 + (number * UPDATES + nth) * _STRIDE % (before // 4)
            for nth in range(UPDATES)
        ]
        connection.execute(_INSERT, (first, last))
        connection.execute(_UPDATE, (updated,))
        connection.execute(_DELETE, (first - before // 2,))
        return last


def _watch(greatest: Callable[[], int | None], writer: _Writer) -> list[tuple[int, float]]:
    """What the greatest key was, and when it was known, until the writer's last is seen."""
    seen: list[tuple[int, float]] = []
    deadline = None
    while True:
        looked = time.monotonic()
        key = greatest()
        if key is not None and (not seen or key > seen[-1][0]):
            seen.append((key, time.monotonic()))
        if not writer.is_alive():
            if seen and seen[-1][0] >= writer.committed[-1][0]:
                return seen
            deadline = deadline or looked + PATIENCE_S
            if looked > deadline:
                raise RuntimeError(f"the last row was not seen within {PATIENCE_S:g} s")
        time.sleep(max(0.0, looked + POLL_S - time.monotonic()))


@contextmanager
def _looking(target: str) -> Iterator[Callable[[], int | None]]:
    """Who tells the greatest key at the target."""
    if is_lake(target):
        yield LakeReader(target).greatest
        return
    with psycopg.connect(target, autocommit=True) as connection:

        def greatest() -> int | None:
            row = connection.execute("SELECT max(id) FROM orders").fetchone()
            assert row is not None
            found: int | None = row[0]
            return found

        yield greatest


def main() -> None:
    """Be the other process."""
    traffic = msgspec.json.decode(sys.stdin.buffer.read(), type=Traffic)
    with _looking(traffic.target) as greatest:
        greatest()
        writer = _Writer(traffic)
        writer.start()
        seen = _watch(greatest, writer)
        writer.join()
    keys, committed = map(np.array, zip(*writer.committed, strict=True))
    shown, when = map(np.array, zip(*seen, strict=True))
    lags = when[np.searchsorted(shown, keys)] - committed
    outcome = Outcome(
        len(keys) * PER_TRANSACTION,
        float(committed[-1] - committed[0]),
        [round(float(lag), 4) for lag in lags],
    )
    sys.stdout.buffer.write(msgspec.json.encode(outcome))


if __name__ == "__main__":
    main()
