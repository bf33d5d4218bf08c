"""The book of feeds: what each was asked to be, and what was made for it at its endpoints.

An entry is written before the first thing is made at an endpoint and removed after the last one
is gone. So whatever of Lockgate's is found at an endpoint is named here, and a set-up that was
broken off is taken up where it stopped, or cleared away.
"""

import msgspec
import sqlalchemy as sa

from lockgate.model.errors import LockgateError
from lockgate.model.ids import FeedId, TableId
from lockgate.model.positions import Position
from lockgate.model.value import Value
from lockgate.store.faults import as_error
from lockgate.store.tables import feeds, upsert
from lockgate.store.transactions import Alive, Failed, Transactions

__all__ = ["FeedBook", "FeedEntry"]


class FeedEntry(Value, frozen=True):
    """One feed. `config` is the document that people wrote; `slot` and `publication` are names
    at the source. Until `start` is known, the set-up is not finished."""

    feed: FeedId
    config: msgspec.Raw
    slot: str
    publication: str
    start: Position | None = None
    tables: tuple[TableId, ...] = ()
    """The tables that were selected at `start`."""
    making: tuple[TableId, ...] = ()
    """Tables at the target that were not there before the set-up: it may make them again."""
    removing: bool = False
    """The feed is on its way out: nothing of it is to be started or made any more."""
    shapes: msgspec.Raw = msgspec.Raw(b"{}")
    """Their shapes at `start`, by table."""
    numbers: dict[TableId, int] = msgspec.field(default_factory=dict)
    """The source's lasting numbers of them."""
    logged: bool = True
    """The source logs its schema changes; otherwise the stream alone tells."""
    finished: bool = False
    """What the copy left to be built at the target, once the rows are there, is built."""


class FeedBook:
    """All entries of one metastore."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def write(self, entry: FeedEntry) -> None:
        """Put an entry in, or in place of the feed's former one."""

        def work(connection: sa.Connection, _: Alive) -> tuple[None, bool]:
            body = msgspec.json.encode(entry).decode()
            connection.execute(upsert(connection, feeds), {"feed": entry.feed, "body": body})
            return None, True

        try:
            self._transactions.write(work)
        except Failed as failed:
            raise self._error(failed, "write the book of feeds") from failed

    def finish(self, feed: FeedId) -> None:
        """Have the feed's entry say that it is finished, and all else as it is by now."""

        def work(connection: sa.Connection, _: Alive) -> tuple[None, bool]:
            found = _found(connection, feed, update=True)
            if found is None:
                return None, False
            body = msgspec.json.encode(msgspec.structs.replace(found, finished=True)).decode()
            connection.execute(upsert(connection, feeds), {"feed": feed, "body": body})
            return None, True

        try:
            self._transactions.write(work)
        except Failed as failed:
            raise self._error(failed, "write the book of feeds") from failed

    def read(self, feed: FeedId) -> FeedEntry | None:
        """The feed's entry, or None."""
        try:
            return self._transactions.read(lambda connection, _: _found(connection, feed))
        except Failed as failed:
            raise self._error(failed, "read the book of feeds") from failed

    def remove(self, feed: FeedId) -> None:
        """Nothing of the feed is left at its endpoints."""

        def work(connection: sa.Connection, _: Alive) -> tuple[None, bool]:
            connection.execute(sa.delete(feeds).where(feeds.c.feed == feed))
            return None, True

        try:
            self._transactions.write(work)
        except Failed as failed:
            raise self._error(failed, "write the book of feeds") from failed

    def _error(self, failed: Failed, operation: str) -> LockgateError:
        return as_error(failed.fault, self._transactions.label, operation)


def _found(connection: sa.Connection, feed: FeedId, *, update: bool = False) -> FeedEntry | None:
    query = sa.select(feeds.c.body).where(feeds.c.feed == feed)
    if update:
        query = query.with_for_update()
    body: str | None = connection.execute(query).scalar_one_or_none()
    return None if body is None else msgspec.json.decode(body, type=FeedEntry)
