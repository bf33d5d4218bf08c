"""Failover: from SIGKILL of the node that owns a feed to the feed moving again.

Three nodes, a metastore of their own, a Spark that outlives them, two feeds of four tables each,
rows in all tables all the time. The clock starts at the kill, and stops when of every table of the
feed a row is at the target that was written after it: then the checkpoint, which is the least of
all spans', has moved. `feed status`, asked of a node that is left, is told beside it.

Where spans and the capture run is the cluster's own choice, so some of them die with the owner and
some do not.
"""

import datetime
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psycopg

from bench.figures import Figure, Limit
from bench.registry import Benchmark, Case
from bench.rig import servers
from bench.rig.phases import PHASES, Moments, durations, first_line, median
from bench.rig.watching import Beats, FirstTime, checkpoint
from bench.watch import seconds
from lockgate.client import Client
from lockgate.model.spans import TRIGGER
from soak.connect import ConnectServer
from soak.matrix.truth import Truth, View
from soak.matrix.watcher import read_rows
from soak.nodes import Cluster

LEASE_S: Final = 10.0
GOAL_S: Final = LEASE_S + 5.0
ROUNDS: Final = 10
BOTH: Final = "the owner is the coordinator"
OTHER: Final = "the coordinator lives"
FEEDS: Final = ("left", "right")
TABLES: Final = 4
NODES: Final = ("one", "two", "three")
SOON_S: Final = 180.0
SHAKES_MAX: Final = 20


def cases(quick: bool) -> tuple[Case, ...]:
    """Which node is killed, and how often."""
    return tuple(Case(name, 1 if quick else ROUNDS) for name in (BOTH, OTHER))


def measure(case: Case, directory: Path) -> tuple[Figure, ...]:
    """Kill as often as the case says."""
    with ExitStack() as stack:
        source, target, metastore = (stack.enter_context(servers.server()) for _ in range(3))
        spark = stack.enter_context(ConnectServer(directory / "spark.log"))
        for feed in FEEDS:
            for table in tables(feed):
                servers.execute(source, f"CREATE TABLE {table} (id bigint PRIMARY KEY)")
        cluster = stack.enter_context(Cluster(directory, metastore, spark.url, lease_s=LEASE_S))
        for name in NODES:
            cluster.start(name, wait=False)
        for node in cluster.nodes.values():
            node.wait_listening()
        client = cluster.nodes[NODES[0]].client()
        client.endpoints.add("source", source)
        client.endpoints.add("target", target)
        for feed in FEEDS:
            client.feeds.create(feed, source="source", target="target", tables=[f"public.{feed}_*"])
        truth = stack.enter_context(Truth(metastore, target))
        stack.enter_context(beats := Beats(source, tuple(t for f in FEEDS for t in tables(f))))
        rig = Rig(cluster, truth, target, beats)
        rounds = [rig.once(both=case.name == BOTH) for _ in range(case.size)]
    return _figures(rounds)


def tables(feed: str) -> tuple[str, ...]:
    """Those of a feed."""
    return tuple(f"{feed}_{number}" for number in range(TABLES))


