"""Somebody who writes to the source and does not rest, unless everybody is to look."""

import contextlib
import random
import threading
from collections.abc import Iterator, Sequence
from typing import Final

import psycopg
from psycopg import sql

from soak.background import Background

__all__ = ["KEYS", "Writer", "make_tables"]

KEYS: Final = 2_000
_AWAY: Final = 1_000_000
"""A key that is changed goes this far, and comes back."""
_PAUSE_S: Final = 0.03
_AGAIN_S: Final = 0.3


def make_tables(url: str, tables: Sequence[str]) -> None:
    """Tables to write to, half full."""
    with psycopg.connect(url) as connection:
        for table in tables:
            name = sql.Identifier(*table.split("."))
            connection.execute(
                sql.SQL("CREATE TABLE {} (id int PRIMARY KEY, v int, t text)").format(name)
            )
            connection.execute(
                sql.SQL(
                    "INSERT INTO {} SELECT n * 2, 0, 'first' FROM generate_series(1, %s) n"
                ).format(name),
                (KEYS // 2,),
            )


class Writer(Background):
    """Small transactions on all tables: inserts, updates, deletes, changed keys."""

    def __init__(self, url: str, tables: Sequence[str], seed: int = 0) -> None:
        super().__init__("writer", again_s=_AGAIN_S)
        self._url = url
        self._tables = [sql.Identifier(*table.split(".")) for table in tables]
        self._rng = random.Random(seed)
        self._turn = threading.Lock()
        self.transactions = 0

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """Nothing is written, and all that was is committed."""
        with self._turn:
            self.check()
            yield

    def _work(self) -> None:
        with psycopg.connect(self._url, connect_timeout=10) as connection:
            self._write(connection)

    def _write(self, connection: psycopg.Connection) -> None:
        while not self._stopped.wait(self._rng.random() * 2 * _PAUSE_S):
            with self._turn:
                try:
                    for table in self._tables:
                        self._change(connection, table)
                    connection.commit()
                    self.transactions += 1
                except psycopg.errors.IntegrityError:  # the key is taken
                    connection.rollback()

    def _change(self, connection: psycopg.Connection, table: sql.Identifier) -> None:
        rng = self._rng
        key, value = rng.randrange(1, KEYS + 1), rng.randrange(10**6)
        kind = rng.random()
        if kind < 0.35:
            statement = "INSERT INTO {} VALUES (%(key)s, %(value)s, 'new') ON CONFLICT DO NOTHING"
        elif kind < 0.75:
            statement = "UPDATE {} SET v = %(value)s WHERE id BETWEEN %(key)s AND %(key)s + 20"
        elif kind < 0.88:
            statement = "DELETE FROM {} WHERE id BETWEEN %(key)s AND %(key)s + 3"
        else:
            statement = (
                "UPDATE {} SET id = CASE WHEN id < %(away)s THEN id + %(away)s "
                "ELSE id - %(away)s END WHERE id IN (%(key)s, %(key)s + %(away)s)"
            )
        given = {"key": key, "value": value, "away": _AWAY}
        connection.execute(sql.SQL(statement).format(table), given)
