"""PostgreSQL when things break: a server that dies, a connection cut at COMMIT, silence.

The question each time: is it known whether the batch landed, and does repeating it settle that?
"""

import socket
import time
from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import errors

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.batch import (
    Batch,
    Joined,
    JoinFailed,
    Landed,
    Loaded,
    LoadFailed,
    NotLanded,
    Raise,
    Refused,
    Renewed,
    RenewFailed,
    Unknown,
)
from lockgate.model.errors import MetastoreUnavailable
from lockgate.store.location import PostgresLocation, locate
from lockgate.store.metastore import SqlMetastore
from lockgate.store.postgres import PostgresBackend
from tests.support.proxy import FaultProxy
from tests.support.stores import FEED, LEASE_MS, own, put, span

TIMEOUT_MS = 6_000  # also of who is busy in a transaction of ours: a full machine stops for seconds


def opened(url: str) -> SqlMetastore:
    return SqlMetastore.open(url, lease_ms=LEASE_MS, timeout_ms=TIMEOUT_MS)


@pytest.fixture
def proxy(postgres: EmbeddedPostgres) -> Iterator[FaultProxy]:
    with FaultProxy(postgres.host, postgres.port) as proxy:
        yield proxy


@pytest.fixture
def through(proxy: FaultProxy, postgres: EmbeddedPostgres, database: str) -> Iterator[SqlMetastore]:
    """A metastore reached through the proxy; its feed's fence is 1."""
    with opened(database.replace(f":{postgres.port}/", f":{proxy.port}/")) as store:
        own(store)
        yield store


@pytest.fixture
def direct(database: str, through: SqlMetastore) -> Iterator[SqlMetastore]:
    """The same metastore, past the proxy."""
    with opened(database) as store:
        yield store


# --- cut at COMMIT ------------------------------------------------------------------------------


@pytest.mark.parametrize("heard", [False, True], ids=["commit-lost", "answer-lost"])
def test_a_connection_cut_at_commit_is_unknown_and_the_same_batch_settles_it(
    proxy: FaultProxy, through: SqlMetastore, direct: SqlMetastore, heard: bool
) -> None:
    batch = put(1, span(1))
    proxy.cut_at(b"COMMIT", forward=heard)
    answer = through.commit(batch)
    assert proxy.hits == 1
    assert isinstance(answer, Unknown), answer
    # What the writer does not know: in one case it had landed, in the other it had not.
    landed = Loaded(FEED, 1, 1, (span(1),))
    assert direct.load(FEED) == (landed if heard else Loaded(FEED, 1, 0, ()))
    assert through.commit(batch) == Landed(FEED, 1)
    assert direct.load(FEED) == landed


@pytest.mark.parametrize("word", [b"INSERT INTO lockgate.records", b"FOR UPDATE"])
def test_a_connection_cut_before_commit_did_not_land(
    proxy: FaultProxy, through: SqlMetastore, direct: SqlMetastore, word: bytes
) -> None:
    proxy.cut_at(word, forward=False)
    answer = through.commit(put(1, span(1)))
    assert proxy.hits == 1
    assert isinstance(answer, NotLanded), answer
    assert direct.load(FEED) == Loaded(FEED, 1, 0, ())
    # The serial is free for something else.
    assert through.commit(put(1, span(2))) == Landed(FEED, 1)
    assert direct.load(FEED) == Loaded(FEED, 1, 1, (span(2),))


def test_in_doubt_and_then_fenced_is_refused(
    proxy: FaultProxy, through: SqlMetastore, direct: SqlMetastore
) -> None:
    batch = put(1, span(1))
    proxy.cut_at(b"COMMIT", forward=False)
    assert isinstance(through.commit(batch), Unknown)
    assert isinstance(
        direct.commit(Batch("coordinator", 0, 1, raises=(Raise(FEED, 1, 2),))), Landed
    )
    assert through.commit(batch) == Refused(FEED, 1, fence=2)
    assert direct.load(FEED) == Loaded(FEED, 2, 0, ())


def test_a_join_or_renewal_cut_at_commit_is_asked_again(
    proxy: FaultProxy, through: SqlMetastore
) -> None:
    proxy.cut_at(b"COMMIT", forward=True)
    assert isinstance(through.join("a", 0), JoinFailed)
    joined = through.join("a", 0)
    assert isinstance(joined, Joined)
    assert joined.ref.incarnation == 2
    proxy.cut_at(b"COMMIT", forward=True)
    assert isinstance(through.renew(joined.ref, 0), RenewFailed)
    assert isinstance(through.renew(joined.ref, 0), Renewed)


# --- silence ------------------------------------------------------------------------------------


def test_a_server_that_falls_silent_holds_nobody_for_ever(
    proxy: FaultProxy, through: SqlMetastore
) -> None:
    assert isinstance(through.commit(put(1, span(1))), Landed)
    proxy.fall_silent()
    started = time.monotonic()
    answer = through.commit(put(2, span(2)))
    assert isinstance(answer, NotLanded)
    assert "nothing was heard" in answer.why
    assert isinstance(through.load(FEED), LoadFailed)
    assert time.monotonic() - started < 4 * TIMEOUT_MS / 1000
    proxy.talk()
    assert through.commit(put(2, span(2))) == Landed(FEED, 2)


