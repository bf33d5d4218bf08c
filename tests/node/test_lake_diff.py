"""Tables of a lake on either side of a diff (D1, D2, D6)."""

import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg
import pytest

from lockgate.endpoints.delta.url import LakeUrl
from lockgate.endpoints.postgres.diff.snapshots import Snapshots
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.schema.discover import describe
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.diffs import DiffColumn, RangeOutcome, RowKind, TableRecord
from lockgate.model.selection import TableSelection
from lockgate.model.tables import TableName
from lockgate.pipeline.lake_diff import LakeDiffRun, LakeNotRepaired
from lockgate.pipeline.session import Spark
from tests.support.databases import fresh_database
from tests.support.feeds import level
from tests.support.lake_feeds import Shore

GOODS = """
CREATE TABLE goods (
    id bigint, part text, price numeric(10,2), weight float8, exact numeric, seen timestamptz,
    day date, raw bytea, facts jsonb, tags text[], "odd ""{name}`" text, gone bool,
    PRIMARY KEY (id, part))
"""
FILL = """
INSERT INTO goods SELECT n, 'p' || n % 3, n * 1.5, CASE n % 5 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0.0'
    ELSE n / 7.0 END, n * 1.10, '2026-01-01'::timestamptz + n * interval '1 s',
    CASE n % 9 WHEN 0 THEN NULL ELSE date '2026-01-01' + n END, decode(md5(n::text), 'hex'),
    jsonb_build_object('n', n), ARRAY['a', NULL, n::text], CASE n % 2 WHEN 0 THEN '' END, n % 2 = 0
FROM generate_series({}, {}) n
"""
ROWS = 2_000


def _url(shore: Shore) -> PostgresUrl:
    return PostgresUrl.parse(shore.source)


def _lake(path: Path) -> LakeUrl:
    return LakeUrl.parse(f"delta:{path}")


def _wanted(shore: Shore, *names: str) -> list[TableSelection]:
    tables = [TableName("public", name) for name in names]
    with psycopg.connect(shore.source) as connection:
        found = describe(connection, tables)
    return [
        TableSelection(table, table, tuple(column.name for column in found[table].columns))
        for table in tables
    ]


class Diff:
    """One attempt, and what came of it."""

    def __init__(
        self,
        spark: Spark,
        source: PostgresUrl | LakeUrl,
        target: PostgresUrl | LakeUrl,
        wanted: Sequence[TableSelection],
        feed: str = "",
    ) -> None:
        self.run = LakeDiffRun(spark, source, target, wanted, seed=7, tag="lake-diff", feed=feed)
        self.plan: tuple[TableRecord, ...] = ()
        self.errors: dict[str, str] = {}

    def compare(self) -> dict[str, RangeOutcome]:
        found: list[RangeOutcome] = []
        self.plan = self.run.plan()

        def snapshots() -> AbstractContextManager[Snapshots]:
            return self.run.snapshots()

        errors = self.run.compare(self.plan, (), snapshots, found.extend)
        self.errors = {table: f"{error.code}: {error.what}" for table, error in errors.items()}
        return {each.table.removeprefix("public."): each for each in found}


@pytest.fixture(scope="module")
def shore(
    pg16: EmbeddedPostgres, spark: Spark, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shore]:
    """A lake that a feed has filled, and that no feed writes any more."""
    folder = tmp_path_factory.mktemp("shore")
    with fresh_database(pg16) as source:
        shore = Shore(source, folder / "lake", folder / "home", spark)
        shore.at_source(
            GOODS,
            FILL.format(1, ROWS),
            "CREATE TABLE quiet (id int PRIMARY KEY)",
            "INSERT INTO quiet VALUES (1), (2)",
            "CREATE TABLE bare (v int)",
        )
        with shore.running(tables=["public.goods", "public.quiet"]) as runner:
            level(runner)
            _compare_under_writes(shore, spark)
            shore.at_source("INSERT INTO quiet VALUES (3)")
            level(runner)
            shutil.copytree(shore.lake, folder / "copy")
            shore.at_source("UPDATE goods SET price = price + 1 WHERE id = 5")
            level(runner)
        yield shore


_UNDER_WRITES: list[dict[str, RangeOutcome]] = []


def _compare_under_writes(shore: Shore, spark: Spark) -> None:
    over = threading.Event()

    def write() -> None:
        n = 10_000
        with psycopg.connect(shore.source, autocommit=True) as connection:
            while not over.wait(0.02):
                n += 10
                connection.execute(FILL.format(n, n + 9))
                connection.execute(f"UPDATE goods SET price = -price WHERE id % 100 = {n % 100}")
                connection.execute(f"DELETE FROM goods WHERE id BETWEEN {n - 95} AND {n - 93}")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        wanted = _wanted(shore, "goods", "quiet", "bare")  # the lake has no table `bare`
        diff = Diff(spark, _url(shore), _lake(shore.lake), wanted, "feed")
        _UNDER_WRITES.append(diff.compare())
        assert diff.errors == {}
    finally:
        over.set()
        writer.join()


