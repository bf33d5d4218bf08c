"""One feed, end to end, from a real server into a lake through a real Spark."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.origins import SOURCE
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.postgres.copy.snapshot import Held
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.source.identity import identity
from lockgate.model.errors import NotFound, UsageError
from lockgate.model.feeds import FeedState
from lockgate.node.feed import context, setup
from lockgate.pipeline import copy_run
from lockgate.pipeline.session import Spark
from tests.support.databases import fresh_database
from tests.support.feeds import LEVEL_S, level
from tests.support.lake_feeds import Shore
from tests.support.waiting import until

ORDERS = (
    "CREATE TABLE orders (id bigint PRIMARY KEY, total numeric(10,2), note text, at timestamptz)"
)
FILL = (
    "INSERT INTO orders SELECT n, n * 1.5, 'note ' || n, '2026-01-01'::timestamptz + n * '1 s'"
    "::interval FROM generate_series({}, {}) n"
)


@pytest.fixture
def shore(pg16: EmbeddedPostgres, spark: Spark, tmp_path: Path) -> Iterator[Shore]:
    with fresh_database(pg16) as source:
        yield Shore(source, tmp_path / "lake", tmp_path / "home", spark)


def test_rows_that_were_there_and_rows_that_come_are_in_the_lake(shore: Shore) -> None:
    shore.at_source(ORDERS, FILL.format(1, 2000))
    with shore.running(chunk_rows=500) as runner:
        level(runner)
        shore.assert_equal("public.orders")
        shore.at_source(
            FILL.format(2001, 2100),
            "UPDATE orders SET note = NULL WHERE id % 7 = 0",
            "DELETE FROM orders WHERE id % 10 = 0",
            "UPDATE orders SET id = id + 100000 WHERE id % 11 = 0",
        )
        level(runner)
        shore.assert_equal("public.orders")
    table = shore.table("public.orders")
    assert table.snapshot().ingest, "changes are to wait in ingest"


def test_a_table_to_which_nothing_comes_can_be_read(shore: Shore) -> None:
    shore.at_source(ORDERS, FILL.format(1, 100), "CREATE TABLE busy (id int PRIMARY KEY)")
    with shore.running() as runner:
        level(runner)
        shore.at_source("INSERT INTO busy VALUES (1)")
        level(runner)
        until(lambda: shore.can_be_read("public.orders"), LEVEL_S)
    shore.assert_equal("public.orders", "public.busy")


def test_writes_during_the_copy_arrive_once(shore: Shore) -> None:
    shore.at_source(ORDERS, FILL.format(1, 5000))
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(shore.source, autocommit=True) as connection:
            n = 0
            while not stop.is_set():
                n += 1
                connection.execute(FILL.format(10000 + n, 10000 + n))
                connection.execute(
                    "UPDATE orders SET note = 'changed ' || %s WHERE id = %s", (n, n % 5000)
                )
                connection.execute("DELETE FROM orders WHERE id = %s", (5000 - n % 2500,))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with shore.running(chunk_rows=500) as runner:
            level(runner)
            stop.set()
            writer.join()
            level(runner)
            shore.assert_equal("public.orders")
    finally:
        stop.set()
        writer.join()


def test_a_feed_that_was_stopped_goes_on_where_it_was(shore: Shore) -> None:
    shore.at_source(ORDERS, FILL.format(1, 50))
    with shore.running() as runner:
        level(runner)
    shore.at_source("UPDATE orders SET total = 0 WHERE id < 5", "DELETE FROM orders WHERE id > 40")
    with shore.running() as runner:
        level(runner)
        shore.assert_equal("public.orders")


def test_large_values_that_are_not_touched_before_the_snapshot_stay(
    shore: Shore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log does not repeat them, and the copy has what came later: rows that are gone, rows
    under another key, another row under theirs."""
    big = "(SELECT string_agg(md5(n::text || k), '') FROM generate_series(1, 1000) n)"
    shore.at_source(
        "CREATE TABLE docs (id int PRIMARY KEY, body text, n int)",
        "ALTER TABLE docs ALTER body SET STORAGE EXTERNAL",
        f"INSERT INTO docs SELECT k, {big}, 0 FROM generate_series(1, 9) k",
    )
    held = copy_run.held_snapshot

    def late(*given: Any) -> AbstractContextManager[Held]:
        for statement in (
            "UPDATE docs SET n = 1",
            "DELETE FROM docs WHERE id = 1",
            "UPDATE docs SET id = 20, n = 2 WHERE id = 2",
            "UPDATE docs SET id = 30 WHERE id = 3",
            "INSERT INTO docs VALUES (3, 'another', 0)",
        ):
            shore.at_source(statement)
        return held(*given)

    monkeypatch.setattr(copy_run, "held_snapshot", late)
    with shore.running() as runner:
        level(runner)
        shore.assert_equal("public.docs")
        shore.at_source("UPDATE docs SET n = 4 WHERE id IN (4, 20, 30)")
        level(runner)
        shore.assert_equal("public.docs")


