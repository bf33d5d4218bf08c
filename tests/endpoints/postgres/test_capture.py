"""The capture of a real source: every committed change once, in order, and durable before it is
acknowledged."""

import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from lockgate.endpoints.postgres.capture import CaptureOptions, Source
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.source.fetch import Fetch
from lockgate.model.ids import Token
from lockgate.store.changelog.places import token_folder
from tests.support.captures import FEED, TOKEN, Change, Gate, Workshop, workshop
from tests.support.databases import fresh_database
from tests.support.stores import sqlite_url
from tests.support.waiting import until

NEXT = Token(1, 2, 1)


@pytest.fixture
def shop(pg18: EmbeddedPostgres, tmp_path: Path) -> Iterator[Workshop]:
    with fresh_database(pg18) as url, workshop(url, tmp_path / "log", sqlite_url(tmp_path)) as shop:
        yield shop


def short(changes: list[Change]) -> list[tuple[str, str, Any]]:
    """Table, operation and key."""
    return [
        (change.table, change.op, (change.new or change.old or {}).get("id")) for change in changes
    ]


def in_order(changes: list[Change]) -> None:
    """What holds for every log: seqs rise strictly, positions never sink."""
    assert all(one.seq < other.seq for one, other in pairwise(changes))
    assert all(one.position <= other.position for one, other in pairwise(changes))


def test_changes_come_into_the_log_once_and_in_order(shop: Workshop) -> None:
    shop.execute("INSERT INTO a VALUES (1, 'one')", "INSERT INTO b VALUES (1, 10)")
    with shop.running() as run:
        shop.execute("UPDATE a SET note = 'eins' WHERE id = 1", "DELETE FROM b WHERE id = 1")
        shop.execute("UPDATE a SET id = 2 WHERE id = 1")
        shop.execute("TRUNCATE b")
        run.until_resolved(shop.end())
    found = shop.changes()
    in_order(found)
    assert short(found) == [
        ("public.a", "I", 1),
        ("public.b", "I", 1),
        ("public.a", "U", 1),
        ("public.b", "D", 1),
        ("public.a", "U", 2),
        ("public.b", "T", None),
    ]
    assert found[4].old == {"id": 1}
    assert len({change.position for change in found}) == 4, "one position per transaction"
    assert shop.there() == shop.named()
    status = run.capture.status
    assert (status.rows, status.transactions, status.dropped) == (6, 4, 0)
    assert status.segments == len(shop.log.read(FEED, shop.start - 1).segments)
    assert status.bytes == sum((shop.root / path).stat().st_size for path in shop.there())
    assert status.commit_time == status.received_time is not None
    assert status.buffered_rows == 0


def test_aborted_transactions_and_savepoints_leave_nothing(shop: Workshop) -> None:
    with shop.running() as run:
        with shop.connection.transaction() as aborted:
            shop.connection.execute("INSERT INTO a VALUES (1, 'x')")
            raise psycopg.Rollback(aborted)
        shop.execute(
            "INSERT INTO a VALUES (2, 'x')",
            "SAVEPOINT s",
            "INSERT INTO a VALUES (3, 'x')",
            "ROLLBACK TO s",
            "INSERT INTO a VALUES (4, 'x')",
        )
        run.until_resolved(shop.end())
    assert [key for _, _, key in short(shop.changes())] == [2, 4]


def test_what_is_in_the_log_is_acknowledged_and_nothing_else(shop: Workshop) -> None:
    asked: list[int] = []

    class Witness:
        """Sees that the log is ahead of every acknowledgement."""

        def __init__(self, source: Source) -> None:
            self.source, self.read, self.close = source, source.read, source.close

        def acknowledge(self, resolved: int) -> None:
            asked.append(resolved)
            assert shop.log.read(FEED, shop.start - 1).resolved >= resolved
            self.source.acknowledge(resolved)

    before = shop.confirmed()
    with shop.running(open_source=lambda at: Witness(shop.fetch(at))) as run:
        shop.execute("INSERT INTO a VALUES (1, 'one')")
        run.until_resolved(shop.end())
        until(lambda: asked and shop.confirmed() == asked[-1] + 1)
    assert shop.confirmed() > before
    assert asked == sorted(asked)


