"""A steady load of small transactions: the lag of every row, and whether memory stays flat.

The lag is from right before a row's COMMIT at the source until the row is seen at the target.
Memory is that of the runner's process, of Spark's Python workers and of Java, once a second;
whether it grows is told by a straight line through the second half, when everything has been used.
"""

from pathlib import Path

from bench.figures import Figure, Limit
from bench.registry import Benchmark, Case
from bench.rig import memory, orders, ours, servers, traffic
from bench.watch import seconds

SECONDS = 120
CHANGES_PER_S = 2_000
BEFORE = 100_000
FLAT_MIB_PER_MIN = 10.0
NAME = f"{CHANGES_PER_S:,} changes/s for {SECONDS} s"


def cases(quick: bool) -> tuple[Case, ...]:
    """One rate."""
    length = SECONDS // 20 if quick else SECONDS
    return (Case(f"{CHANGES_PER_S:,} changes/s for {length} s", length),)


def measure(case: Case, directory: Path) -> tuple[Figure, ...]:
    """Write, watch, compare."""
    with servers.server() as source, servers.server() as target, ours.warm_spark() as spark:
        orders.create(source)
        orders.fill(source, BEFORE)
        with ours.feed(directory / "home", source, target, spark) as runner:
            runner.wait_level(ours.LEVEL_S)
            servers.settle(source, target)
            with memory.Memory(directory, interval_s=1.0) as watched:
                outcome = traffic.run(
                    traffic.Traffic(source, target, BEFORE, CHANGES_PER_S, case.size)
                )
            runner.wait_level(ours.LEVEL_S)
            rows = orders.same_rows(source, target)
            runner.remove()
    samples = watched.samples
    return (
        Figure("changes", outcome.changes, "rows"),
        Figure("rate", round(outcome.changes / outcome.took_s), "rows/s"),
        Figure("rows at the end", rows, "rows"),
        seconds("lag, p50", outcome.lag_s(50)),
        seconds("lag, p99", outcome.lag_s(99)),
        seconds("lag, greatest", outcome.lag_s(100)),
        *(
            Figure(f"memory, {kind}", round(samples[-1].of(kind) / memory.MIB, 1), "MiB")
            for kind in memory.KINDS
        ),
        *(
            Figure(
                f"growth, {kind}", round(memory.growth(samples, kind) / memory.MIB, 2), "MiB/min"
            )
            for kind in memory.KINDS
        ),
    )


BENCHMARK = Benchmark(
    name="steady",
    title="Small transactions at a steady rate: the lag of every row, and memory",
    cases=cases,
    measure=measure,
    limits=(
        Limit(NAME, "lag, p50", 1.0, "s", "half of all rows at the target within 1 s"),
        Limit(NAME, "lag, p99", 3.0, "s", "99 of 100 rows at the target within 3 s"),
        Limit(
            NAME,
            "growth, python",
            FLAT_MIB_PER_MIN,
            "MiB/min",
            f"memory of the Python processes flat (under {FLAT_MIB_PER_MIN:g} MiB/min)",
        ),
    ),
)
