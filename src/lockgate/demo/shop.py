"""A small shop to replicate: its tables, its first rows, and writers that never rest."""

import random
import threading
from dataclasses import dataclass, field
from typing import Final

import psycopg

SCHEMA: Final = """
CREATE TYPE order_state AS ENUM ('open', 'paid', 'shipped');
CREATE TABLE customers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    email text UNIQUE,
    notes jsonb,
    since timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer bigint NOT NULL REFERENCES customers,
    state order_state NOT NULL DEFAULT 'open',
    total numeric(12, 2) NOT NULL,
    tags text[],
    placed timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX orders_by_customer ON orders (customer);
CREATE TABLE visits (at timestamptz NOT NULL DEFAULT now(), page text NOT NULL);
ALTER TABLE visits REPLICA IDENTITY FULL;
"""
"""Identities, a foreign key, an enum, numbers that must stay exact, and a table without a key."""

_CUSTOMERS: Final = """
INSERT INTO customers (name, email, notes)
SELECT 'customer ' || n, 'c' || n || '@example.org', jsonb_build_object('no', n)
FROM generate_series(1, %s) n
"""
_ORDERS: Final = """
INSERT INTO orders (customer, total, tags)
SELECT 1 + (n * 7919) %% %s, (n %% 100000) / 100.0, ARRAY['a' || n %% 7, NULL]
FROM generate_series(1, %s) n
"""


def open_shop(url: str, rows: int) -> None:
    """Make the tables, and about so many rows."""
    customers = max(10, rows // 10)
    with psycopg.connect(url) as connection:
        connection.execute(SCHEMA)
        connection.execute(_CUSTOMERS, (customers,))
        connection.execute(_ORDERS, (customers, rows))
        connection.execute(
            "INSERT INTO visits (page) SELECT 'page ' || n FROM generate_series(1, 100) n"
        )
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE")


@dataclass
class Writers:
    """Writers in threads. Every change that was acknowledged is counted."""

    url: str
    count: int = 2
    written: int = 0
    transactions: int = 0
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
        """End after the transaction under way."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, number: int) -> None:
        rng = random.Random(number)
        with psycopg.connect(self.url) as connection:
            while not self._stop.wait(0.002):
                rows = _transaction(connection, rng)
                connection.commit()
                with self._lock:
                    self.written += rows
                    self.transactions += 1


def _transaction(connection: psycopg.Connection, rng: random.Random) -> int:
    rows = 0
    customer = connection.execute(
        "INSERT INTO customers (name, notes) VALUES (%s, %s) RETURNING id",
        (f"guest {rng.random()}", f'{{"lucky": {rng.randrange(100)}}}'),
    ).fetchone()
    assert customer is not None
    for _ in range(rng.randrange(1, 4)):
        rows += connection.execute(
            "INSERT INTO orders (customer, total, tags) VALUES (%s, %s, %s)",
            (customer[0], rng.randrange(10_000_000) / 100, ["new", None]),
        ).rowcount
    rows += connection.execute(
        "UPDATE orders SET state = 'paid', total = total + 1 WHERE id = "
        "(SELECT id FROM orders WHERE id >= %s ORDER BY id LIMIT 1)",
        (rng.randrange(1_000_000),),
    ).rowcount
    rows += connection.execute(
        "DELETE FROM orders WHERE id = (SELECT id FROM orders WHERE id >= %s ORDER BY id LIMIT 1)",
        (rng.randrange(1_000_000),),
    ).rowcount
    rows += connection.execute("INSERT INTO visits (page) VALUES ('shop')").rowcount
    return rows + 1
