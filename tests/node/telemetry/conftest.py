"""One node with a feed that has applied something: what there is to scrape."""

from collections.abc import Iterator

import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.feed_config import FeedConfig, read_config
from lockgate.model.secret import Secret
from lockgate.model.server_config import ServerConfig
from lockgate.node.service import NodeService
from lockgate.pipeline.session import Spark
from tests.support.databases import fresh_database
from tests.support.feeds import LEVEL_S, Pair


def config(**more: object) -> FeedConfig:
    """The feed of these tests."""
    document = {"name": "feed", "source": "shop", "target": "copy", "tables": ["public.*"]}
    return read_config({**document, "flush_interval_ms": 50, **more})


def level(service: NodeService) -> None:
    """Wait until the target has everything."""
    assert service.wait_feed("feed", LEVEL_S).level


@pytest.fixture(scope="module")
def shop(
    pg16: EmbeddedPostgres,
    pg18: EmbeddedPostgres,
    spark: Spark,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Pair]:
    """Two databases, for all tests of a module."""
    home = tmp_path_factory.mktemp("telemetry") / "home"
    with fresh_database(pg16) as source, fresh_database(pg18) as target:
        yield Pair(source, target, home, spark)


@pytest.fixture(scope="module")
def fed(shop: Pair) -> Iterator[NodeService]:
    """A lone node whose feed has copied 500 rows and applied changes."""
    shop.at_source(
        "CREATE TABLE a (id int PRIMARY KEY, v text)",
        "CREATE TABLE b (id int PRIMARY KEY, v text)",
        "INSERT INTO a SELECT n, 'v' || n FROM generate_series(1, 500) n",
    )
    node = NodeService(
        ServerConfig(home=str(shop.home), node="one", lease_s=10.0), spark=shop.spark
    )
    node.start("http://127.0.0.1:1")
    try:
        node.add_endpoint("shop", Secret(shop.source), "test")
        node.add_endpoint("copy", Secret(shop.target), "test")
        node.create_feed(config(), "test")
        level(node)
        shop.at_source("UPDATE a SET v = 'new' WHERE id <= 40")
        level(node)
        yield node
    finally:
        node.stop()