def test_the_log_is_told_of_whenever_it_moves(shop: Workshop) -> None:
    news = threading.Event()
    with shop.running(landed=news.set) as run:
        shop.execute("INSERT INTO a VALUES (1, 'one')")
        assert news.wait(30)
        run.until_resolved(shop.end())


def test_an_idle_source_moves_the_log_without_files(shop: Workshop) -> None:
    with shop.running() as run:
        shop.execute("INSERT INTO unpublished SELECT generate_series(1, 1000)")
        end = shop.end()
        run.until_resolved(end)
        until(lambda: shop.confirmed() >= end)
    assert shop.there() == set()
    assert run.capture.status.rows == 0


def test_a_backlog_and_what_follows_it_make_one_log(shop: Workshop) -> None:
    backlog_bytes = 200_000
    for first in range(1, 5_001, 500):
        shop.execute(
            f"INSERT INTO a SELECT i, md5(i::text) FROM generate_series({first}, {first + 499}) i"
        )
    sources: list[Fetch] = []

    def fetch(resolved: int) -> Fetch:
        source = shop.fetch(resolved, backlog_bytes)
        assert source.way == "backlog"
        sources.append(source)
        return source

    with shop.running(open_source=fetch) as run:
        run.until(lambda: sources and sources[0].way == "stream")
        shop.execute("INSERT INTO a VALUES (5001, 'x')")
        run.until_resolved(shop.end())
    found = shop.changes()
    in_order(found)
    assert [key for _, _, key in short(found)] == list(range(1, 5_002))


# --- schema changes -----------------------------------------------------------------------------

RUN = "INSERT INTO lockgate_test.ddl (said) VALUES ('{}')"


def test_ddl_comes_in_order_with_the_rows_around_it(shop: Workshop) -> None:
    with shop.running() as run:
        shop.execute(
            "INSERT INTO a VALUES (1, 'x')",
            RUN.format("one"),
            RUN.format("two"),
            "INSERT INTO a VALUES (2, 'x')",
            RUN.format("three"),
        )
        shop.execute(RUN.format("four"))
        run.until_resolved(shop.end())
    found = shop.changes()
    changes = shop.log.read(FEED, shop.start - 1).changes
    said = [[row["said"] for row in msgspec.json.decode(change.body)] for change in changes]
    assert said == [["one", "two"], ["three"], ["four"]]
    first, second, third = (change.position for change in changes)
    assert found[0].position < first < found[1].position < second < third
    assert short(found) == [("public.a", "I", 1), ("public.a", "I", 2)]


def test_ddl_is_put_into_the_words_of_whoever_understands_it(shop: Workshop) -> None:
    def understand(rows: Any) -> str | None:
        words = [row["said"] for row in rows]
        return None if words == ["nothing"] else " and ".join(words)

    with shop.running(understand=understand) as run:
        shop.execute(RUN.format("nothing"))
        shop.execute(RUN.format("one"), RUN.format("two"))
        run.until_resolved(shop.end())
    assert [c.body for c in shop.log.read(FEED, shop.start - 1).changes] == ["one and two"]


def test_a_table_that_changes_has_segments_of_both_shapes(shop: Workshop) -> None:
    with shop.running(options=CaptureOptions(flush_ms=2_000)) as run:
        shop.execute(
            "INSERT INTO a VALUES (1, 'x')",
            "ALTER TABLE a ADD COLUMN more integer",
            "INSERT INTO a VALUES (2, 'y', 3)",
        )
        run.until_resolved(shop.end())
    segments = shop.log.read(FEED, shop.start - 1).segments
    assert len({segment.shape for segment in segments}) == len(segments) == 2
    assert [change.new for change in shop.changes()] == [
        {"id": 1, "note": "x"},
        {"id": 2, "note": "y", "more": 3},
    ]


# --- restarts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [TOKEN, NEXT], ids=["same", "next"])
def test_a_restart_goes_on_where_the_log_ends(shop: Workshop, token: Token) -> None:
    with shop.running() as run:
        shop.execute("INSERT INTO a VALUES (1, 'x')")
        run.until_resolved(shop.end())
    shop.execute("INSERT INTO a VALUES (2, 'x')")
    with shop.running(token) as run:
        shop.execute("INSERT INTO a VALUES (3, 'x')")
        run.until_resolved(shop.end())
    found = shop.changes()
    in_order(found)
    assert [key for _, _, key in short(found)] == [1, 2, 3]
    assert run.capture.status.rows == 2
    folders = {path.split("/")[1] for path in shop.named()}
    assert folders == {token_folder(TOKEN), token_folder(token)}


