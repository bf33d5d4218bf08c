"""The book of endpoints: named databases, and how to reach them.

A URL is kept as people wrote it. Where it holds a password, that password lies in the metastore,
which is as secret as the databases that it names; a reference (`${env:SHOP_PW}`) is kept as a
reference, and every node looks it up where it runs. In memory it is a `Secret` from end to end.

Feeds and moves rely on endpoints by name. So whoever changes one, and whoever enters a feed or a
move, take turns, and look at each other's book in the same transaction: none is exchanged or
removed under a feed or a move.
"""

from collections.abc import Callable, Collection
from typing import TypeAlias

import msgspec
import sqlalchemy as sa

from lockgate.model.errors import Conflict
from lockgate.model.secret import Secret
from lockgate.model.value import Value
from lockgate.store.births import take_turn
from lockgate.store.feeds import FeedEntry, all_feeds
from lockgate.store.moves import MoveEntry, all_moves
from lockgate.store.tables import endpoints, upsert
from lockgate.store.texts import fits, wanted
from lockgate.store.transactions import Alive, Transactions

__all__ = ["EndpointBook", "EndpointEntry", "unchanged"]


class EndpointEntry(Value, frozen=True):
    """One endpoint. `url` is what people wrote: a password may be in it, or references."""

    name: str
    url: Secret


Check: TypeAlias = Callable[[EndpointEntry | None, list[FeedEntry], list[MoveEntry]], None]
"""Looks at the entry that is to be changed, at all feeds and moves; raises what is to be said
against it. Nobody enters a feed or a move before the change is there."""


class EndpointBook:
    """All endpoints of one metastore."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def write(self, entry: EndpointEntry, check: Check | None = None) -> None:
        """Put an entry in, or in place of the former one of that name, unless `check` objects."""
        row = {"name": wanted(entry.name, "the endpoint's name"), "body": _encoded(entry)}

        def work(connection: sa.Connection, _: Alive) -> tuple[None, bool]:
            take_turn(connection)
            if check is not None:
                check(_found(connection, entry.name), all_feeds(connection), all_moves(connection))
            connection.execute(upsert(connection, endpoints), row)
            return None, True

        with self._transactions.told("write the book of endpoints"):
            self._transactions.write(work)

    def read(self, name: str) -> EndpointEntry | None:
        """The entry of that name, or None."""
        if not fits(name):
            return None
        with self._transactions.told("read the book of endpoints"):
            return self._transactions.read(lambda connection, _: _found(connection, name))

    def all(self) -> list[EndpointEntry]:
        """Every entry, by name."""
        query = sa.select(endpoints.c.body).order_by(endpoints.c.name)
        with self._transactions.told("read the book of endpoints"):
            return self._transactions.read(
                lambda connection, _: [_decoded(body) for body in connection.scalars(query)]
            )

    def remove(self, name: str, check: Check | None = None) -> bool:
        """Take the entry out, unless `check` objects. False: there was none."""
        if not fits(name):
            return False

        def work(connection: sa.Connection, _: Alive) -> tuple[bool, bool]:
            take_turn(connection)
            if check is not None:
                check(_found(connection, name), all_feeds(connection), all_moves(connection))
            gone = connection.execute(sa.delete(endpoints).where(endpoints.c.name == name))
            return gone.rowcount > 0, gone.rowcount > 0

        with self._transactions.told("write the book of endpoints"):
            return self._transactions.write(work)


def unchanged(entries: Collection[EndpointEntry]) -> Callable[[sa.Connection], None]:
    """For whoever enters a feed or a move between these: raises Conflict when one was changed."""

    def check(connection: sa.Connection) -> None:
        for entry in entries:
            if _found(connection, entry.name) != entry:
                raise Conflict(
                    "the endpoint was changed or removed at this moment",
                    object_=entry.name,
                    hint="ask again",
                )

    return check


def _found(connection: sa.Connection, name: str) -> EndpointEntry | None:
    query = sa.select(endpoints.c.body).where(endpoints.c.name == name)
    body: str | None = connection.execute(query).scalar_one_or_none()
    return None if body is None else _decoded(body)


def _encoded(entry: EndpointEntry) -> str:
    return msgspec.json.encode(entry, enc_hook=_revealed).decode()


def _decoded(body: str) -> EndpointEntry:
    return msgspec.json.decode(body, type=EndpointEntry, dec_hook=_hidden)


def _revealed(secret: object) -> str:
    assert isinstance(secret, Secret)
    return secret.reveal()


def _hidden(kind: type, text: object) -> Secret:
    if kind is not Secret or not isinstance(text, str):
        raise TypeError("a URL is text")
    return Secret(text)
