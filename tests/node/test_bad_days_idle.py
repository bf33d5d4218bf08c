"""C11: an idle source does not keep its log for us, and a slow feed does not fill its disk."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from tests.support.bad_days import SOON_S, until_failed, until_normal, until_warned
from tests.support.databases import fresh_database
from tests.support.feeds import Pair, level
from tests.support.waiting import until

_MIB = 1 << 20
_FILL = "INSERT INTO other SELECT n, md5(n::text) FROM generate_series(1, 40000) n"
"""Some MiB of log."""


def test_an_idle_source_advances_its_slot(pair: Pair, pg16: EmbeddedPostgres) -> None:
    """Nothing is written to the feed's tables; another database of the server makes log."""
    pair.at_source("CREATE TABLE t (id int PRIMARY KEY)")
    with pair.running() as runner, fresh_database(pg16) as neighbour:
        level(runner)
        with psycopg.connect(neighbour, autocommit=True) as connection:
            connection.execute("CREATE TABLE other (n int, v text)")
            connection.execute(_FILL)
            end = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        assert end is not None
        _until_past(pair, end[0])
        _until_past(pair, pair.slots("confirmed_flush_lsn::text")[0][0])


def _until_past(pair: Pair, position: str) -> None:
    column = f"confirmed_flush_lsn > '{position}'"
    until(lambda: pair.slots(column) == [(True,)], SOON_S)


@contextmanager
def _open_transaction(pair: Pair) -> Iterator[psycopg.Connection]:
    """As long as it is open, the slot must keep the log from its beginning on."""
    with psycopg.connect(pair.source) as connection:
        connection.execute("INSERT INTO other VALUES (0, '')")
        yield connection
        connection.rollback()


def test_retained_log_is_warned_about_and_the_warning_goes(pair: Pair) -> None:
    pair.at_source("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (n int, v text)")
    limits = {"wal_warn_bytes": _MIB, "wal_stop_bytes": 1000 * _MIB}
    with pair.running(tables=["public.t"], **limits) as runner:
        level(runner)
        with _open_transaction(pair):
            pair.at_source(_FILL)
            [(slot,)] = pair.slots()
            error = until_warned(runner, "WAL", slot)
            assert "MiB" in error
            assert any("stops at 1000.0 MiB" in step for step in runner.status().next_steps)
            pair.at_source("INSERT INTO t VALUES (1)")
            level(runner)
            pair.assert_equal("public.t")
        # The server notes every now and then who is running; only then it lets log go.
        pair.at_source("SELECT pg_log_standby_snapshot()")
        until_normal(runner)


def test_retained_log_beyond_the_limit_stops_the_feed(pair: Pair) -> None:
    pair.at_source("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (n int, v text)")
    limits = {"wal_warn_bytes": _MIB, "wal_stop_bytes": _MIB + 1}
    with pair.running(tables=["public.t"], **limits) as runner:
        level(runner)
        with _open_transaction(pair):
            pair.at_source(_FILL)
            error, hint = until_failed(runner)
            assert "WAL" in error
            assert "the limit is 1.0 MiB" in error
            assert "raise the limit" in hint
            assert "remove the feed" in hint
    # Whoever frees the log, or has room for it, goes on where the feed was.
    pair.at_source("INSERT INTO t VALUES (1)")
    with pair.running(tables=["public.t"], **limits) as runner:
        level(runner)
        pair.assert_equal("public.t")
