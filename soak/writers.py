"""People at work on the source: they never rest, and come back when the server does.

Every transaction is one of the kinds below, on random rows. What a server refuses (a unique value
that is taken, a deadlock between two of them) is rolled back and forgotten: that, too, leaves its
traces in the log, and none of them may arrive.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import psycopg
from psycopg import sql

from soak.tables import SEEDED

__all__ = ["Writers"]

Work = Callable[[psycopg.Connection, random.Random], str | None]

_PAUSE_S: Final = 0.02
_AWAY_S: Final = 0.5
_TRANSIENT: Final = 1 << 40
"""Keys from here on are made by the writers."""


def _some(rng: random.Random) -> int:
    """A key that may be there: mostly one of the first, where rows are changed again and again."""
    return rng.randrange(1, SEEDED + 1) if rng.random() < 0.5 else rng.randrange(1, 500)


def _new(rng: random.Random) -> int:
    return _TRANSIENT + rng.randrange(1 << 20)


def insert(connection: psycopg.Connection, rng: random.Random) -> None:
    key = _new(rng)
    connection.execute(
        "INSERT INTO accounts (id, email, balance) VALUES (%s, %s, %s)",
        (key, f"w{key}@example.org", rng.randrange(10**6) / 100),
    )
    connection.execute("INSERT INTO notes VALUES (%s, %s, 'first')", (key, key))
    connection.execute(
        "INSERT INTO pairs VALUES (%s, %s, %s, %s)",
        (rng.randrange(10**6), f"k{rng.randrange(50)}", rng.random(), ["new", None]),
    )


def update(connection: psycopg.Connection, rng: random.Random) -> None:
    for _ in range(rng.randrange(1, 5)):
        connection.execute(
            "UPDATE accounts SET balance = balance + 1, changed = clock_timestamp() WHERE id = %s",
            (_some(rng),),
        )
    connection.execute(
        "UPDATE pairs SET v = v + 1, tags = array_append(tags, 'x') WHERE a = %s", (_some(rng),)
    )


def delete(connection: psycopg.Connection, rng: random.Random) -> None:
    """With the notes that hang on it."""
    connection.execute("DELETE FROM accounts WHERE id = %s", (_some(rng),))
    connection.execute(
        "DELETE FROM pairs WHERE (b, a) IN (SELECT b, a FROM pairs WHERE a >= %s LIMIT 2)",
        (_some(rng),),
    )


def insert_and_delete(connection: psycopg.Connection, rng: random.Random) -> None:
    """One key three times in one transaction."""
    key = _some(rng)
    connection.execute("DELETE FROM notes WHERE id = %s", (key,))
    for text in ("one", "two"):
        connection.execute("INSERT INTO notes VALUES (%s, NULL, %s)", (key, text))
        connection.execute("DELETE FROM notes WHERE id = %s", (key,))
    connection.execute("INSERT INTO notes VALUES (%s, NULL, 'three')", (key,))


def change_key(connection: psycopg.Connection, rng: random.Random) -> None:
    connection.execute("UPDATE accounts SET id = %s WHERE id = %s", (_new(rng), _some(rng)))
    connection.execute("UPDATE pairs SET a = a + 1000000 WHERE a = %s", (_some(rng),))


def swap(connection: psycopg.Connection, rng: random.Random) -> None:
    """Two unique values change places: at once where that is allowed, else by way of nothing."""
    one, other = _some(rng), _some(rng)
    connection.execute(
        "UPDATE accounts a SET rank = b.rank FROM accounts b "
        "WHERE (a.id, b.id) IN ((%(one)s, %(other)s), (%(other)s, %(one)s))",
        {"one": one, "other": other},
    )
    found = connection.execute(
        "SELECT id, email FROM accounts WHERE id IN (%s, %s) FOR UPDATE", (one, other)
    ).fetchall()
    if len(found) == 2:
        (a, mine), (b, yours) = found
        connection.execute("UPDATE accounts SET email = NULL WHERE id = %s", (a,))
        connection.execute("UPDATE accounts SET email = %s WHERE id = %s", (mine, b))
        connection.execute("UPDATE accounts SET email = %s WHERE id = %s", (yours, a))


def edit(connection: psycopg.Connection, rng: random.Random) -> None:
    """Mostly what lies beside the row stays as it is, and is not in the log."""
    number = rng.randrange(1, 11) if rng.random() < 0.5 else rng.randrange(1, SEEDED // 50)
    which = f"md5('{number}')::uuid"
    connection.execute(
        f"UPDATE documents SET version = version + 1, title = title || '.' WHERE id = {which}"
    )
    if rng.random() < 0.2:
        connection.execute(f"UPDATE documents SET body = reverse(body) WHERE id = {which}")


def happen(connection: psycopg.Connection, rng: random.Random) -> None:
    """A table without a key: the same row several times, one of them deleted."""
    kind = f"k{rng.randrange(5)}"
    for _ in range(rng.randrange(1, 4)):
        connection.execute("INSERT INTO events VALUES (%s, '{\"a\": [1, null]}', 7)", (kind,))
    one = "(SELECT ctid FROM events WHERE n = %s LIMIT 1)"
    connection.execute(f"DELETE FROM events WHERE ctid = {one}", (rng.randrange(100),))
    connection.execute(
        f"UPDATE events SET n = n + 1 WHERE ctid = {one}",
        (rng.randrange(100),),
    )


def burst(connection: psycopg.Connection, rng: random.Random) -> None:
    """Many rows at once, and now and then all of them gone."""
    if rng.random() < 0.4:
        connection.execute("TRUNCATE bursts")
    low = rng.randrange(10**6)
    connection.execute(
        "INSERT INTO bursts SELECT n, decode(md5(n::text), 'hex') "
        "FROM generate_series(%s::int, %s::int) n "
        "ON CONFLICT (id) DO UPDATE SET v = '\\x00'",
        (low, low + rng.randrange(50, 3000)),
    )


def abort(connection: psycopg.Connection, rng: random.Random) -> None:
    """What is taken back, wholly or in part, leaves nothing."""
    connection.execute("INSERT INTO events VALUES ('never', NULL, -1)")
    connection.execute("SAVEPOINT here")
    connection.execute("DELETE FROM accounts WHERE id < 300")
    connection.execute("ROLLBACK TO here")
    if rng.random() < 0.5:
        connection.execute("DELETE FROM events WHERE kind = 'never'")
        update(connection, rng)
    else:
        connection.rollback()


def reshape_table(connection: psycopg.Connection, rng: random.Random) -> str:
    """A table comes or goes, or has another name, with rows before and after in the transaction."""
    name = _extra(rng)
    if not _there(connection, name):
        connection.execute(
            sql.SQL("CREATE TABLE {} (id int PRIMARY KEY, v text)").format(_id(name))
        )
        _touch(connection, rng, name)
        return "create table"
    _touch(connection, rng, name)
    kind = rng.random()
    if kind < 0.4:
        connection.execute(sql.SQL("DROP TABLE {}").format(_id(name)))
        return "drop table"
    other = _extra(rng)
    if kind < 0.7 and not _there(connection, other):
        connection.execute(sql.SQL("ALTER TABLE {} RENAME TO {}").format(_id(name), _id(other)))
        _touch(connection, rng, other)
        return "rename table"
    return ""


def reshape_column(connection: psycopg.Connection, rng: random.Random) -> str:
    """A column comes or goes, or has another name, with rows before and after."""
    name, other = (f"c{rng.randrange(4)}" for _ in range(2))
    found = {
        each
        for (each,) in connection.execute(
            "SELECT column_name::text FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND table_name = 'wide'"
        )
    }
    connection.execute("UPDATE wide SET v = v + 1 WHERE id = %s", (rng.randrange(1000),))
    if name not in found:
        done = "add column"
        connection.execute(
            sql.SQL("ALTER TABLE wide ADD COLUMN {} int DEFAULT 5").format(_id(name))
        )
    elif other not in found:
        done = "rename column"
        connection.execute(
            sql.SQL("ALTER TABLE wide RENAME COLUMN {} TO {}").format(_id(name), _id(other))
        )
        name = other
    else:
        connection.execute(sql.SQL("ALTER TABLE wide DROP COLUMN {}").format(_id(name)))
        return "drop column"
    connection.execute(
        sql.SQL("UPDATE wide SET {} = %s WHERE id = %s").format(_id(name)),
        (rng.randrange(10), rng.randrange(1000)),
    )
    return done


def reshape(connection: psycopg.Connection, rng: random.Random) -> str:
    """Columns and tables come and go; what was done, if anything."""
    return rng.choice([reshape_table, reshape_column])(connection, rng)


def _extra(rng: random.Random) -> str:
    return f"extra_{rng.randrange(4)}"


def _there(connection: psycopg.Connection, table: str) -> bool:
    found = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (table,)).fetchone()
    assert found is not None
    return bool(found[0])


def _touch(connection: psycopg.Connection, rng: random.Random, table: str) -> None:
    connection.execute(
        sql.SQL("INSERT INTO {} VALUES (%s, 'x') ON CONFLICT (id) DO UPDATE SET v = 'y'").format(
            _id(table)
        ),
        (rng.randrange(1000),),
    )


def _id(name: str) -> sql.Identifier:
    return sql.Identifier(name)


KINDS: Final[dict[Work, int]] = {
    insert: 12,
    update: 20,
    delete: 6,
    insert_and_delete: 4,
    change_key: 4,
    swap: 6,
    edit: 8,
    happen: 8,
    burst: 2,
    abort: 3,
}
"""How often each is done, compared with the others."""


@dataclass
class Writers:
    """Writers in threads. What was committed is counted."""

    url: str
    count: int = 3
    seed: int | str = 0
    schema: str = "public"
    pause_s: float = _PAUSE_S
    """On average, after each transaction."""
    reshape_every: int = 150
    """One of them, after so many transactions, changes the schema."""
    most: int | None = None
    """They rest after so many transactions. Without: a slow machine has more to catch up with."""
    transactions: int = 0
    refused: int = 0
    lost: int = 0
    """Connections that were lost: the server had gone."""
    ddl: Counter[str] = field(default_factory=Counter)
    """What was done to the schema."""
    bugs: list[BaseException] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Begin to write."""
        for number in range(self.count):
            thread = threading.Thread(target=self._write, args=(number,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End after the transactions under way."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def schema_changes(self) -> int:
        return self.ddl.total()

    def _write(self, number: int) -> None:
        rng = random.Random(f"{self.seed} {number}")
        try:
            while not self._stop.is_set():
                try:
                    with psycopg.connect(
                        self.url,
                        connect_timeout=10,
                        options=f"-c search_path={self.schema}",
                    ) as connection:
                        self._work(connection, rng, number)
                except psycopg.OperationalError:
                    with self._lock:
                        self.lost += 1
                    self._stop.wait(_AWAY_S)
        except BaseException as bug:
            self.bugs.append(bug)

    def _work(self, connection: psycopg.Connection, rng: random.Random, number: int) -> None:
        done = 0
        while not self._stop.wait(rng.random() * 2 * self.pause_s):
            if self.most is not None and self.transactions >= self.most:
                continue
            done += 1
            [work] = rng.choices(list(KINDS), list(KINDS.values()))
            if number == 0 and done % self.reshape_every == 0:
                work = reshape
            try:
                said = work(connection, rng)
                connection.commit()
            except (psycopg.errors.IntegrityError, psycopg.errors.TransactionRollback):
                connection.rollback()
                with self._lock:
                    self.refused += 1
                continue
            with self._lock:
                self.transactions += 1
                if said:
                    self.ddl[said] += 1
