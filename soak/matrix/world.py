"""Three nodes, two feeds, a writer and a watcher: what a cell is tried on, and left healthy."""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar

import psycopg
from psycopg import sql

from lockgate.client import Client
from lockgate.client.feeds import Feeds
from lockgate.demo.compare import compare
from lockgate.model.errors import Conflict, NotFound, OutcomeUnknown, Transient
from lockgate.model.tables import parse_table
from soak.failpoints import ENV, LAUNCHER, FailPoints
from soak.matrix.truth import Truth, View
from soak.matrix.watcher import Watcher
from soak.matrix.writer import Writer, make_tables
from soak.nodes import Cluster

__all__ = ["FEEDS", "LEASE_S", "NODES", "SOON_S", "Unhealthy", "World", "free_port", "open_world"]

T = TypeVar("T")

NODES: Final = ("one", "two", "three")
FEEDS: Final = {
    "left": ("public.left_a", "public.left_b"),
    "right": ("public.right_a", "public.right_b"),
}
"""The feeds, and the tables that are written to. Each takes in whatever begins with its name."""
SOON_S: Final = 180.0
"""For anything; it takes a few seconds on a machine that has nothing else to do."""
LEASE_S: Final = 2.0
PARTS: Final = 3


class Unhealthy(Exception):
    """Something did not come about in time."""


class World:
    """What cells are tried on."""

    def __init__(
        self,
        cluster: Cluster,
        points: dict[str, FailPoints],
        truth: Truth,
        source: str,
        target: str,
        writer: Writer,
        watcher: Watcher,
    ) -> None:
        self.cluster = cluster
        self.points = points
        self.truth = truth
        self.source, self.target = source, target
        self.writer = writer
        self.watcher = watcher
        self._extras = 0
        self._clients: dict[str, Client] = {}

    # --- looking ----------------------------------------------------------------------------------

    def view(self, feed: str) -> View:
        """The feed, from all sides."""
        return self.truth.view(feed)

    def until(
        self,
        condition: Callable[[], T | None],
        what: Callable[[], object],
        timeout_s: float = SOON_S,
    ) -> T:
        """The first true answer; raises Unhealthy with `what` there is instead."""
        deadline = time.monotonic() + timeout_s
        while True:
            with contextlib.suppress(Transient):
                if answer := condition():
                    return answer
            if time.monotonic() > deadline:
                raise Unhealthy(f"not within {timeout_s:g} s: {what()}")
            time.sleep(0.05)

    def problems(self) -> list[str]:
        """What is not as it should be, anywhere."""
        away = [f"{name} is not there" for name in NODES if name not in self.truth.lives()]
        return away + [f"{feed}: {one}" for feed in FEEDS for one in self.view(feed).problems()]

    def converge(self) -> float:
        """Until nothing is left to be done; how long that took."""
        began = time.monotonic()
        self.until(lambda: not self.problems(), self.problems)
        return time.monotonic() - began

    def require_equal(self) -> int:
        """Let the writer rest, and compare every row. Answers how many there are."""
        with self.writer.resting():
            for feed in FEEDS:
                if not self.client().feeds.wait(feed, timeout_s=SOON_S).level:
                    raise Unhealthy(f"{feed} does not become level: {self.problems()}")
            tables = [parse_table(table) for table in self.tables()]
            compared = compare(self.source, self.target, zip(tables, tables, strict=True))
        different = [one for one in compared if not one.equal]
        if different:
            raise Unhealthy(f"rows differ: {different}")
        return sum(one.rows for one in compared)

    def require_watched(self) -> None:
        """Nothing was seen since the last time that must never be."""
        seen, self.watcher.violations = self.watcher.violations, []
        if seen:
            raise Unhealthy("; ".join(seen[:5]))

    # --- acting -----------------------------------------------------------------------------------

    def client(self, *besides: str) -> Client:
        """Asks a node that runs, and is none of these."""
        for name, node in self.cluster.nodes.items():
            if node.running and name not in besides:
                url = node.url
                if url not in self._clients:
                    self._clients[url] = node.client()
                return self._clients[url]
        raise Unhealthy("no node is left to be asked")

    def ask(self, verb: Callable[[Feeds], object]) -> None:
        """Have something done to a feed, and wait until it is. A node that has just come back is
        not known to everybody at once."""
        refused = ""

        def done() -> bool:
            nonlocal refused
            try:
                verb(self.client().feeds)
            except (Conflict, NotFound, Transient, OutcomeUnknown) as why:
                refused = str(why)
                return False
            return True

        self.until(done, lambda: refused)
        self.converge()

    def move(self, feed: str, span: str, node: str) -> None:
        """Have a span run on that node."""
        record = self.view(feed).spans[span]
        if record.node is None or record.node.node != node:
            self.ask(lambda feeds: feeds.span_move(feed, span, node))

    def split(self, feed: str, span: str, parts: int) -> None:
        """Cut a span into equal parts."""
        self.ask(lambda feeds: feeds.span_split(feed, span, parts=parts))

    def merge(self, feed: str, spans: list[str]) -> None:
        """Join neighbours."""
        self.ask(lambda feeds: feeds.span_merge(feed, spans))

    def execute(self, statement: sql.Composed) -> None:
        """At the source."""
        with psycopg.connect(self.source) as connection:
            connection.execute(statement)

    def tables(self, feed: str = "") -> list[str]:
        """All that there are at the source, or one feed's."""
        with psycopg.connect(self.source) as connection:
            found = connection.execute(
                "SELECT 'public.' || relname FROM pg_class WHERE relkind = 'r' "
                "AND relnamespace = 'public'::regnamespace AND relname LIKE %s ORDER BY 1",
                (f"{feed}%",),
            ).fetchall()
        return [name for (name,) in found if name.split(".")[1].startswith(tuple(FEEDS))]

    def extras(self, feed: str) -> list[str]:
        """Tables that came later."""
        return [table for table in self.tables(feed) if table not in FEEDS[feed]]

    def new_table_name(self, feed: str) -> str:
        self._extras += 1
        return f"public.{feed}_extra_{self._extras}"

    def create_table(self, table: str) -> None:
        """A new table at the source, with rows."""
        make_tables(self.source, [table])

    def drop_table(self, table: str) -> None:
        self.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(*table.split("."))))

    def settled_without(self, *gone: str) -> bool:
        """True when the other nodes have taken over all that these had."""
        views = [self.view(feed) for feed in FEEDS]
        return not any(view.problems() for view in views) and not any(
            ref.node in gone for view in views for ref in view.lives
        )

    def heal(self) -> None:
        """After a cell, however it ended: every node is there and goes on."""
        for name, node in self.cluster.nodes.items():
            if node.running:
                self.points[name].go()
            else:
                self.points[name].clear()
                node.start()


