"""A small shop to move: its tables, its first rows, and one transaction of its life."""

import random
from typing import Final

import psycopg

__all__ = ["open_shop", "shop_once"]

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


def shop_once(connection: psycopg.Connection, guest: str, rng: random.Random) -> int:
    """A guest comes, orders, pays, and somebody's order is cancelled: how many rows changed."""
    rows = 0
    customer = connection.execute(
        "INSERT INTO customers (name, notes) VALUES (%s, %s) RETURNING id",
        (guest, f'{{"lucky": {rng.randrange(100)}}}'),
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