def test_what_the_source_sends_again_is_dropped(shop: Workshop) -> None:
    """As after a kill between the log's commit and the acknowledgement."""

    class Deaf:
        """The acknowledgement never arrives."""

        def __init__(self, source: Source) -> None:
            self.read, self.close = source.read, source.close

        def acknowledge(self, resolved: int) -> None:
            pass

    shop.execute("INSERT INTO a VALUES (1, 'x')", RUN.format("one"))
    with shop.running(open_source=lambda at: Deaf(shop.fetch(at))) as run:
        shop.execute("INSERT INTO a VALUES (2, 'x')")
        run.until_resolved(shop.end())
    shop.execute("INSERT INTO a VALUES (3, 'x')", RUN.format("two"))
    with shop.running(open_source=lambda _: shop.fetch(shop.start - 1)) as run:
        run.until_resolved(shop.end())
    found = shop.changes()
    in_order(found)
    assert [key for _, _, key in short(found)] == [1, 2, 3]
    assert len(shop.log.read(FEED, shop.start - 1).changes) == 2
    assert run.capture.status.dropped == 2


def test_files_of_a_killed_owner_are_swept_up(shop: Workshop) -> None:
    left = shop.root / FEED / token_folder(TOKEN) / "0-abcd-public_a~0.parquet.tmp"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    with shop.running(NEXT) as run:
        shop.execute("INSERT INTO a VALUES (1, 'x')")
        run.until_resolved(shop.end())
    assert not left.exists()


# --- transactions larger than the buffers ---------------------------------------------------------


def test_a_transaction_larger_than_the_buffers_is_seen_only_when_it_is_whole(
    shop: Workshop,
) -> None:
    gates: list[Gate] = []

    def gated(resolved: int) -> Gate:
        gates.append(Gate(shop.fetch(resolved), 500))
        return gates[-1]

    rows = 60_000
    shop.execute("INSERT INTO b VALUES (1, 1)")
    shop.execute(
        f"INSERT INTO a SELECT i, repeat('x', 200) FROM generate_series(1, {rows}) i",
        "INSERT INTO b VALUES (2, 2)",
    )
    few = CaptureOptions(flush_ms=10, idle_ms=10, rows_max=100)
    with shop.running(open_source=gated, options=few) as run:
        # Some of it is in files, and nothing of it in the log.
        run.until(lambda: shop.there() - shop.named() and gates[0].shut)
        assert {change.table for change in shop.changes()} <= {"public.b"}
        gates[0].open.set()
        run.until_resolved(shop.end())
    found = shop.changes()
    in_order(found)
    assert short(found) == [
        ("public.b", "I", 1),
        *(("public.a", "I", number) for number in range(1, rows + 1)),
        ("public.b", "I", 2),
    ]
    large = [s for s in shop.log.read(FEED, shop.start - 1).segments if s.table == "public.a"]
    assert len(large) > 2
    assert len({change.position for change in found[1:]}) == 1
    assert shop.there() == shop.named()


def test_stopped_in_the_middle_of_a_transaction_nothing_of_it_stays(shop: Workshop) -> None:
    shop.execute("INSERT INTO a SELECT i, repeat('x', 200) FROM generate_series(1, 60000) i")
    few = CaptureOptions(flush_ms=10, idle_ms=10, rows_max=100)
    with shop.running(open_source=lambda at: Gate(shop.fetch(at), 500), options=few) as run:
        run.until(shop.there)
    assert shop.there() == set()
    assert shop.changes() == []
    with shop.running() as run:
        run.until_resolved(shop.end())
    assert len(shop.changes()) == 60_000


def test_a_stop_ends_an_idle_capture(shop: Workshop) -> None:
    with shop.running() as run:
        run.until(lambda: run.capture.resolved is not None)
        run.capture.stop()
        run.thread.join(30)
        assert not run.thread.is_alive()
