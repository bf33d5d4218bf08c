"""The tokens that open the service: their names, roles and digests, never themselves."""

from typing import Any

import msgspec
import sqlalchemy as sa

from lockgate.model.tokens import AccessToken, Role
from lockgate.store.tables import tokens, upsert
from lockgate.store.texts import fits, wanted
from lockgate.store.transactions import Alive, Transactions

__all__ = ["Tokens"]


class Tokens:
    """All tokens of one metastore."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def write(self, token: AccessToken) -> None:
        """Put a token in, or in place of the former one of that name, which opens nothing now."""
        row = {
            "name": wanted(token.name, "the token's name"),
            "role": token.role.value,
            "digest": token.digest,
        }

        def work(connection: sa.Connection, _: Alive) -> tuple[None, bool]:
            connection.execute(upsert(connection, tokens), row)
            return None, True

        with self._transactions.told("write the tokens"):
            self._transactions.write(work)

    def all(self) -> list[AccessToken]:
        """Every token, by name."""
        return self._read(sa.select(tokens).order_by(tokens.c.name))

    def find(self, digest: str) -> AccessToken | None:
        """The token of this digest, or None: it opens nothing."""
        if not fits(digest):
            return None
        # Two names for one token: an accident, and then the first one counts, every time.
        query = sa.select(tokens).where(tokens.c.digest == digest).order_by(tokens.c.name).limit(1)
        return next(iter(self._read(query)), None)

    def remove(self, name: str) -> bool:
        """Take a token out. False: there was none."""
        if not fits(name):
            return False

        def work(connection: sa.Connection, _: Alive) -> tuple[bool, bool]:
            gone = connection.execute(sa.delete(tokens).where(tokens.c.name == name))
            return gone.rowcount > 0, gone.rowcount > 0

        with self._transactions.told("write the tokens"):
            return self._transactions.write(work)

    def _read(self, query: sa.Select[Any]) -> list[AccessToken]:
        def work(connection: sa.Connection, _: Alive) -> list[AccessToken]:
            return [
                AccessToken(row.name, msgspec.convert(row.role, Role), row.digest)
                for row in connection.execute(query)
            ]

        with self._transactions.told("read the tokens"):
            return self._transactions.read(work)
