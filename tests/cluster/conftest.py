"""Real nodes: processes of their own, a metastore on PostgreSQL, a Spark that outlives them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from soak.connect import ConnectServer
from soak.matrix.proxied import ProxiedWorld, open_proxied_world
from soak.matrix.world import World
from soak.nodes import Cluster
from tests.support.clusters import cluster
from tests.support.databases import fresh_database
from tests.support.feeds import Pair


@pytest.fixture(scope="session")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """A Spark that outlives the nodes that use it, and so do their tasks."""
    with ConnectServer(tmp_path_factory.mktemp("connect") / "log") as server:
        yield server


@pytest.fixture
def ends(pg16: EmbeddedPostgres, pg18: EmbeddedPostgres, tmp_path: Path) -> Iterator[Pair]:
    """Two databases for feeds that nodes run."""
    with fresh_database(pg16) as source, fresh_database(pg18) as target:
        yield Pair(source, target, tmp_path / "home")


@pytest.fixture
def nodes(
    ends: Pair, pg18: EmbeddedPostgres, connect: ConnectServer, tmp_path: Path
) -> Iterator[Cluster]:
    """No node yet: `nodes.start(name)` makes one. They end before the databases they use."""
    assert ends
    with cluster(pg18, tmp_path / "nodes", connect.url) as made:
        yield made


@pytest.fixture(scope="module")  # not for longer: it is under writes as long as it lives
def shared_world(
    pg16: EmbeddedPostgres,
    pg18: EmbeddedPostgres,
    connect: ConnectServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ProxiedWorld]:
    """Three nodes and two feeds under writes, with a proxy on every way between them."""
    folder = tmp_path_factory.mktemp("world")
    with (
        fresh_database(pg16) as source,
        fresh_database(pg18) as target,
        fresh_database(pg18) as metastore,
        open_proxied_world(folder, metastore, connect.url, source, target) as made,
    ):
        yield made


@pytest.fixture
def proxied(shared_world: ProxiedWorld) -> Iterator[ProxiedWorld]:
    """The common world, healthy before each test; a test that fails leaves its nodes going on."""
    shared_world.world.converge()
    yield shared_world
    shared_world.heal()


@pytest.fixture
def world(proxied: ProxiedWorld) -> World:
    """The same, for those who leave the ways alone."""
    return proxied.world
