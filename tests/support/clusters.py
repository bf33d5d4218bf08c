"""Clusters of real nodes for tests, and what must hold of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lockgate.client import Client
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.feed_status import FeedTable
from soak.nodes import Cluster
from tests.support.databases import fresh_database
from tests.support.feeds import LEVEL_S, Pair

SOON_S = 60.0


@contextmanager
def cluster(
    server: EmbeddedPostgres, folder: Path, spark: str, lease_s: float = 2.0
) -> Iterator[Cluster]:
    """Nodes that share a metastore of their own."""
    with fresh_database(server) as url, Cluster(folder, url, spark, lease_s=lease_s) as nodes:
        yield nodes


def add_ends(client: Client, pair: Pair) -> None:
    """Both databases as endpoints."""
    client.endpoints.add("shop", pair.source)
    client.endpoints.add("copy", pair.target)


def create(client: Client, name: str = "feed", **config: object) -> None:
    """A feed of all tables from one to the other."""
    given = {"tables": ["public.*"], "flush_interval_ms": 50, **config}
    client.feeds.create(name, source="shop", target="copy", **given)


def level(client: Client, name: str = "feed") -> None:
    """Wait until the target has everything."""
    assert client.feeds.wait(name, timeout_s=LEVEL_S).level


def tables(client: Client, name: str = "feed") -> dict[str, FeedTable]:
    """The feed's tables by name."""
    return {each.table: each for each in client.feeds.tables(name)}


def placed(client: Client, name: str = "feed") -> dict[str, str]:
    """Where each span runs; those without a place are missing."""
    return {
        span.span: span.node
        for table in client.feeds.tables(name)
        for span in table.spans
        if span.node and span.state == "running"
    }
