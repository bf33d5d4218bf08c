"""Clusters of real nodes for tests, and what must hold of them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from lockgate.client import Client
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.feed_status import FeedTable
from soak.matrix.world import NODES, World, free_port, open_world
from soak.nodes import Cluster
from tests.support.databases import fresh_database
from tests.support.feeds import LEVEL_S, Pair
from tests.support.proxy import FaultProxy

SOON_S = 60.0


class FaultyWorld(NamedTuple):
    """Nodes and feeds under writes, and a proxy on every way that something can be lost on."""

    world: World
    pair: Pair
    links: dict[str, FaultProxy]
    """To each node, for the others."""
    metastore: dict[str, FaultProxy]
    """From each node to the metastore."""
    source: FaultProxy
    target: FaultProxy

    def heal(self) -> None:
        """Nothing is lost any more, and every node is there."""
        for proxy in (*self.links.values(), *self.metastore.values(), self.source, self.target):
            proxy.heal()
        self.world.heal()


@contextmanager
def faulty_world(
    one: EmbeddedPostgres, other: EmbeddedPostgres, spark: str, folder: Path
) -> Iterator[FaultyWorld]:
    """The world of the crash matrix, through proxies. Who looks at it looks past them."""
    with ExitStack() as stack:
        source = stack.enter_context(fresh_database(one))
        target = stack.enter_context(fresh_database(other))
        metastore = stack.enter_context(fresh_database(other))

        def proxy(host: str | None, port: int | None) -> FaultProxy:
            assert host is not None
            assert port is not None
            return stack.enter_context(FaultProxy(host, port))

        def to(url: str) -> FaultProxy:
            return proxy(urlsplit(url).hostname, urlsplit(url).port)

        ports = {name: free_port() for name in NODES}
        links = {name: proxy("127.0.0.1", port) for name, port in ports.items()}
        stores = {name: to(metastore) for name in NODES}
        ends = to(source), to(target)
        world = stack.enter_context(
            open_world(
                folder,
                metastore,
                spark,
                source,
                target,
                ends=(_through(source, ends[0]), _through(target, ends[1])),
                options={
                    name: [
                        *("--listen", f"127.0.0.1:{ports[name]}"),
                        *("--advertise", f"http://127.0.0.1:{links[name].port}"),
                        *("--metastore", _through(metastore, stores[name])),
                    ]
                    for name in NODES
                },
            )
        )
        pair = Pair(source, target, folder)
        yield FaultyWorld(world, pair, links, stores, *ends)


def _through(url: str, proxy: FaultProxy) -> str:
    parts = urlsplit(url)
    login = parts.netloc.rpartition("@")[0]
    at = f"127.0.0.1:{proxy.port}"
    return urlunsplit(parts._replace(netloc=f"{login}@{at}" if login else at))


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
