"""Tables compared by real Spark tasks: what is found, what is left, under which snapshots."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import psycopg
import pytest

from lockgate.endpoints.postgres.diff.snapshots import Snapshots, apart
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.diffs import RangeOutcome, TableRecord
from lockgate.model.selection import TableSelection
from lockgate.model.tables import TableName
from lockgate.pipeline.diff import DiffRun
from lockgate.pipeline.session import Spark
from tests.support.databases import fresh_database
from tests.support.diffs import SEED, Pair, pair_of

ROWS = 4_000


@pytest.fixture
def pair(pg16: EmbeddedPostgres, pg18: EmbeddedPostgres) -> Iterator[Pair]:
    with (
        fresh_database(pg16) as source,
        fresh_database(pg18) as target,
        pair_of(source, target) as pair,
    ):
        pair.both(
            "CREATE TABLE numbers (id bigint PRIMARY KEY, v text)",
            f"INSERT INTO numbers SELECT n, 'v' || n FROM generate_series(1, {ROWS}) n",
            "CREATE TABLE words (id text PRIMARY KEY, v int)",
            f"INSERT INTO words SELECT md5(n::text), n FROM generate_series(1, {ROWS}) n",
            "CREATE TABLE keyless (v int)",
            "INSERT INTO keyless SELECT n % 9 FROM generate_series(1, 500) n",
            "ANALYZE",
        )
        yield pair


@contextmanager
def _then(
    held: AbstractContextManager[Snapshots], act: Callable[[], object]
) -> Iterator[Snapshots]:
    """The same context, with something done once it is entered."""
    with held as found:
        act()
        yield found


class Diff:
    """One attempt, and what came of it."""

    def __init__(self, spark: Spark, pair: Pair, *names: str, repair: bool = False) -> None:
        self.pair = pair
        self.wanted: list[TableSelection] = [pair.selection(name) for name in names]
        self.run = DiffRun(
            spark,
            pair.source,
            pair.target,
            self.wanted,
            seed=SEED,
            tag="diff",
            range_rows=500,
            repair=repair,
        )
        self.outcomes: list[RangeOutcome] = []
        self.errors: dict[str, str] = {}
        self.snapshots = 0

    def compare(self, plan: Sequence[TableRecord], done: Sequence[RangeOutcome] = ()) -> None:
        def snapshots() -> AbstractContextManager[Snapshots]:
            self.snapshots += 1
            return apart(self.pair.source, self.pair.target)

        left = self.run.compare(
            plan, {(each.table, each.no) for each in done}, snapshots, self.outcomes.extend
        )
        self.errors = {table: error.code for table, error in left.items()}

    def sums(self) -> dict[str, tuple[int, int, int, int]]:
        found: dict[str, tuple[int, int, int, int]] = {}
        for each in self.outcomes:
            so_far = found.get(each.table, (0, 0, 0, 0))
            more = each.rows, each.missing, each.extra, each.different
            found[each.table] = tuple(map(sum, zip(so_far, more, strict=True)))  # type: ignore[assignment]
        return found


def test_every_table_is_compared(spark: Spark, pair: Pair) -> None:
    pair.there.execute("DELETE FROM numbers WHERE id IN (1, 2)")
    pair.there.execute(f"INSERT INTO numbers VALUES ({ROWS + 1}, '')")
    pair.there.execute("UPDATE words SET v = -v WHERE v % 1000 = 0")
    diff = Diff(spark, pair, "numbers", "words", "keyless")
    diff.compare(diff.run.plan())
    assert diff.sums() == {
        "public.numbers": (ROWS, 2, 1, 0),
        "public.words": (ROWS, 0, 0, 4),
        "public.keyless": (500, 0, 0, 0),
    }


def test_a_table_is_cut_by_what_its_key_allows(spark: Spark, pair: Pair) -> None:
    numbers, _, keyless = Diff(spark, pair, "numbers", "words", "keyless").run.plan()
    assert numbers.ranges == 8
    assert (numbers.edges[0], keyless.hashed) == (("501",), 1)


def test_ranges_that_are_done_are_not_compared_again(spark: Spark, pair: Pair) -> None:
    first = Diff(spark, pair, "numbers", "keyless")
    plan = first.run.plan()
    first.compare(plan)
    done = [each for each in first.outcomes if (each.table, each.no) != ("public.numbers", 3)]
    pair.there.execute("DELETE FROM numbers")
    again = Diff(spark, pair, "numbers", "keyless")
    again.compare(plan, done)
    assert again.sums() == {"public.numbers": (500, 500, 0, 0)}


def test_nothing_left_needs_no_snapshot(spark: Spark, pair: Pair) -> None:
    first = Diff(spark, pair, "keyless")
    plan = first.run.plan()
    first.compare(plan)
    again = Diff(spark, pair, "keyless")
    again.compare(plan, first.outcomes)
    assert again.snapshots == 0


def test_a_table_that_was_truncated_meanwhile_is_compared_again(spark: Spark, pair: Pair) -> None:
    """Under the first snapshot it looks empty, which it never was."""
    diff = Diff(spark, pair, "numbers")
    plan = diff.run.plan()
    opened = 0

    def snapshots() -> AbstractContextManager[Snapshots]:
        nonlocal opened
        opened += 1
        held = apart(pair.source, pair.target)
        if opened > 1:
            return held
        return _then(held, lambda: pair.here.execute("TRUNCATE numbers"))

    errors = diff.run.compare(plan, (), snapshots, diff.outcomes.extend)
    assert (errors, opened) == ({}, 2)
    assert diff.sums() == {"public.numbers": (0, 0, ROWS, 0)}


def test_a_table_that_has_other_columns_by_now_is_not_compared(spark: Spark, pair: Pair) -> None:
    plan = Diff(spark, pair, "numbers", "keyless").run.plan()
    pair.both("ALTER TABLE numbers DROP COLUMN v")
    diff = Diff(spark, pair, "numbers", "keyless")
    diff.compare(plan)
    assert diff.errors == {"public.numbers": "table-changed"}
    assert list(diff.sums()) == ["public.keyless"]


def test_what_one_table_fails_with_is_told_and_the_others_go_on(spark: Spark, pair: Pair) -> None:
    plan_of = Diff(spark, pair, "numbers", "keyless")
    plan = plan_of.run.plan()
    diff = Diff(spark, pair, "numbers", "keyless")
    diff.run._wanted["public.numbers"] = TableSelection(
        TableName("public", "numbers"),
        TableName("public", "numbers"),
        ("id", "v"),
        row_filter="no_such_function(id)",
    )
    diff.compare(plan)
    assert list(diff.errors) == ["public.numbers"]
    assert list(diff.sums()) == ["public.keyless"]


def test_people_who_write_after_the_snapshots_change_nothing(spark: Spark, pair: Pair) -> None:
    diff = Diff(spark, pair, "numbers")
    plan = diff.run.plan()

    def write() -> None:
        pair.here.execute("UPDATE numbers SET v = 'later'")

    held = apart(pair.source, pair.target)
    diff.run.compare(plan, (), lambda: _then(held, write), diff.outcomes.extend)
    assert diff.sums() == {"public.numbers": (ROWS, 0, 0, 0)}


# --- repair ---------------------------------------------------------------------------------------


def test_a_repair_makes_equal_and_says_what_it_did(spark: Spark, pair: Pair) -> None:
    """D5."""
    pair.there.execute("DELETE FROM numbers WHERE id % 1000 = 1")
    pair.there.execute(f"INSERT INTO numbers VALUES ({ROWS + 1}, '')")
    pair.there.execute("UPDATE words SET v = -v WHERE v % 1000 = 0")
    pair.there.execute("INSERT INTO keyless VALUES (3), (3)")
    diff = Diff(spark, pair, "numbers", "words", "keyless", repair=True)
    plan = diff.run.plan()
    diff.compare(plan)
    assert diff.sums() == {
        "public.numbers": (ROWS, 4, 1, 0),
        "public.words": (ROWS, 0, 0, 4),
        "public.keyless": (500, 0, 2, 0),
    }
    assert sum(each.repaired for each in diff.outcomes) == 11
    assert {each.left for each in diff.outcomes} == {0}
    assert len(diff.outcomes) == sum(each.ranges for each in plan)
    assert all("no feed" in " ".join(each.notes) for each in plan)
    again = Diff(spark, pair, "numbers", "words", "keyless")
    again.compare(plan)
    assert [each for each in again.outcomes if each.differing] == []


def test_what_is_in_the_way_of_another_range_is_gone_when_it_is_tried_again(
    spark: Spark, pair: Pair
) -> None:
    pair.both("ALTER TABLE numbers ADD UNIQUE (v)")
    pair.there.execute("DELETE FROM numbers WHERE id = 10")
    pair.there.execute(f"INSERT INTO numbers VALUES ({ROWS + 1}, 'v10')")
    diff = Diff(spark, pair, "numbers", repair=True)
    diff.compare(diff.run.plan())
    assert sum(each.repaired for each in diff.outcomes) == 2
    assert {each.left for each in diff.outcomes} == {0}


def test_what_cannot_be_repaired_is_handed_over_as_left(spark: Spark, pair: Pair) -> None:
    pair.there.execute("DELETE FROM numbers WHERE id IN (10, 2000)")
    pair.there.execute("ALTER TABLE numbers ADD CHECK (id <> 10)")
    diff = Diff(spark, pair, "numbers", repair=True)
    diff.compare(diff.run.plan())
    told = [(each.repaired, each.left) for each in diff.outcomes if each.differing]
    assert sorted(told) == [(0, 1), (1, 0)]
    assert "numbers_id_check" in " ".join(each.reason for each in diff.outcomes)


def test_sessions_end_with_the_diff(spark: Spark, pair: Pair) -> None:
    diff = Diff(spark, pair, "numbers")
    diff.compare(diff.run.plan())
    for url in (pair.source, pair.target):
        with psycopg.connect(url.to_wire().decode()) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name LIKE 'lockgate diff%'"
            ).fetchone()
            assert row == (0,)