class Rig:
    """Nodes to kill, one at a time."""

    def __init__(self, cluster: Cluster, truth: Truth, target: str, beats: Beats) -> None:
        self._cluster = cluster
        self._truth = truth
        self._target = target
        self._beats = beats

    def once(self, *, both: bool) -> tuple[Moments, float]:
        """Kill an owner: the moments, and when `feed status` told that the checkpoint moved."""
        feed = self._arranged(both=both)
        view = self._truth.view(feed)
        victim = view.owner
        left = [node for name, node in self._cluster.nodes.items() if name != victim]
        client = left[0].client()
        lost = _placed(view, victim)
        tokens = {row.span: row.token for row in view.sink}
        logged = [len(node.said()) for node in left]
        with (
            psycopg.connect(self._target, autocommit=True) as one,
            psycopg.connect(self._target, autocommit=True) as other,
        ):
            stood, last = checkpoint(client, feed), self._beats.last
            at, began = datetime.datetime.now(datetime.UTC), time.monotonic()
            self._cluster.nodes[victim].kill()
            with (
                FirstTime(lambda: victim not in self._truth.lives()) as lease,
                FirstTime(lambda: _claimed(one, feed, lost, tokens)) as claims,
                FirstTime(lambda: _arrived(other, feed, last)) as rows,
                FirstTime(lambda: checkpoint(client, feed) > stood, 0.1) as told,
            ):
                arrived = rows.wait(SOON_S) - began
                told_s = told.wait(SOON_S) - began
                lease_s = lease.wait(SOON_S) - began
                claims_s = claims.wait(SOON_S) - began
        logs = [node.said()[start:] for node, start in zip(left, logged, strict=True)]
        moments = Moments(
            lease=lease_s,
            coordinator=first_line(logs, "elected coordinator", at) if both else None,
            owner=first_line(logs, "owns the feed", at, feed=feed) or 0.0,
            bootstrap=first_line(logs, "the feed runs", at, feed=feed) or 0.0,
            claims=claims_s if lost else None,
            capture=first_line(logs, "capture begins", at, feed=feed) if TRIGGER in lost else None,
            rows=arrived,
        )
        self._cluster.nodes[victim].start()
        self._settle()
        return moments, told_s

    def _arranged(self, *, both: bool) -> str:
        """A feed whose owner is the coordinator, or is not. Where there is none, the coordinator is
        ended until there is one."""
        for _ in range(SHAKES_MAX):
            self._settle()
            leader = self._leader()
            for feed in FEEDS:
                if (self._truth.view(feed).owner == leader) is both:
                    return feed
            self._cluster.nodes[leader].stop()
            self._cluster.nodes[leader].start()
        raise RuntimeError("the owners do not come to where they are wanted")

    def _leader(self) -> str:
        client: Client = next(iter(self._cluster.nodes.values())).client()
        return next(node.name for node in client.nodes.list() if node.coordinator)

    def _settle(self) -> None:
        """Until nothing is left to be done anywhere."""

        def settled() -> bool:
            here = len(self._truth.lives()) == len(NODES)
            return here and not any(self._truth.view(feed).problems() for feed in FEEDS)

        with FirstTime(settled, 0.2) as found:
            found.wait(SOON_S)


def _placed(view: View, node: str) -> set[str]:
    return {
        span.id for span in view.spans.values() if span.node is not None and span.node.node == node
    }


def _claimed(
    connection: psycopg.Connection,
    feed: str,
    lost: set[str],
    before: dict[str, tuple[int, int, int]],
) -> bool:
    """Somebody else has written a token for every span that the dead node had."""
    now = {row.span: row.token for row in read_rows(connection) if row.feed == feed}
    return all(now[span] > before[span] for span in lost)


def _arrived(connection: psycopg.Connection, feed: str, last: int) -> bool:
    """Of every table a row is there that was written after the kill."""
    greatest = ", ".join(f"(SELECT max(id) FROM {table})" for table in tables(feed))
    row = connection.execute(f"SELECT least({greatest})").fetchone()
    assert row is not None
    return bool(row[0] > last)


def _figures(rounds: list[tuple[Moments, float]]) -> tuple[Figure, ...]:
    rows = [moments.rows for moments, _ in rounds]
    told = [told_s for _, told_s in rounds]
    phases = [durations(moments) for moments, _ in rounds]
    whole = sum(rows)
    return (
        Figure("kills", len(rounds), "times"),
        Figure("of them with the capture", sum(m.capture is not None for m, _ in rounds), "times"),
        seconds("moving again, median", median(rows)),
        seconds("moving again, greatest", max(rows)),
        seconds("told by feed status, median", median(told)),
        seconds("told by feed status, greatest", max(told)),
        *(seconds(f"{phase}, median", median([one[phase] for one in phases])) for phase in PHASES),
        *(
            Figure(
                f"{phase}, share", round(100 * sum(one[phase] for one in phases) / whole, 1), "%"
            )
            for phase in PHASES
        ),
    )


BENCHMARK = Benchmark(
    name="failover",
    title=f"The owner's node is killed (lease {LEASE_S:g} s): until its feed moves again",
    cases=cases,
    measure=measure,
    limits=tuple(
        Limit(
            name,
            "moving again, greatest",
            GOAL_S,
            "s",
            f"moving again within the lease and 5 s: {name}",
        )
        for name in (BOTH, OTHER)
    ),
)
