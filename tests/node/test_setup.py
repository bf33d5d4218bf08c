"""A feed's set-up that was broken off is taken up again, whatever happened at the source since."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from lockgate.endpoints.postgres.schema.create import TableDiffers
from lockgate.endpoints.postgres.source.errors import NotOurs
from lockgate.endpoints.postgres.source.names import slot_name
from lockgate.model.errors import EndpointBusy
from lockgate.store.feeds import FeedBook, FeedEntry
from tests.support.bad_days import prepare
from tests.support.feeds import Pair, level
from tests.support.waiting import until

_WAITS = """
SELECT true FROM pg_locks l JOIN pg_stat_activity a USING (pid)
 WHERE l.locktype = 'transactionid' AND NOT l.granted AND a.datname = current_database()
"""


@contextmanager
def _slot_in_the_way(ends: Pair) -> Iterator[None]:
    """A slot that bears the feed's name and is somebody else's: the set-up ends before it."""
    name = slot_name("feed", str(ends.home.resolve()), 1)
    with psycopg.connect(ends.source, autocommit=True) as connection:
        connection.execute("SELECT pg_create_physical_replication_slot(%s)", (name,))
        yield
        connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))


def _broken_off(ends: Pair) -> None:
    with _slot_in_the_way(ends), pytest.raises(NotOurs):
        prepare(ends)


def _columns(ends: Pair) -> list[tuple[str, str]]:
    return ends.ask_target(
        "SELECT table_name::text, column_name::text FROM information_schema.columns "
        "WHERE table_schema = 'public' ORDER BY 1, 2"
    )


def test_tables_that_changed_since_are_made_again(ends: Pair) -> None:
    ends.at_source("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    _broken_off(ends)
    assert _columns(ends) == [("a", "id"), ("b", "id")]
    ends.at_source("ALTER TABLE a ADD COLUMN v int", "DROP TABLE b", "CREATE TABLE c (n int)")
    prepare(ends)
    assert _columns(ends) == [("a", "id"), ("a", "v"), ("c", "n")]


def test_a_table_that_somebody_else_made_is_left_alone(ends: Pair) -> None:
    ends.at_source("CREATE TABLE a (id int PRIMARY KEY)")
    ends.at_target("CREATE TABLE a (id int PRIMARY KEY)")
    _broken_off(ends)
    ends.at_source("ALTER TABLE a ADD COLUMN v int")
    with pytest.raises(TableDiffers):
        prepare(ends)
    assert _columns(ends) == [("a", "id")]


def test_a_table_that_has_rows_by_now_is_left_alone(ends: Pair) -> None:
    ends.at_source("CREATE TABLE a (id int PRIMARY KEY)")
    _broken_off(ends)
    ends.at_target("INSERT INTO a VALUES (1)")
    ends.at_source("ALTER TABLE a ADD COLUMN v int")
    with pytest.raises(TableDiffers):
        prepare(ends)
    assert ends.ask_target("SELECT id FROM a") == [(1,)]


def test_a_slot_that_was_not_written_down_is_made_anew(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log has schema changes that the tables at the target have from the catalog already."""
    pair.at_source("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    write = FeedBook.write

    def killed(book: FeedBook, entry: FeedEntry) -> None:
        if entry.start is not None:
            raise KeyboardInterrupt
        write(book, entry)

    with monkeypatch.context() as patch:
        patch.setattr(FeedBook, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            prepare(pair)
    mine = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    assert pair.ask_source(mine) == [(1,)]
    pair.at_source("CREATE TABLE c (id int PRIMARY KEY)", "INSERT INTO c VALUES (1)")
    pair.at_source("ALTER TABLE a ADD COLUMN v int", "UPDATE a SET v = 2")
    with pair.running() as runner:
        level(runner)
        pair.assert_equal("public.a", "public.c")
        pair.at_source("INSERT INTO c VALUES (2)")
        level(runner)
        pair.assert_equal("public.c")


def test_a_slot_that_is_waited_for_gives_way_to_who_changes_a_table_meanwhile(ends: Pair) -> None:
    """The slot waits for his transaction, and he for the set-up, which holds the table still."""
    ends.at_source("CREATE TABLE a (id int PRIMARY KEY)")
    with psycopg.connect(ends.source) as migration, ThreadPoolExecutor(1) as pool:
        migration.execute("INSERT INTO a VALUES (1)")
        made = pool.submit(prepare, ends)
        with psycopg.connect(ends.source, autocommit=True) as beside:
            until(lambda: beside.execute(_WAITS).fetchone() or made.done(), 60.0)
        migration.execute("SET LOCAL lock_timeout = '30s'")
        migration.execute("ALTER TABLE a ADD COLUMN v int")
        migration.commit()
        with pytest.raises(EndpointBusy, match="held still"):
            made.result(60.0)
    prepare(ends)
    assert _columns(ends) == [("a", "id"), ("a", "v")]
