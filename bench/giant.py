"""One transaction of five million rows through a running feed: how much memory it takes.

The feed is level and idle, then the transaction is made and committed. Memory is the sum over all
Python processes (the runner's and Spark's) of their PSS, ten times a second, from before the first
row until the target is level; its greatest value counts.
"""

import time
from pathlib import Path

from bench.figures import Figure, Limit
from bench.registry import Benchmark, Case
from bench.rig import memory, orders, ours, servers
from bench.watch import Watch, seconds

ROWS = 5_000_000
GIB = 2**30
NAME = f"{ROWS:,} rows"


def cases(quick: bool) -> tuple[Case, ...]:
    """One size."""
    rows = ROWS // 20 if quick else ROWS
    return (Case(f"{rows:,} rows", rows),)


def measure(case: Case, directory: Path) -> tuple[Figure, ...]:
    """Insert, wait, compare."""
    watch = Watch()
    with servers.server() as source, servers.server() as target, ours.warm_spark() as spark:
        orders.create(source)
        with ours.feed(directory / "home", source, target, spark) as runner:
            runner.wait_level(ours.LEVEL_S)
            servers.settle(source, target)
            with memory.Memory(directory) as watched:
                time.sleep(1.0)  # for some samples of the feed at rest
                with watch.lap("the transaction itself"):
                    orders.fill(source, case.size)
                with watch.lap("level after its commit"):
                    runner.wait_level(ours.LEVEL_S)
            rows = orders.same_rows(source, target)
            runner.remove()
    samples = watched.samples
    return (
        Figure("rows", rows, "rows"),
        *watch.figures(),
        Figure("rate", round(rows / watch.seconds["level after its commit"]), "rows/s"),
        Figure("at rest, all Python", round(samples[0].python / GIB, 3), "GiB"),
        *(
            Figure(f"peak, {kind}", round(memory.peak(samples, kind) / GIB, 3), "GiB")
            for kind in memory.KINDS
        ),
        Figure("samples", len(samples), ""),
        seconds("longest gap", memory.longest_gap(samples)),
    )


BENCHMARK = Benchmark(
    name="giant",
    title="One transaction of many rows through a running feed",
    cases=cases,
    measure=measure,
    limits=(
        Limit(
            NAME,
            "peak, python",
            1.5,
            "GiB",
            "a transaction of 5,000,000 rows in at most 1.5 GiB of all Python processes",
        ),
    ),
)
