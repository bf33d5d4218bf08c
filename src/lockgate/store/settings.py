"""What is decided once for a whole cluster, by whichever node comes first.

For instance the key that nodes show each other: each starts with a proposal of its own, and all go
on with the one that was there first.
"""

from typing import Final

import sqlalchemy as sa

from lockgate.store.tables import settings, upsert
from lockgate.store.transactions import Alive, Transactions

__all__ = ["INSTALLATION", "Settings"]

INSTALLATION: Final = "installation"
"""The name by which a service's slots are known at its sources; where it is, a service is."""


class Settings:
    """The settings of one metastore. Keys are Lockgate's own words."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def once(self, key: str, value: str) -> str:
        """Settle on `value` unless it is settled already; answers what holds, for everybody."""

        def work(connection: sa.Connection, _: Alive) -> tuple[str, bool]:
            # Of two at once the later waits here until the earlier has committed, and then sees it.
            connection.execute(
                upsert(connection, settings, change=False), {"key": key, "body": value}
            )
            held: str = connection.execute(_query(key)).scalar_one()
            return held, True

        known = self.read(key)
        if known is not None:
            return known
        with self._transactions.told("settle what holds for the cluster"):
            return self._transactions.write(work)

    def read(self, key: str) -> str | None:
        """What was settled, or None."""

        def work(connection: sa.Connection, _: Alive) -> str | None:
            held: str | None = connection.execute(_query(key)).scalar_one_or_none()
            return held

        with self._transactions.told("read what holds for the cluster"):
            return self._transactions.read(work)


def _query(key: str) -> sa.Select[str]:
    return sa.select(settings.c.body).where(settings.c.key == key)
