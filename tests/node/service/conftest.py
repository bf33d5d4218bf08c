"""One node of the service, with two databases for a feed."""

from collections.abc import Iterator

import pytest

from lockgate.model.secret import Secret
from lockgate.model.server_config import ServerConfig
from lockgate.node.service import NodeService
from tests.support.feeds import Pair


@pytest.fixture
def service(pair: Pair) -> Iterator[NodeService]:
    """A lone node, with both databases added as endpoints."""
    config = ServerConfig(home=str(pair.home), node="one", lease_s=3.0)
    node = NodeService(config, spark=pair.spark)
    node.start("http://127.0.0.1:1")
    try:
        node.add_endpoint("shop", Secret(pair.source), "test")
        node.add_endpoint("copy", Secret(pair.target), "test")
        yield node
    finally:
        node.stop()