def test_a_running_feed_and_its_lake_are_equal_at_one_position(shore: Shore) -> None:
    """D1: people write all the while. A table to which nothing comes is compared there, too; one
    that the lake has not is not waited for."""
    [found] = _UNDER_WRITES
    assert {name: each.differing for name, each in found.items()} == {"goods": 0, "quiet": 0}
    assert found["goods"].rows >= ROWS
    assert found["quiet"].rows == 2
    assert "/" in found["goods"].position


def test_one_missing_one_extra_and_one_changed_row_are_found(shore: Shore, spark: Spark) -> None:
    """D2, D6; and the other way round."""
    wanted = _wanted(shore, "goods")
    with psycopg.connect(shore.source, autocommit=True) as connection:
        connection.execute("DELETE FROM goods WHERE id = 7")
        connection.execute(FILL.format(77_777, 77_777))
        connection.execute("UPDATE goods SET facts = NULL, raw = '' WHERE id = 8")
    found = Diff(spark, _url(shore), _lake(shore.lake), wanted).compare()["goods"]
    assert (found.missing, found.extra, found.different) == (1, 1, 1)
    samples = {each.kind: each for each in found.samples}
    assert {kind: each.key for kind, each in samples.items()} == {
        RowKind.MISSING: {"id": "77777", "part": "p2"},
        RowKind.EXTRA: {"id": "7", "part": "p1"},
        RowKind.DIFFERENT: {"id": "8", "part": "p2"},
    }
    assert samples[RowKind.DIFFERENT].columns == (
        DiffColumn("raw", "", "c9f0f895fb98ab9159f51fd0297e236d"),
        DiffColumn("facts", None, '{"n": 8}'),
    )
    other = Diff(spark, _lake(shore.lake), _url(shore), wanted).compare()["goods"]
    assert (other.missing, other.extra, other.different) == (1, 1, 1)
    assert other.rows == found.rows
    again = {each.kind: each.key["id"] for each in other.samples}
    assert again == {RowKind.MISSING: "7", RowKind.EXTRA: "77777", RowKind.DIFFERENT: "8"}


def test_two_lakes(shore: Shore, spark: Spark) -> None:
    wanted = _wanted(shore, "goods", "quiet")
    here, there = _lake(shore.lake), _lake(shore.lake.parent / "copy")
    found = Diff(spark, here, there, wanted).compare()
    assert {name: each.differing for name, each in found.items()} == {"goods": 1, "quiet": 0}
    [sample] = found["goods"].samples
    assert (sample.kind, sample.key["id"]) == (RowKind.DIFFERENT, "5")
    assert [each.name for each in sample.columns] == ["price"]


def test_what_a_lake_does_not_have_is_told(shore: Shore, spark: Spark) -> None:
    diff = Diff(spark, _url(shore), _lake(shore.lake), _wanted(shore, "bare", "quiet"))
    assert list(diff.compare()) == ["quiet"]
    bare = diff.plan[0]
    assert bare.trouble is not None
    assert (bare.trouble.code, bare.ranges) == ("not-found", 0)


def test_a_lake_is_not_repaired(shore: Shore, spark: Spark) -> None:
    with pytest.raises(LakeNotRepaired) as refused:
        LakeDiffRun(spark, _url(shore), _lake(shore.lake), [], seed=1, tag="lake-diff", repair=True)
    assert "feed resync" in refused.value.hint


def test_a_source_that_was_rewritten_is_not_taken_for_empty(shore: Shore, spark: Spark) -> None:
    """What a task has to say comes back as an error that is known."""
    run = LakeDiffRun(
        spark, _url(shore), _lake(shore.lake), _wanted(shore, "quiet"), seed=1, tag="lake-diff"
    )
    plan = run.plan()
    found: list[RangeOutcome] = []
    opened = 0

    class Rewriting:
        """Snapshots after which, the first time, the table is written anew."""

        def __enter__(self) -> Snapshots:
            nonlocal opened
            opened += 1
            self._held = run.snapshots()
            held = self._held.__enter__()
            if opened == 1:
                shore.at_source("ALTER TABLE quiet SET (fillfactor = 90)", "TRUNCATE quiet")
                shore.at_source("INSERT INTO quiet VALUES (1), (2), (3)")
            return held

        def __exit__(self, *error: object) -> None:
            self._held.__exit__(None, None, None)

    assert run.compare(plan, (), Rewriting, found.extend) == {}
    assert (opened, [each.differing for each in found]) == (2, [0])
