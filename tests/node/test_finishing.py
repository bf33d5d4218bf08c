"""What is built after the rows: at once what cannot wait, the rest once the target is so far."""

import threading
from collections.abc import Callable

import psycopg
import pytest

from lockgate.endpoints.postgres.schema.compose import TablePlan
from lockgate.endpoints.postgres.schema.create import create
from lockgate.endpoints.postgres.schema.deferred import Deferred, DeferredKind
from lockgate.endpoints.postgres.schema.discover import discover
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import DataRefused
from lockgate.model.ids import Token
from lockgate.model.tables import TableName
from lockgate.node.feed import guard
from lockgate.node.feed.finishing import Builder, Finishing
from lockgate.node.home import Home
from lockgate.store.feeds import FeedBook
from lockgate.store.metastore import SqlMetastore
from tests.support.feeds import LEVEL_S, Pair, level
from tests.support.waiting import until

T = TableName("public", "t")
CHECK = "SELECT convalidated FROM pg_constraint WHERE conname = 'positive'"


def _plan(ends: Pair, *rows: str) -> TablePlan:
    """The source's table, made at the target without its key, and with rows."""
    with psycopg.connect(ends.source) as source, psycopg.connect(ends.target) as target:
        plan = TablePlan(discover(source, [T])[T], T, with_key=False)
        create(target, [plan])
        for values in rows:
            target.execute(f"INSERT INTO t VALUES ({values})")  # type: ignore[call-overload]
    return plan


def _builder(ends: Pair) -> Builder:
    return Builder.of_feed(PostgresUrl.parse(ends.target), "feed", Token(1, 1, 1))


# --- right after the rows -----------------------------------------------------------------------


def test_no_build_of_a_table_waits_for_another(ends: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that need the table for themselves come one by one, and before plain indexes."""
    ends.at_source(
        "CREATE TABLE t (id int PRIMARY KEY, a int UNIQUE, b int, EXCLUDE (b WITH =))",
        "CREATE INDEX by_a ON t (a)",
        "CREATE INDEX by_b ON t (b)",
    )
    under_way: list[DeferredKind] = []
    met: list[tuple[DeferredKind, ...]] = []
    both = threading.Barrier(2)

    def build(_: Builder, each: Deferred) -> None:
        met.append(tuple(under_way))
        under_way.append(each.kind)
        if each.kind is DeferredKind.INDEX:
            both.wait(LEVEL_S)
        under_way.remove(each.kind)

    monkeypatch.setattr(Builder, "_build", build)
    _builder(ends).indexes(_plan(ends))
    assert met == [(), (), (), (), (DeferredKind.INDEX,)]


@pytest.mark.parametrize(
    ("made", "missing"),
    [
        ("CREATE TABLE t (id int PRIMARY KEY, v int UNIQUE)", {"t_v_key"}),
        ("CREATE TABLE t (id int PRIMARY KEY, v int); CREATE UNIQUE INDEX one ON t (v)", {"one"}),
        ("CREATE TABLE t (id int PRIMARY KEY, v int, EXCLUDE (v WITH =))", {"t_v_excl"}),
    ],
)
def test_an_index_that_the_rows_do_not_fit_yet_can_wait(
    ends: Pair, monkeypatch: pytest.MonkeyPatch, made: str, missing: set[str]
) -> None:
    monkeypatch.setattr(Builder, "_enter", lambda *_: None)
    ends.at_source(*made.split("; "))
    plan = _plan(ends, "1, 7", "2, 7")
    builder = _builder(ends)
    builder.indexes(plan)
    names = "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 't'::regclass"
    assert {name for (name,) in ends.ask_target(names)} == {"t_pkey"}
    with pytest.raises(DataRefused, match=missing.copy().pop()):
        builder.constraints([plan])
    ends.at_target("DELETE FROM t WHERE id = 2")
    assert builder.constraints([plan])
    assert {name for (name,) in ends.ask_target(names)} == {"t_pkey"} | missing


def test_what_changes_find_their_rows_by_cannot_wait(
    ends: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Builder, "_enter", lambda *_: None)
    ends.at_source(
        "CREATE TABLE t (id int NOT NULL)",
        "CREATE UNIQUE INDEX one ON t (id)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX one",
    )
    with pytest.raises(DataRefused, match="one"):
        _builder(ends).indexes(_plan(ends, "1", "1"))


# --- at the end ---------------------------------------------------------------------------------


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left is tried before any change is applied, not some seconds later."""
    monkeypatch.setattr(guard, "SOON_S", 0.01)


def _finished(pair: Pair) -> bool:
    with SqlMetastore.open(Home(pair.home).metastore_url, lease_ms=10_000) as metastore:
        entry = FeedBook(metastore.transactions).read("feed")
    assert entry is not None
    return entry.finished


def _run_first(pair: Pair, until_then: Callable[[], bool]) -> None:
    """Copy a table; then, while nobody captures, it gets a row and a check that forbids it."""
    pair.at_source("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    with pair.running() as runner:
        level(runner)
        until(until_then, LEVEL_S)
    pair.at_source("INSERT INTO t VALUES (-1)")
    pair.at_source("ALTER TABLE t ADD CONSTRAINT positive CHECK (id > 0) NOT VALID")


@pytest.mark.usefixtures("at_once")
def test_a_constraint_comes_after_the_rows_that_it_would_refuse(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = "SELECT bool_and(copied) FROM lockgate.progress"
    with monkeypatch.context() as patch:
        patch.setattr(Finishing, "attempt", lambda *_: 0.05)
        _run_first(pair, lambda: pair.ask_target(copied) == [(True,)])
    assert not _finished(pair)
    with pair.running() as runner:
        level(runner)
        pair.assert_equal("public.t")
        until(lambda: _finished(pair), LEVEL_S)
        assert pair.ask_target(CHECK) == [(False,)]


@pytest.mark.usefixtures("at_once")
def test_what_the_source_gets_when_all_is_finished_is_not_built(pair: Pair) -> None:
    _run_first(pair, lambda: _finished(pair))
    with pair.running() as runner:
        level(runner)
        pair.assert_equal("public.t")
        assert pair.ask_target(CHECK) == []


@pytest.mark.usefixtures("at_once")
def test_a_source_that_is_always_written_to_comes_to_its_end(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt finds the log longer than the one before."""
    pair.at_source("CREATE TABLE t (id int PRIMARY KEY)")
    attempt = Finishing.attempt

    def written_to(self: Finishing, token: Token) -> bool:
        pair.at_source("INSERT INTO t SELECT coalesce(max(id), 0) + 1 FROM t")
        return attempt(self, token)

    monkeypatch.setattr(Finishing, "attempt", written_to)
    with pair.running():
        until(lambda: _finished(pair), LEVEL_S)
