"""The world of the matrix with a proxy on every way between its parts.

node ──► link of the other node ──► node          node ──► metastore, each on a way of its own
nodes and Spark's tasks ──► source, target        who watches and writes goes past the proxies
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from soak.matrix.world import NODES, World, free_port, open_world
from soak.proxy import FaultProxy

__all__ = ["ProxiedWorld", "open_proxied_world"]


class ProxiedWorld(NamedTuple):
    """Nodes and feeds under writes, and every way on which something can be lost."""

    world: World
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
def open_proxied_world(
    folder: Path, metastore: str, spark: str, source: str, target: str
) -> Iterator[ProxiedWorld]:
    """As `open_world`, through proxies that pass everything on."""
    with ExitStack() as stack:

        def to(url: str) -> FaultProxy:
            host, port = urlsplit(url).hostname, urlsplit(url).port
            assert host is not None
            assert port is not None
            return stack.enter_context(FaultProxy(host, port))

        listen = {name: f"127.0.0.1:{free_port()}" for name in NODES}
        links = {name: to(f"http://{at}") for name, at in listen.items()}
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
                        *("--listen", listen[name]),
                        *("--advertise", f"http://127.0.0.1:{links[name].port}"),
                        *("--metastore", _through(metastore, stores[name])),
                    ]
                    for name in NODES
                },
            )
        )
        yield ProxiedWorld(world, links, stores, *ends)


def _through(url: str, proxy: FaultProxy) -> str:
    parts = urlsplit(url)
    login = parts.netloc.rpartition("@")[0]
    at = f"127.0.0.1:{proxy.port}"
    return urlunsplit(parts._replace(netloc=f"{login}@{at}" if login else at))
