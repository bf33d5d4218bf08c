"""A feed whose role at the source may have no event triggers: the stream alone tells of columns."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.errors import Terminal
from lockgate.model.feeds import FeedState
from lockgate.pipeline.session import Spark
from tests.support.databases import fresh_database
from tests.support.feeds import Pair, level
from tests.support.roles import role


@contextmanager
def _owned(database: str) -> Iterator[str]:
    """The database for a role that owns what it makes there, reads the log, and no more."""
    with role(database, "REPLICATION") as (name, url):
        with psycopg.connect(database) as admin:
            for grant in ("CREATE ON DATABASE {}", "CREATE ON SCHEMA public"):
                dbname = sql.Identifier(admin.info.dbname)
                what = sql.SQL(grant).format(dbname) if "{}" in grant else sql.SQL(grant)
                admin.execute(sql.SQL("GRANT {} TO {}").format(what, sql.Identifier(name)))
        yield url


@pytest.fixture
def pair(
    pg16: EmbeddedPostgres, pg18: EmbeddedPostgres, spark: Spark, tmp_path: Path
) -> Iterator[Pair]:
    with fresh_database(pg16) as source, fresh_database(pg18) as target, _owned(source) as url:
        yield Pair(url, target, tmp_path / "home", spark)


@dataclass
class Failed:
    error: str
    steps: str


def failed(pair: Pair, *statements: str) -> Failed:
    """What the feed says after a transaction at the source that it cannot follow."""
    with pair.running() as runner:
        level(runner)
        pair.at_source(*statements)
        with pytest.raises(Terminal):
            level(runner)
        status = runner.status()
        assert status.state is FeedState.FAILED
        return Failed(status.error, " ".join(status.next_steps))


def test_it_copies_and_streams_and_says_how_schema_changes_are_seen(pair: Pair) -> None:
    pair.at_source(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TABLE a (id int PRIMARY KEY, v varchar(7), m mood, n numeric(8,2)[])",
        "INSERT INTO a SELECT n, 'x' || n, 'ok', ARRAY[n / 3.0] FROM generate_series(1, 500) n",
        "CREATE TABLE p (id int, at date, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')",
        "INSERT INTO p VALUES (1, '2020-05-05')",
        "CREATE TABLE whole (a int, b text)",
        "ALTER TABLE whole REPLICA IDENTITY FULL",
    )
    with pair.running() as runner:
        assert any("event triggers" in note for note in runner.status().notes)
        level(runner)
        pair.at_source(
            "UPDATE a SET m = 'sad' WHERE id < 10", "INSERT INTO p VALUES (2, '2020-06-06')"
        )
        pair.at_source("TRUNCATE p", "INSERT INTO p VALUES (3, '2020-07-07')")
        pair.at_source("INSERT INTO whole VALUES (1, 'x'), (1, 'x')")
        level(runner)
        pair.assert_equal("public.a", "public.p", "public.whole")
        assert runner.status().state is FeedState.NORMAL
        # Nothing of this was taken for a change of a table.
        position = runner._context.entry.start
        assert position is not None
        assert runner._context.read_log(position).ddls == []
        runner.remove()
    assert pair.ask_source("SELECT pubname FROM pg_publication") == []


def test_column_changes_come_in_order_with_the_rows(pair: Pair) -> None:
    """Between transactions and inside of them; also what old rows hold in a new column."""
    pair.at_source(
        "CREATE TABLE a (id int PRIMARY KEY, v varchar(5), w int)",
        "CREATE TABLE b (id int PRIMARY KEY)",
        "INSERT INTO a SELECT n, 'x' || n, n FROM generate_series(1, 10) n",
    )
    with pair.running() as runner:
        level(runner)
        pair.at_source("ALTER TABLE a ADD COLUMN c int DEFAULT 5 NOT NULL, ADD COLUMN d text")
        pair.at_source("UPDATE a SET c = 6, d = 'd' WHERE id = 1")
        pair.at_source(
            "INSERT INTO b VALUES (1)",
            "UPDATE a SET d = 'before' WHERE id = 2",
            "ALTER TABLE a DROP COLUMN d",
            "UPDATE a SET c = 7 WHERE id = 3",
            "ALTER TABLE b ADD COLUMN x int DEFAULT 9",
            "INSERT INTO b VALUES (2, 3)",
            "ALTER TABLE a ALTER COLUMN w TYPE bigint, ALTER COLUMN v TYPE text",
            "INSERT INTO a VALUES (11, 'longer than five', 5000000000, 8)",
        )
        level(runner)
        pair.assert_equal("public.a", "public.b")
        types = pair.ask_target(
            "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute "
            "WHERE attrelid = 'a'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )
        assert types == [
            ("id", "integer", True),
            ("v", "text", False),
            ("w", "bigint", False),
            ("c", "integer", True),
        ]


def test_a_column_change_while_the_feed_is_stopped_is_followed(pair: Pair) -> None:
    """And one before it, that the log holds already, is not done again."""
    pair.at_source("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    with pair.running() as runner:
        level(runner)
        pair.at_source("ALTER TABLE a ADD COLUMN b int DEFAULT 1", "INSERT INTO a VALUES (2, 2)")
        level(runner)
    pair.at_source("INSERT INTO a VALUES (3, 3)")
    pair.at_source("ALTER TABLE a DROP COLUMN b, ADD COLUMN c int DEFAULT 4")
    with pair.running() as runner:
        level(runner)
        assert pair.ask_target("SELECT count(*) FROM a") == [(3,)]
    pair.at_source("ALTER TABLE a DROP COLUMN c")
    pair.at_source("INSERT INTO a VALUES (4)")
    with pair.running() as runner:
        level(runner)
        pair.assert_equal("public.a")


def test_a_renamed_column_stops_the_feed_and_is_named(pair: Pair) -> None:
    pair.at_source("CREATE TABLE a (id int PRIMARY KEY, old int)", "INSERT INTO a VALUES (1, 1)")
    said = failed(
        pair,
        "INSERT INTO a VALUES (2, 2)",
        "ALTER TABLE a RENAME COLUMN old TO new",
        "INSERT INTO a VALUES (3, 3)",
    )
    assert "public.a" in said.error
    assert "old" in said.error
    assert "new" in said.error
    assert "superuser" in said.steps
    # Everything before it is applied, even of the same transaction.
    assert pair.ask_target("SELECT * FROM a ORDER BY 1") == [(1, 1), (2, 2)]


def test_a_column_that_took_the_name_of_a_dropped_one_stops_the_feed(pair: Pair) -> None:
    """By names alone it looks as if the other one were dropped."""
    pair.at_source(
        "CREATE TABLE a (id int PRIMARY KEY, x int, y int)", "INSERT INTO a VALUES (1, 1, 2)"
    )
    said = failed(
        pair,
        "ALTER TABLE a DROP COLUMN x",
        "ALTER TABLE a RENAME COLUMN y TO x",
        "INSERT INTO a VALUES (2, 2)",
    )
    assert "names of others (x)" in said.error


def test_a_renamed_table_stops_the_feed_and_is_named(pair: Pair) -> None:
    pair.at_source("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    said = failed(pair, "ALTER TABLE a RENAME TO z", "INSERT INTO z VALUES (2)")
    assert "public.a" in said.error
    assert "public.z" in said.error


def test_a_default_that_old_rows_got_each_its_own_stops_the_feed(pair: Pair) -> None:
    pair.at_source("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    said = failed(
        pair,
        "ALTER TABLE a ADD COLUMN r float8 DEFAULT random()",
        "INSERT INTO a VALUES (2)",
    )
    assert "the new column r" in said.error
