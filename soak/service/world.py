"""What is soaked: servers, nodes, feeds, and a proxy on every way between them."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import psycopg

from lockgate.client import Client, connect
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from soak.connect import ConnectServer
from soak.nodes import Cluster, NodeServer
from soak.proxy import FaultProxy
from soak.tables import prepare

__all__ = ["FEEDS", "NODES", "World", "open_world"]

NODES: Final = ("one", "two", "three")
FEEDS: Final = ("left", "right")
"""Each takes all tables of the schema of its name."""
SETTINGS: Final[dict[str, str | int]] = {
    "fsync": "off",  # a killed server loses nothing that the machine's memory keeps
    "wal_level": "logical",
    "max_connections": 120,
}
ASK_S: Final = 40.0
LIVE_S: Final = 120.0


class World:
    """Everything that can be hurt, and who is hurt at the moment."""

    def __init__(
        self,
        lease_s: float,
        cluster: Cluster,
        servers: dict[str, EmbeddedPostgres],
        spark: ConnectServer,
        links: dict[str, FaultProxy],
        stores: dict[str, FaultProxy],
        ends: dict[str, FaultProxy],
    ) -> None:
        self.lease_s = lease_s
        self.cluster = cluster
        self.servers = servers
        """`source`, `target`, `metastore`."""
        self.spark = spark
        self.links = links
        """To each node, for the others."""
        self.stores = stores
        """From each node to the metastore."""
        self.ends = ends
        """To `source` and `target`."""
        self.spared = ""
        self._lock = threading.Lock()
        self._taken: dict[str, str] = {}
        self._clients: dict[str, Client] = {}

    # --- who may be hurt --------------------------------------------------------------------------

    def take(self, why: str, name: str) -> bool:
        """Have a node in hand, alone; False when it is spared or somebody else has it."""
        with self._lock:
            if name == self.spared or name in self._taken:
                return False
            self._taken[name] = why
            return True

    def give_back(self, name: str) -> None:
        """Whatever was done to the node is over."""
        with self._lock:
            self._taken.pop(name, None)

    @property
    def well(self) -> list[str]:
        """The nodes that nobody has in hand."""
        with self._lock:
            return [name for name in NODES if name not in self._taken]

    @property
    def answering(self) -> list[str]:
        """Those of them that people can ask."""
        return [name for name in self.well if '"listening"' in self.node(name).said()]

    # --- nodes ------------------------------------------------------------------------------------

    def node(self, name: str) -> NodeServer:
        return self.cluster.nodes[name]

    def client(self, name: str) -> Client:
        """Asks that node, past the proxies."""
        if name not in self._clients:
            node = self.node(name)
            token = (node.home / "token").read_text("utf-8").strip()
            self._clients[name] = connect(node.url, token, timeout_s=ASK_S)
        return self._clients[name]

    def source_position(self) -> int:
        """Where the source's log ends."""
        with psycopg.connect(self.servers["source"].url()) as connection:
            row = connection.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()
        assert row is not None
        return int(row[0])

    def close(self) -> None:
        """End the clients' connections."""
        for client in self._clients.values():
            client.close()


@contextlib.contextmanager
def open_world(folder: Path, rows: int, lease_s: float) -> Iterator[World]:
    """All of it, up and running, with both feeds created."""
    with contextlib.ExitStack() as stack:
        servers = {
            name: stack.enter_context(
                EmbeddedPostgres(version, settings=SETTINGS, start_timeout_s=120)
            )
            for name, version in (("source", 16), ("target", 18), ("metastore", 18))
        }
        spark = stack.enter_context(ConnectServer(folder / "spark.log"))
        for feed in FEEDS:
            prepare(servers["source"].url(), rows, feed)

        def proxy(port: int) -> FaultProxy:
            return stack.enter_context(FaultProxy("127.0.0.1", port))

        ports = {name: _free_port() for name in NODES}
        links = {name: proxy(ports[name]) for name in NODES}
        stores = {name: proxy(servers["metastore"].port) for name in NODES}
        ends = {name: proxy(servers[name].port) for name in ("source", "target")}
        metastore = servers["metastore"].url()
        cluster = stack.enter_context(
            Cluster(folder / "nodes", metastore, spark.url, lease_s=lease_s)
        )
        for name in NODES:
            cluster.start(
                name,
                *("--listen", f"127.0.0.1:{ports[name]}"),
                *("--advertise", f"http://127.0.0.1:{links[name].port}"),
                *("--metastore", through(metastore, stores[name])),
                wait=False,
            )
        for node in cluster.nodes.values():
            node.wait_listening()
        world = World(lease_s, cluster, servers, spark, links, stores, ends)
        stack.callback(world.close)
        client = world.client(NODES[0])
        for end, name in (("shop", "source"), ("copy", "target")):
            client.endpoints.add(end, through(servers[name].url(), ends[name]))
        for feed in FEEDS:
            client.feeds.create(
                feed,
                source="shop",
                target="copy",
                tables=[f"{feed}.*"],
                chunk_rows=5000,
                flush_interval_ms=100,
            )
        _wait_made(client)
        yield world


def _wait_made(client: Client) -> None:
    """Until both feeds are set up: before that there is nothing to be hurt."""
    deadline = time.monotonic() + LIVE_S
    while any(client.feeds.status(feed).epoch == 0 for feed in FEEDS):
        if time.monotonic() > deadline:
            raise RuntimeError(f"not set up: {[client.feeds.status(feed) for feed in FEEDS]}")
        time.sleep(0.1)


def through(url: str, proxy: FaultProxy) -> str:
    """The same database, by way of a proxy."""
    parts = urlsplit(url)
    login = parts.netloc.rpartition("@")[0]
    return urlunsplit(parts._replace(netloc=f"{login}@127.0.0.1:{proxy.port}"))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
