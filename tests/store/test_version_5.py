"""A home that was made before there was a service opens, and keeps everything that is in it."""

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import pytest
import sqlalchemy as sa

from lockgate.model.ids import NodeRef
from lockgate.model.secret import Secret
from lockgate.model.tokens import AccessToken, Role
from lockgate.store import tables
from lockgate.store.access import Tokens
from lockgate.store.endpoints import EndpointBook, EndpointEntry
from lockgate.store.history import History
from lockgate.store.location import SqliteLocation, locate
from lockgate.store.members import Members, NodeRow
from lockgate.store.metastore import SqlMetastore
from lockgate.store.migrations import MIGRATIONS, migrate
from lockgate.store.postgres import PostgresBackend
from lockgate.store.reports import Reports
from lockgate.store.settings import Settings
from lockgate.store.sqlite import SqliteBackend
from tests.support.stores import LEASE_MS, Place

ROWS: Final[dict[str, list[dict[str, object]]]] = {
    "scopes": [
        {"scope": "feed:shop", "fence": 4, "serial": 9},
        {"scope": "node:a", "fence": 2, "serial": 3},
        {"scope": "node:b", "fence": 7, "serial": 0},
    ],
    "records": [{"scope": "feed:shop", "kind": "span", "id": "s1", "body": "{}"}],
    "nodes": [
        {"node": "a", "incarnation": 2, "expires_at": 5_000, "length_ms": 1_000},
        {"node": "b", "incarnation": 7, "expires_at": 2_000_000, "length_ms": 0},
    ],
    "changelog": [
        {
            "feed": "shop",
            "epoch": 4,
            "seq": 1,
            "incarnation": 2,
            "floor": 10,
            "resolved": 99,
            "next_seq": 3,
        }
    ],
    "segments": [
        {
            "feed": "shop",
            "id": 2,
            "table": "public.orders",
            "shape": "x",
            "path": "shop/2.parquet",
            "low": 11,
            "high": 99,
            "rows": 5,
            "bytes": 1_000,
            "written_at": 77,
        }
    ],
    "schema_changes": [{"feed": "shop", "position": 50, "body": "[]"}],
    "feed_book": [{"feed": "shop", "body": "{}"}],
    "log_shapes": [{"feed": "shop", "number": 1, "body": "{}"}],
}
"""Something in every table that people's data hang on, as version 5 wrote it."""


@contextlib.contextmanager
def connected(url: str) -> Iterator[sa.Connection]:
    """Into the database itself, with a transaction that commits."""
    location = locate(url)
    backend = (
        SqliteBackend(location, 5_000)
        if isinstance(location, SqliteLocation)
        else PostgresBackend(location, 5_000)
    )
    backend.settle()
    try:
        with backend.engine.begin() as connection:
            yield connection
    finally:
        backend.engine.dispose()


def held(connection: sa.Connection) -> dict[str, list[dict[str, Any]]]:
    """What the tables of version 5 hold, as far as version 5 knew their columns."""
    found = {}
    for name, rows in ROWS.items():
        columns: list[sa.ColumnClause[Any]] = [sa.column(column) for column in rows[0]]
        query = sa.select(*columns).select_from(sa.Table(name, sa.MetaData())).order_by(columns[0])
        found[name] = [dict(row) for row in connection.execute(query).mappings()]
    return found


@pytest.fixture
def old(sql: Place) -> Place:
    """A place where version 5 left a home in use."""
    with connected(sql.url) as connection:
        if sql.kind == "postgres":
            connection.execute(sa.schema.CreateSchema(tables.SCHEMA))
        migrate(connection, 0, MIGRATIONS[:5])
        for name, rows in ROWS.items():
            table = sa.Table(name, sa.MetaData(), *(sa.Column(column) for column in rows[0]))
            connection.execute(sa.insert(table), rows)
        assert held(connection) == ROWS
    return sql


def test_a_home_of_version_5_keeps_its_rows(old: Place) -> None:
    old.open()
    with connected(old.url) as connection:
        assert held(connection) == ROWS


def test_a_node_of_version_5_has_told_neither_address_nor_home(old: Place) -> None:
    store = old.open()
    assert isinstance(store, SqlMetastore)
    assert Members(store.transactions, store.clock).all() == [
        NodeRow("a", 2, "", "", alive=False),
        NodeRow("b", 7, "", "", alive=True),
    ]


def test_a_node_of_version_5_may_come_back_from_any_home(old: Place) -> None:
    with SqlMetastore.open(old.url, lease_ms=LEASE_MS, now_ms=old.clock, home="/h") as store:
        store.join("b", 0)
        [_, b] = Members(store.transactions, store.clock).all()
        assert b == NodeRow("b", 8, "", "/h", alive=True)


def test_a_home_of_version_5_takes_what_the_service_writes(old: Place) -> None:
    store = old.open()
    assert isinstance(store, SqlMetastore)
    EndpointBook(store.transactions).write(EndpointEntry("shop", Secret("postgres://db/shop")))
    Tokens(store.transactions).write(AccessToken("ci", Role.VIEWER, "d"))
    Settings(store.transactions).once("key", "value")
    assert Reports(store.transactions, store.clock).write(NodeRef("a", 2), {"shop": b"well"})
    history = History(store.transactions, store.clock)
    history.write("ci", "feed create", "shop")
    assert [entry.id for entry in history.read("shop", None, 10)] == [1]
