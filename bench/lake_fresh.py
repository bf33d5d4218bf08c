"""From a commit at the source to a reader of the lake: how long until a snapshot shows the rows.

A server as people start it, with a feed from PostgreSQL into a lake that it keeps: it lands changes
and drains them when they are due, on the same Spark. Small transactions come at a steady rate. The
time of a row is from right before its COMMIT until a reader, who takes a snapshot every 20 ms and
reads the keys of the files that are new in it, has read the row's.
"""

from pathlib import Path

from bench.figures import Figure, Limit
from bench.registry import Benchmark, Case
from bench.rig import orders, servers, traffic
from bench.rig.cpu import Cpu
from bench.rig.lake_reader import TABLE, same_rows
from bench.watch import seconds
from lockgate.client import Client
from soak.nodes import NodeServer

SECONDS = 60
CHANGES_PER_S = 2_000
BEFORE = 100_000
WITHIN_S = 2.0
FEED = "fresh"
LEVEL_S = 600.0


def _name(length: int) -> str:
    return f"{CHANGES_PER_S:,} changes/s for {length} s"


def cases(quick: bool) -> tuple[Case, ...]:
    """One rate."""
    length = SECONDS // 10 if quick else SECONDS
    return (Case(_name(length), length),)


def measure(case: Case, directory: Path) -> tuple[Figure, ...]:
    """Write, watch, compare."""
    target = f"delta:{directory / 'lake'}"
    with servers.server() as source:
        orders.create(source)
        orders.fill(source, BEFORE)
        node = NodeServer("one", directory, ["--listen", "127.0.0.1:0"], {})
        node.start()
        try:
            client = node.client()
            client.endpoints.add("source", source)
            client.endpoints.add("lake", target)
            client.feeds.create(FEED, source="source", target="lake", tables=[TABLE])
            _level(client)
            servers.settle(source)
            before = client.lakes.status("lake", TABLE)
            with Cpu(source) as cpu:
                outcome = traffic.run(
                    traffic.Traffic(source, target, BEFORE, CHANGES_PER_S, case.size)
                )
            _level(client)
            after = client.lakes.status("lake", TABLE)
            rows = same_rows(source, target)
        finally:
            node.close()
    return (
        Figure("changes", outcome.changes, "rows"),
        Figure("rate", round(outcome.changes / outcome.took_s), "rows/s"),
        Figure("rows at the end", rows, "rows"),
        Figure("commits of stable", after.stable_version - before.stable_version, ""),
        seconds("visible after, p50", outcome.lag_s(50)),
        seconds("visible after, p99", outcome.lag_s(99)),
        seconds("visible after, greatest", outcome.lag_s(100)),
        *cpu.figures("meanwhile"),
    )


def _level(client: Client) -> None:
    if not client.feeds.wait(FEED, timeout_s=LEVEL_S).level:
        raise RuntimeError(f"the feed is not level: {client.feeds.status(FEED)}")


BENCHMARK = Benchmark(
    name="lake-fresh",
    title="From a commit at the source to a reader of the lake",
    cases=cases,
    measure=measure,
    limits=(
        Limit(
            _name(SECONDS),
            "visible after, p99",
            WITHIN_S,
            "s",
            f"99 of 100 rows visible to readers within {WITHIN_S:g} s of their commit",
        ),
    ),
)
