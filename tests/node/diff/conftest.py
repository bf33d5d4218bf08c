"""One node of the service, with two databases whose tables are compared."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lockgate.model.diffs import DiffDocument, DiffOrder, DiffState
from lockgate.model.feed_config import read_config
from lockgate.model.secret import Secret
from lockgate.model.server_config import ServerConfig
from lockgate.node.service import NodeService
from tests.support.feeds import LEVEL_S, Pair
from tests.support.waiting import until

DIFF_S = 120.0
APART = DiffOrder(source="shop", target="copy", tables=("public.*",))
BY_FEED = DiffOrder(source="", target="", tables=(), feed="feed")
ORDERS = (
    "CREATE TABLE orders (id int PRIMARY KEY, note text, total numeric)",
    "INSERT INTO orders SELECT n, 'note ' || n, n / 10.0 FROM generate_series(1, 2000) n",
    "CREATE TABLE users (id int PRIMARY KEY, name text)",
    "INSERT INTO users SELECT n, 'user ' || n FROM generate_series(1, 100) n",
    "ANALYZE",
)


@contextmanager
def a_node(pair: Pair, name: str = "one") -> Iterator[NodeService]:
    config = ServerConfig(home=str(pair.home), node=name, lease_s=3.0)
    node = NodeService(config, spark=pair.spark)
    node.start("http://127.0.0.1:1")
    try:
        yield node
    finally:
        node.stop()


@pytest.fixture
def service(pair: Pair) -> Iterator[NodeService]:
    """A lone node, with both databases added as endpoints; the source has two tables."""
    pair.at_source(*ORDERS)
    with a_node(pair) as node:
        node.add_endpoint("shop", Secret(pair.source), "test")
        node.add_endpoint("copy", Secret(pair.target), "test")
        yield node


@pytest.fixture
def same(service: NodeService, pair: Pair) -> NodeService:
    """The target has the same tables, and no feed brings them."""
    pair.at_target(*ORDERS)
    return service


@pytest.fixture
def fed(service: NodeService) -> NodeService:
    """A feed has brought them."""
    document = {
        "name": "feed",
        "source": "shop",
        "target": "copy",
        "tables": ["public.*"],
        "flush_interval_ms": 50,
    }
    service.create_feed(read_config(document), "test")
    assert service.wait_feed("feed", LEVEL_S).level
    return service


def over(service: NodeService, diff: str) -> DiffDocument:
    """How a diff is when it is over."""
    until(lambda: service.diffs.one(diff).state is not DiffState.RUNNING, DIFF_S, 0.05)
    return service.diffs.one(diff)


def run(service: NodeService, order: DiffOrder = APART) -> DiffDocument:
    """A diff, from its beginning to its end."""
    return over(service, service.diffs.run(order, "test").id)