def free_port() -> int:
    """Nobody listens there, and it will not be given to anybody soon."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextlib.contextmanager
def open_world(
    folder: Path,
    metastore: str,
    spark: str,
    source: str,
    target: str,
    *,
    ends: tuple[str, str] | None = None,
    options: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Iterator[World]:
    """Everything, up and running; metastore, source and target are its own.

    `ends`: how nodes reach source and target, where that is another way than ours; `options`: more
    of them, for each node.
    """
    make_tables(source, [table for tables in FEEDS.values() for table in tables])
    points = {name: FailPoints(folder / "points" / name) for name in NODES}
    with (
        Cluster(folder, metastore, spark, lease_s=LEASE_S, launcher=LAUNCHER) as cluster,
        contextlib.ExitStack() as stack,
    ):
        for name in NODES:
            env = {ENV: str(folder / "points" / name)}
            # Found at the same place in every life, as nodes are where people run them.
            listen = ("--listen", f"127.0.0.1:{free_port()}")
            cluster.start(name, *listen, *options.get(name, ()), env=env, wait=False)
        for node in cluster.nodes.values():
            node.wait_listening()
        client = next(iter(cluster.nodes.values())).client()
        for end, url in zip(("shop", "copy"), ends or (source, target), strict=True):
            client.endpoints.add(end, url)
        for feed in FEEDS:
            client.feeds.create(
                feed,
                source="shop",
                target="copy",
                tables=[f"public.{feed}_*"],
                flush_interval_ms=50,
            )
        truth = stack.enter_context(Truth(metastore, target))
        watcher = stack.enter_context(Watcher(target))
        tables = [table for tables in FEEDS.values() for table in tables]
        writer = stack.enter_context(Writer(source, tables))
        world = World(cluster, points, truth, source, target, writer, watcher)
        world.converge()
        for feed, (first, *_) in FEEDS.items():
            world.split(feed, world.view(feed).of_table(first)[0].id, PARTS)
        yield world
