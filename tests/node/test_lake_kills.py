"""A feed into a lake whose process is killed with SIGKILL, again and again, under writes.

Its Spark lives on, and so do the tasks that it had under way: they write files and land batches
after their owner is dead, and after its successor has begun.
"""

import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.bad_days import SOON_S
from tests.support.feeds import Pair
from tests.support.lake_feeds import Shore
from tests.support.runners import Start, finish
from tests.support.waiting import until

ROWS = 3_000
PAUSE_S = 0.01
"""Between two rounds of a writer's: who never pauses writes the more, the slower the machine is."""


@pytest.fixture
def shore(ends: Pair, tmp_path: Path) -> Shore:
    return Shore(ends.source, tmp_path / "lake", ends.home, None)


@pytest.fixture
def writing(shore: Shore) -> Iterator[threading.Event]:
    """Somebody writes until it is set."""
    shore.at_source("CREATE TABLE a (id int PRIMARY KEY, v text)")
    shore.at_source("CREATE TABLE b (x text, y int, n bigint, PRIMARY KEY (y, x))")
    shore.at_source(f"INSERT INTO a SELECT n, 'v' || n FROM generate_series(1, {ROWS}) n")
    shore.at_source(f"INSERT INTO b SELECT 'x' || n, n, n FROM generate_series(1, {ROWS}) n")
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(shore.source, autocommit=True) as connection:
            n = 0
            while not stop.wait(PAUSE_S):
                n += 1
                at = n % ROWS
                connection.execute("INSERT INTO a VALUES (%s, %s)", (ROWS + n, f"new {n}"))
                connection.execute("UPDATE a SET v = v || '+' WHERE id = %s", (at,))
                connection.execute("DELETE FROM a WHERE id = %s", (ROWS - at // 2,))
                connection.execute("UPDATE b SET n = n + 1 WHERE y %% 97 = %s", (n % 97,))
                connection.execute("UPDATE b SET y = y + 10000 WHERE y = %s", (at,))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield stop
    finally:
        stop.set()
        writer.join()


def commits(lake: Path) -> int:
    """All that has happened in the lake."""
    return len(list(lake.rglob("_delta_log/*.json")))


def test_killed_again_and_again_no_row_is_lost_or_doubled(
    shore: Shore, start: Start, writing: threading.Event
) -> None:
    config = {"target": f"delta:{shore.lake}", "chunk_rows": 300}
    for more in (2, 6, 11, 5, 16, 9):  # in the birth, in the copy, in the stream
        before = commits(shore.lake)
        runner = start(**config)
        until(lambda at=before + more: commits(shore.lake) >= at, SOON_S, 0.01)  # type: ignore[misc]
        assert runner.running, runner.said()
        runner.kill()
    writing.set()
    finish(start("--until-level", **config))
    shore.assert_equal("public.a", "public.b")
