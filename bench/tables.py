"""Many small tables in one feed, each changed once a second: the lag of every change.

What costs here is not rows but tables: every one of them has its own files in the change log, its
own row at the fence, its own statements at the target, in every round.
"""

from pathlib import Path

import numpy as np

from bench.figures import Figure, Limit
from bench.registry import Benchmark, Case
from bench.rig import many, ours, servers
from bench.rig.cpu import Cpu
from bench.watch import seconds

TABLES = 500
SECONDS = 60


def _name(tables: int, length: int) -> str:
    return f"{tables} tables, 1 change/s each, for {length} s"


def cases(quick: bool) -> tuple[Case, ...]:
    """One number of tables."""
    tables = TABLES // 20 if quick else TABLES
    return (Case(_name(tables, SECONDS // 6 if quick else SECONDS), tables),)


def measure(case: Case, directory: Path) -> tuple[Figure, ...]:
    """Write, wait, compare, and ask the target when each row came."""
    length = SECONDS if case.size == TABLES else SECONDS // 6
    with (
        servers.server() as source,
        servers.server(many.TARGET_SETTINGS) as target,
        ours.warm_spark() as spark,
    ):
        many.create(source, case.size)
        with ours.feed(directory / "home", source, target, spark, "public.*") as runner:
            runner.wait_level(ours.LEVEL_S)
            servers.settle(source, target)
            with Cpu(source, target) as cpu:
                written = many.run(many.Many(source, case.size, length))
            runner.wait_level(ours.LEVEL_S)
            rows = many.same_rows(source, target, case.size)
            lags = many.lags_s(target, case.size)
            runner.remove()
    return (
        Figure("changes", written.changes, "rows"),
        Figure("rate", round(written.changes / written.took_s), "rows/s"),
        Figure("rows at the end", rows, "rows"),
        *(
            seconds(f"lag, {words}", float(np.percentile(lags, percent)))
            for words, percent in (("p50", 50), ("p99", 99), ("greatest", 100))
        ),
        *cpu.figures("feed"),
    )


BENCHMARK = Benchmark(
    name="tables",
    title="Many small tables in one feed: the lag of every change",
    cases=cases,
    measure=measure,
    limits=(
        Limit(
            _name(TABLES, SECONDS),
            "lag, p50",
            3.0,
            "s",
            "half of all changes of 500 tables at the target within 3 s",
        ),
    ),
)
