"""However many people read the metastore, the core gets at it, and so do the engines of feeds."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
import sqlalchemy as sa

from lockgate.model.batch import Joined, Landed, Loaded, LoadFailed, Renewed
from lockgate.store import pools
from lockgate.store.metastore import SqlMetastore
from lockgate.store.transactions import Alive, Transactions
from tests.support.stores import FEED, Place, own, put, span


@pytest.fixture
def store(sql: Place) -> Iterator[SqlMetastore]:
    """One whose readers do not wait long for a connection."""
    with SqlMetastore.open(sql.url, lease_ms=60_000, timeout_ms=1_000) as store:
        yield store


@contextmanager
def all_taken(transactions: Transactions, most: int) -> Iterator[None]:
    """As many readers in the middle of their reading as there can be."""
    reading, over = threading.Semaphore(0), threading.Event()

    def read(connection: sa.Connection, alive: Alive) -> None:
        connection.execute(sa.text("SELECT 1"))
        connection.rollback()  # or the server would hang up on one that idles in a transaction
        reading.release()
        while not over.wait(0.1):
            alive()

    with ExitStack() as stack:
        for _ in range(most):
            thread = threading.Thread(target=transactions.read, args=(read,))
            thread.start()
            stack.callback(thread.join)
        stack.callback(over.set)
        for _ in range(most):
            assert reading.acquire(timeout=30)
        yield


def test_the_core_does_not_wait_behind_those_who_read(store: SqlMetastore) -> None:
    joined = store.join("a", 0)
    assert isinstance(joined, Joined)
    own(store)
    with all_taken(store.transactions, sum(pools.PEOPLE)):
        assert isinstance(store.look(FEED), LoadFailed), "there was a connection left"
        assert isinstance(store.renew(joined.ref, 0), Renewed)
        assert store.commit(put(1, span(1))) == Landed(FEED, 1)
        assert isinstance(store.load(FEED), Loaded)
        assert store.leave(joined.ref)


def test_the_core_does_not_wait_behind_the_change_log(store: SqlMetastore) -> None:
    joined = store.join("a", 0)
    assert isinstance(joined, Joined)
    with all_taken(store.data, sum(pools.DATA)):
        assert isinstance(store.renew(joined.ref, 0), Renewed)


def test_the_change_log_does_not_wait_behind_those_who_read(store: SqlMetastore) -> None:
    with all_taken(store.transactions, sum(pools.PEOPLE)):
        assert store.data.read(lambda connection, _: connection.scalar(sa.text("SELECT 1"))) == 1