def test_silence_at_commit_is_unknown(proxy: FaultProxy, through: SqlMetastore) -> None:
    batch = put(1, span(1))
    proxy.cut_at(b"COMMIT", forward=False, then=lambda: time.sleep(2 * TIMEOUT_MS / 1000))
    assert isinstance(through.commit(batch), Unknown)
    assert through.commit(batch) == Landed(FEED, 1)


def test_waiting_for_somebodys_lock_is_bounded(database: str) -> None:
    with opened(database) as store:
        own(store)
        with psycopg.connect(database) as other:
            other.execute("SELECT * FROM lockgate.scopes FOR UPDATE")
            answer = store.commit(put(1, span(1)))
            assert isinstance(answer, NotLanded)
            assert "timeout" in answer.why
        assert isinstance(store.commit(put(1, span(1))), Landed)


def test_a_client_paused_in_its_transaction_loses_it(database: str) -> None:
    with opened(database) as paused, opened(database) as other:
        own(paused)
        with paused._backend.engine.connect() as connection:
            connection.execute(sa.text("SELECT * FROM lockgate.scopes FOR UPDATE"))
            # The paused one holds the row; the server takes it away, so that another gets it.
            answers = [other.commit(put(1, span(1))) for _ in range(3)]
            assert Landed(FEED, 1) in answers
            connection.invalidate()


# --- a server that dies -------------------------------------------------------------------------


@pytest.fixture
def mortal() -> Iterator[EmbeddedPostgres]:
    """A server of one's own, to kill. Only its processes die, not the machine: no fsync."""
    with EmbeddedPostgres(settings={"fsync": "off"}) as server:
        yield server


def test_a_killed_server_loses_nothing_and_settles_the_doubt(mortal: EmbeddedPostgres) -> None:
    with FaultProxy(mortal.host, mortal.port) as proxy:
        url = mortal.url().replace(f":{mortal.port}/", f":{proxy.port}/")
        with opened(url) as store:
            own(store)
            assert isinstance(store.commit(put(1, span(1))), Landed)

            # Down at the moment of COMMIT: unknown, and so it stays while the server is down.
            second = put(2, span(2))
            proxy.cut_at(b"COMMIT", forward=False, then=lambda: mortal.stop("immediate"))
            assert isinstance(store.commit(second), Unknown)
            assert isinstance(store.commit(second), Unknown)
            mortal.start()
            assert store.commit(second) == Landed(FEED, 2)

            # Down right after COMMIT was carried out: landed, although nobody was told.
            third = put(3, span(3))
            proxy.cut_at(b"COMMIT", forward=True, then=lambda: mortal.stop("kill"))
            assert isinstance(store.commit(third), Unknown)
            mortal.start()
            assert store.load(FEED) == Loaded(FEED, 1, 3, (span(1), span(2), span(3)))
            assert store.commit(third) == Landed(FEED, 3)

            # Down before anything began: certainly not landed.
            mortal.stop("immediate")
            assert isinstance(store.commit(put(4, span(4))), NotLanded)
            assert isinstance(store.load(FEED), LoadFailed)
            assert isinstance(store.join("a", 0), JoinFailed)
            with pytest.raises(MetastoreUnavailable):
                opened(mortal.url())
            mortal.start()
            assert store.commit(put(4, span(5))) == Landed(FEED, 4)


# --- what the server says at COMMIT -------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "certain"),
    [
        (errors.SerializationFailure("x"), True),
        (errors.DeadlockDetected("x"), True),
        (errors.UniqueViolation("x"), True),
        (errors.StatementCompletionUnknown("x"), False),
        (errors.AdminShutdown("x"), False),
        (errors.CrashShutdown("x"), False),
        (errors.QueryCanceled("x"), False),
        (errors.DiskFull("x"), False),
        (errors.ConnectionFailure("x"), False),
        (psycopg.OperationalError("the connection is lost"), False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_an_error_at_commit_is_certain_only_if_the_server_rolled_back(
    error: psycopg.Error, certain: bool
) -> None:
    location = locate("postgresql://u:hunter2@h/d")
    assert isinstance(location, PostgresLocation)
    backend = PostgresBackend(location, TIMEOUT_MS)
    wrapped = sa.exc.DBAPIError("COMMIT", None, error)
    assert backend.fault(wrapped, committing=True).certain is certain
    assert backend.fault(wrapped, committing=False).certain


def test_a_value_that_no_database_holds_is_an_error_and_not_an_answer(database: str) -> None:
    with opened(database) as store, pytest.raises(sa.exc.DataError):
        store.join("nul\x00", 0)


def test_a_port_that_accepts_and_says_nothing_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute, pytest.raises(MetastoreUnavailable):
        opened(f"postgresql://u:p@127.0.0.1:{mute.getsockname()[1]}/d")
