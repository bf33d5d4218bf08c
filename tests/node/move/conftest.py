"""One node of the service, with two databases to move tables between."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.hook_config import HookConfig
from lockgate.model.secret import Secret
from lockgate.model.server_config import ServerConfig
from lockgate.node.service import NodeService
from lockgate.pipeline.session import Spark
from tests.support.databases import fresh_database
from tests.support.feeds import Pair
from tests.support.moves import ORDERS, Moved, copied


@contextmanager
def serving(
    pair: Pair, hooks: Mapping[str, HookConfig] | None = None, metastore: str = ""
) -> Iterator[NodeService]:
    """A lone node, with a table of orders at the source."""
    pair.at_source(*ORDERS)
    config = ServerConfig(
        home=str(pair.home),
        node="one",
        lease_s=3.0,
        hooks=dict(hooks or {}),
        metastore=Secret(metastore),
        changelog=str(pair.home / "changelog") if metastore else "",
    )
    node = NodeService(config, spark=pair.spark)
    node.start("http://127.0.0.1:1")
    try:
        node.add_endpoint("shop", Secret(pair.source), "test")
        node.add_endpoint("copy", Secret(pair.target), "test")
        yield node
    finally:
        node.stop()


@pytest.fixture
def service(pair: Pair) -> Iterator[NodeService]:
    """A lone node, with a table of orders at the source."""
    with serving(pair) as node:
        yield node


@pytest.fixture(scope="module")
def moved(
    pg16: EmbeddedPostgres,
    pg18: EmbeddedPostgres,
    spark: Spark,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Moved]:
    """A move that is copied, for tests that leave it as they found it."""
    home = tmp_path_factory.mktemp("moved")
    with fresh_database(pg16) as source, fresh_database(pg18) as target:
        pair = Pair(source, target, home, spark)
        with serving(pair) as node:
            copied(node)
            yield Moved(node, pair)