def test_a_large_value_that_was_not_touched_stays(shore: Shore) -> None:
    """The log does not repeat it: it comes from an earlier change, or from the lake."""
    big = "(SELECT string_agg(md5(n::text || %s), '') FROM generate_series(1, 1000) n)"
    shore.at_source("CREATE TABLE docs (id int PRIMARY KEY, body text, n int)")
    shore.at_source("ALTER TABLE docs ALTER body SET STORAGE EXTERNAL")
    with psycopg.connect(shore.source) as connection:
        for id_ in (1, 2, 3):
            connection.execute(f"INSERT INTO docs VALUES ({id_}, {big}, 0)", (str(id_),))
    with shore.running() as runner:
        level(runner)
        shore.at_source("UPDATE docs SET n = 1")
        level(runner)
        shore.assert_equal("public.docs")
        with psycopg.connect(shore.source) as connection:
            connection.execute(f"INSERT INTO docs VALUES (4, {big}, 0)", ("4",))
            connection.execute("UPDATE docs SET n = 2")
            connection.execute("UPDATE docs SET id = 40, n = 3 WHERE id = 4")
            connection.execute("UPDATE docs SET id = 30 WHERE id = 3")
            connection.execute("UPDATE docs SET n = 5 WHERE id IN (30, 40)")
        level(runner)
        shore.assert_equal("public.docs")


def test_a_truncated_table_is_empty_and_fills_again(shore: Shore) -> None:
    shore.at_source(ORDERS, FILL.format(1, 50))
    with shore.running() as runner:
        level(runner)
        shore.at_source("TRUNCATE orders", FILL.format(10, 12))
        level(runner)
        shore.assert_equal("public.orders")


def test_schema_changes_come_in_order_with_the_rows(shore: Shore) -> None:
    shore.at_source(ORDERS, FILL.format(1, 20))
    with shore.running() as runner:
        level(runner)
        shore.at_source(
            "ALTER TABLE orders ADD COLUMN extra int",
            FILL.replace("INSERT INTO orders", "INSERT INTO orders (id, total, note, at)").format(
                21, 25
            ),
        )
        shore.at_source("UPDATE orders SET extra = 7 WHERE id % 2 = 0")
        shore.at_source("CREATE TABLE later (id int PRIMARY KEY, v text)")
        shore.at_source("INSERT INTO later VALUES (1, 'one'), (2, NULL)")
        level(runner)
        shore.assert_equal("public.orders", "public.later")
        shore.at_source("DROP TABLE later")
        shore.at_source("CREATE TABLE later (id int PRIMARY KEY, other int)")
        shore.at_source("INSERT INTO later VALUES (5, 5)")
        level(runner)
        shore.assert_equal("public.later")
        shore.at_source("DROP TABLE later")
        level(runner)
        with pytest.raises(NotFound):
            shore.table("public.later")


def test_a_change_that_touches_every_row_makes_the_table_anew(shore: Shore) -> None:
    """A default for the rows that are there, another type, another name: copied once more."""
    shore.at_source(ORDERS, FILL.format(1, 20))
    with shore.running() as runner:
        level(runner)
        first = shore.table("public.orders").place
        shore.at_source("ALTER TABLE orders ADD COLUMN state text DEFAULT 'new'")
        shore.at_source("UPDATE orders SET state = 'old' WHERE id < 3")
        until(lambda: shore.table("public.orders").place != first, 60)
        level(runner)
        shore.assert_equal("public.orders")
        second = shore.table("public.orders").place
        shore.at_source(
            "ALTER TABLE orders ALTER total TYPE float8",
            FILL.replace("INSERT INTO orders", "INSERT INTO orders (id, total, note, at)").format(
                100, 101
            ),
        )
        until(lambda: shore.table("public.orders").place != second, 60)
        level(runner)
        shore.assert_equal("public.orders")


