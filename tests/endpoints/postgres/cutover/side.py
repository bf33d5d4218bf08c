"""A side of a move for tests: a schema of its own with some tables, and people who write there."""

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.cutover import MoveMark, MoveRow, look
from lockgate.endpoints.postgres.schema.identifiers import identifier
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.tables import TableName

_NUMBERS = itertools.count(1)

ODD = 'T"; DROP TABLE %s; --ü' + "漢" * 13 + "x"
"""As odd and as long as names may be."""
assert len(ODD.encode()) == 63


class Side:
    """Tables `orders` and `ODD`, in a schema that nobody else uses."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.number = next(_NUMBERS)
        self.schema = f"Side {self.number}"
        self.mark = MoveMark(f"move-{self.number}", 7, 3)
        self.admin = psycopg.connect(url, autocommit=True)
        self.admin.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self.schema)))
        self.tables = [self.name("orders"), self.name(ODD)]
        for table in self.tables:
            self.do("CREATE TABLE {} (id bigserial PRIMARY KEY, note text)", table)

    @property
    def orders(self) -> TableName:
        return self.tables[0]

    @property
    def label(self) -> str:
        return PostgresUrl.parse(self.url).label

    def name(self, name: str) -> TableName:
        return TableName(self.schema, name)

    def keeper(self, number: int) -> MoveMark:
        return MoveMark(self.mark.move, self.mark.birth, number)

    def row(self) -> MoveRow | None:
        return look(self.url, self.mark.move, self.mark.birth)

    def do(
        self, statement: str, *tables: TableName, by: psycopg.Connection | None = None
    ) -> list[tuple[Any, ...]]:
        """A statement with `{}` for tables; its rows."""
        composed = sql.SQL(statement).format(*map(identifier, tables))  # type: ignore[arg-type]
        cursor = (by or self.admin).execute(composed)
        return cursor.fetchall() if cursor.description else []

    def insert(self, table: TableName | None = None, by: psycopg.Connection | None = None) -> None:
        self.do("INSERT INTO {} (note) VALUES ('x')", table or self.orders, by=by)

    def count(self, table: TableName | None = None) -> int:
        number: int = self.do("SELECT count(*) FROM {}", table or self.orders)[0][0]
        return number

    def guards(self) -> list[tuple[str, str]]:
        """Tables with a guard, and how it is enabled."""
        found = self.admin.execute(
            "SELECT c.relname, g.tgenabled::text FROM pg_trigger g JOIN pg_class c "
            "ON c.oid = g.tgrelid WHERE g.tgname = 'lockgate_guard' "
            'AND c.relnamespace = to_regnamespace(%s) ORDER BY c.relname COLLATE "C"',
            (f'"{self.schema}"',),
        )
        return [(name, enabled) for name, enabled in found]

    @contextmanager
    def person(self, **options: Any) -> Iterator[psycopg.Connection]:
        """Somebody's session."""
        with psycopg.connect(self.url, application_name="app", **options) as connection:
            yield connection

    @contextmanager
    def holding(self, table: TableName | None = None) -> Iterator[psycopg.Connection]:
        """Somebody who has written to a table, and does not commit until the end."""
        with self.person() as connection:
            self.insert(table, by=connection)
            yield connection
            if not connection.closed:
                connection.rollback()

    def close(self) -> None:
        self.admin.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(self.schema)))
        self.admin.close()


class Writers:
    """Threads that insert into the tables for as long as they are let, and keep what was
    acknowledged: the table and the id that the server gave."""

    def __init__(self, side: Side, count: int = 3, options: str = "") -> None:
        self._side = side
        self._options = options
        self._over = threading.Event()
        self._lock = threading.Lock()
        self.acknowledged: list[tuple[TableName, int]] = []
        self.refused: list[str] = []
        """SQLSTATEs."""
        self.failed: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True)
            for number in range(count)
        ]

    def __enter__(self) -> "Writers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(20.0)
        assert not self.failed, self.failed

    def rows(self) -> int:
        with self._lock:
            return len(self.acknowledged)

    def refusals(self) -> int:
        with self._lock:
            return len(self.refused)

    def _run(self, number: int) -> None:
        try:
            with self._side.person(options=self._options) as connection:
                for turn in itertools.count():
                    if self._over.is_set():
                        return
                    self._write(connection, self._tables(number + turn))
        except BaseException as error:
            self.failed.append(error)

    def _tables(self, turn: int) -> Sequence[TableName]:
        """One table, or all of them, in one order or the other."""
        tables = self._side.tables
        return ([tables[0]], tables, tables[::-1])[turn % 3]

    def _write(self, connection: psycopg.Connection, tables: Sequence[TableName]) -> None:
        written = []
        try:
            for table in tables:
                rows = self._side.do(
                    "INSERT INTO {} (note) VALUES ('w') RETURNING id", table, by=connection
                )
                written.append((table, rows[0][0]))
            connection.commit()
        except psycopg.Error as error:
            connection.rollback()
            with self._lock:
                self.refused.append(error.sqlstate or "")
            return
        with self._lock:
            self.acknowledged += written
