"""SIGKILL: a capture in a process of its own dies again and again, and the log is whole."""

import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.store.changelog import SegmentFiles
from lockgate.store.changelog.places import file_of
from tests.support.captures import FEED, Change, Workshop, workshop
from tests.support.databases import fresh_database
from tests.support.logs import log_at
from tests.support.stores import sqlite_url

ROOT = Path(__file__).parents[3]
ROWS_MAX = 40
"""So few that the larger transactions come in several flushes."""


@pytest.fixture(params=["sqlite", "postgres"])
def shop(
    request: pytest.FixtureRequest, pg18: EmbeddedPostgres, tmp_path: Path
) -> Iterator[Workshop]:
    with fresh_database(pg18) as url, fresh_database(pg18) as meta:
        metastore = sqlite_url(tmp_path) if request.param == "sqlite" else meta
        with workshop(url, tmp_path / "log", metastore) as shop:
            yield shop


def process(
    shop: Workshop,
    token: str,
    *,
    upto: int = 0,
    rows_max: int = ROWS_MAX,
    following: bool = False,
) -> subprocess.Popen[str]:
    """A capture of its own. It says up to where the log is, each time that it moves on."""
    arguments = [
        shop.dsn,
        shop.slot,
        shop.publication,
        shop.start - 1,
        shop.metastore,
        shop.root,
        token,
        rows_max,
        upto,
        int(following),
    ]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.captures", *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def listen(running: subprocess.Popen[str]) -> "queue.Queue[int]":
    """What a capture says, as it says it."""
    heard: queue.Queue[int] = queue.Queue()

    def hear() -> None:
        assert running.stdout is not None
        with running.stdout:
            for line in running.stdout:
                if line.endswith("\n"):  # a torn line is no word
                    heard.put(int(line))

    threading.Thread(target=hear, daemon=True).start()
    return heard


@contextmanager
def writing(url: str, seed: int) -> Iterator[list[int]]:
    """Somebody who writes all the time, in transactions of all sizes, one after the other.

    Table `a` gets keys that rise by one, `b` one row that counts the transactions. Yields the
    number of rows that were written by the end.
    """
    over = threading.Event()
    written = [0]
    errors: list[BaseException] = []

    def work() -> None:
        dice = random.Random(seed)
        try:
            with psycopg.connect(url) as connection:
                connection.execute("INSERT INTO b VALUES (1, 0)")
                while not over.is_set():
                    rows = dice.choice([1, 1, 2, 5, 150])
                    connection.execute(
                        "INSERT INTO a SELECT i, md5(i::text) "
                        "FROM generate_series(%s::bigint, %s) i",
                        (written[0] + 1, written[0] + rows),
                    )
                    connection.execute("UPDATE b SET n = n + 1 WHERE id = 1")
                    if dice.random() < 0.1:
                        connection.rollback()
                        continue
                    connection.commit()
                    written[0] += rows
                    over.wait(0.01)
        except BaseException as error:
            errors.append(error)

    writer = threading.Thread(target=work)
    writer.start()
    try:
        yield written
    finally:
        over.set()
        writer.join(60)
    assert not errors, errors


def check(changes: list[Change], written: int, counted: int) -> None:
    """Each committed change exactly once, in order; transactions whole, at one position."""
    assert all(one.seq < other.seq for one, other in pairwise(changes))
    assert all(one.position <= other.position for one, other in pairwise(changes))
    inserted = [change.new["id"] for change in changes if change.table == "public.a" and change.new]
    assert inserted == list(range(1, written + 1))
    counts = [change.new["n"] for change in changes if change.table == "public.b" and change.new]
    assert counts == list(range(counted + 1))
    by_position = Counter(change.position for change in changes if change.table == "public.b")
    assert set(by_position.values()) <= {1, 2}, "the first transaction has two changes of b"
    assert {change.position for change in changes} == set(by_position)


def test_a_capture_that_is_killed_again_and_again_loses_and_doubles_nothing(
    shop: Workshop,
) -> None:
    dice = random.Random(7)
    heard: list[int] = []
    with writing(shop.dsn, seed=11) as written:
        for life in range(1, 7):
            running = process(shop, f"{life}.1.1")
            says = listen(running)
            # Between the log's commit and the acknowledgement, or at any moment after it.
            for _ in range(dice.randrange(1, 12)):
                heard.append(says.get(timeout=60))
            time.sleep(dice.random() / 30)
            os.kill(running.pid, signal.SIGKILL)
            assert running.wait() == -signal.SIGKILL
    assert heard == sorted(heard), "the log never goes back"
    last = process(shop, "7.1.1", upto=shop.end())
    _, _ = last.communicate(timeout=120)
    assert last.returncode == 0
    row = shop.connection.execute("SELECT n FROM b").fetchone()
    assert row is not None
    check(shop.changes(), written[0], row[0])
    assert shop.there() == shop.named(), "what the dead left is swept up"
    assert shop.confirmed() <= shop.log.read(FEED, shop.start - 1).resolved + 1
    # The same from the outside: another handle to the same metastore and files.
    with log_at(shop.metastore) as log:
        paths = [file_of(segment.path) for segment in log.read(FEED, shop.start - 1).segments]
    assert all((shop.root / path).is_file() for path in paths)
    assert SegmentFiles(str(shop.root)).label == str(shop.root)


@pytest.mark.slow
def test_a_million_rows_in_one_transaction_stay_in_bounded_memory(
    pg18: EmbeddedPostgres, tmp_path: Path
) -> None:
    """What it takes must not grow with the transaction: ten times the rows, the same memory."""
    peaks = []
    for rows in (100_000, 1_000_000):
        home = tmp_path / str(rows)
        home.mkdir()
        with (
            fresh_database(pg18) as url,
            workshop(url, home / "log", sqlite_url(home)) as shop,
        ):
            shop.execute(
                "INSERT INTO a SELECT i, md5(i::text) || repeat('x', 100) "
                f"FROM generate_series(1, {rows}) i"
            )
            running = process(shop, "1.1.1", upto=shop.end(), rows_max=20_000)
            said, _ = running.communicate(timeout=240)
            assert running.returncode == 0
            peaks.append(int(said.split()[-1]) / 1024)
            segments = shop.log.read(FEED, shop.start - 1).segments
            assert sum(segment.rows for segment in segments) == rows
            assert len({segment.low for segment in segments}) == 1
    small, large = peaks
    assert large < small + 100, f"{small:.0f} MiB for 100,000 rows, {large:.0f} MiB for a million"
