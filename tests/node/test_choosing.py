"""Which tables a feed takes, of those that there are at the moment."""

from collections.abc import Iterator

import psycopg
import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.schema import discover
from lockgate.model.errors import UsageError
from lockgate.model.feed_config import FeedConfig
from lockgate.model.secret import Secret
from lockgate.model.tables import TableName
from lockgate.node.feed.setup import choose
from tests.support.databases import fresh_database


@pytest.fixture
def connection(
    pg18: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> Iterator[psycopg.Connection]:
    """Somebody drops a table between the list of tables and the look at them."""
    there, gone = discover.tables, TableName("public", "gone")
    monkeypatch.setattr(discover, "tables", lambda source: [*there(source), gone])
    with fresh_database(pg18) as url, psycopg.connect(url, autocommit=True) as made:
        made.execute("CREATE TABLE orders (id int PRIMARY KEY)")
        yield made


def _config(*tables: str) -> FeedConfig:
    return FeedConfig(name="feed", source=Secret("shop"), target=Secret("copy"), tables=tables)


def test_a_table_that_goes_while_tables_are_looked_at_is_none_of_the_feeds(
    connection: psycopg.Connection,
) -> None:
    [chosen] = choose(connection, _config("public.*"))
    assert chosen.definition.table.id == "public.orders"


def test_a_table_that_is_named_has_to_be_there(connection: psycopg.Connection) -> None:
    with pytest.raises(UsageError, match="gone"):
        choose(connection, _config("public.orders", "public.gone"))