@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE orders DROP COLUMN note", "ALTER TABLE orders ADD COLUMN note text"),
        ("ALTER TABLE orders DROP COLUMN note, ADD COLUMN note text",),
        ("ALTER TABLE orders DROP COLUMN note", "ALTER TABLE orders ADD COLUMN note int"),
    ],
    ids=["two changes", "one change", "of another type"],
)
def test_a_column_that_comes_again_is_another(shore: Shore, statements: tuple[str, ...]) -> None:
    """Rows from before have nothing in it, whatever the one before had."""
    shore.at_source(ORDERS, FILL.format(1, 20))
    with shore.running() as runner:
        level(runner)
        first = shore.table("public.orders").place
        for statement in statements:
            shore.at_source(statement)
        shore.at_source("UPDATE orders SET note = 5 WHERE id < 3")
        until(lambda: shore.table("public.orders").place != first, 60)
        level(runner)
        shore.assert_equal("public.orders")


def test_a_renamed_table_is_in_the_lake_under_its_new_name_only(shore: Shore) -> None:
    shore.at_source(ORDERS, FILL.format(1, 20))
    with shore.running() as runner:
        level(runner)
        shore.at_source("ALTER TABLE orders RENAME TO bills", "DELETE FROM bills WHERE id = 3")
        lake = Lake(Place(str(shore.lake), "lake"))
        until(lambda: lake.newest("public.bills") is not None, 60)
        level(runner)
        shore.assert_equal("public.bills")
        with pytest.raises(NotFound):
            shore.table("public.orders")


def test_a_table_without_a_key_is_refused_before_anything_is_made(shore: Shore) -> None:
    shore.at_source("CREATE TABLE visits (page text)")
    with pytest.raises(Exception, match="key"), shore.running():
        pass
    assert not list(shore.lake.glob("public*"))


def test_a_table_that_another_source_makes_later_does_not_take_the_name_of_one_that_is_there(
    shore: Shore, pg16: EmbeddedPostgres, tmp_path: Path
) -> None:
    """Two services that each have an outbox. No feed knew of it when it was made."""
    shore.at_source(ORDERS, FILL.format(1, 5))
    with shore.running() as runner:
        level(runner)
    place = shore.table("public.orders").place
    with fresh_database(pg16) as source:
        other = Shore(source, shore.lake, tmp_path / "another home", shore.spark)
        other.at_source("CREATE TABLE bills (id int PRIMARY KEY)")
        # It does not lead the lake, and nobody would bring it rows.
        with other.running(name="other", copy=False) as runner:
            level(runner)
            other.at_source(ORDERS, FILL.format(7, 9))
            until(lambda: runner.status().state is FeedState.FAILED, 60)
            assert "another source" in runner.status().error
            assert "lake drop" in " ".join(runner.status().next_steps)
        Lake(shore.root).end("public.orders", int(place.url.rpartition("/")[2]))
        with other.running(name="other", copy=False) as runner:
            level(runner)
            other.assert_equal("public.orders")


def test_a_feed_from_before_its_source_was_written_down_asks_for_it_once(
    shore: Shore, monkeypatch: pytest.MonkeyPatch
) -> None:
    shore.at_source(ORDERS, FILL.format(1, 5))
    with monkeypatch.context() as before:
        before.setattr(setup, "identity", lambda _: "")
        before.setattr(context, "identity", lambda _: "")
        with shore.running() as runner:
            level(runner)
    assert SOURCE not in shore.table("public.orders").stable.notes
    with shore.running() as runner:
        level(runner)
    with psycopg.connect(shore.source) as connection:
        noted = identity(connection)
    assert shore.table("public.orders").stable.notes[SOURCE] == noted
    asked: list[object] = []
    monkeypatch.setattr(context, "identity", lambda _: asked.append(1) or noted)
    with shore.running() as runner:
        level(runner)
    assert not asked, "it is in the book"


def test_a_second_feed_does_not_take_a_table_that_is_there(shore: Shore) -> None:
    shore.at_source(ORDERS, FILL.format(1, 5))
    with shore.running() as runner:
        level(runner)
    with pytest.raises(UsageError, match="lake has such a table"), shore.running(name="other"):
        pass
