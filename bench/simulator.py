"""How many simulated worlds a minute holds: the default world, seeds 1 to 1,000."""

from pathlib import Path

from bench.figures import Figure, Limit
from bench.registry import Benchmark, Case, NotThere
from bench.watch import seconds

FIRST = 1
SEEDS = 1_000
SEEDS_QUICK = 4
JOBS = 2


def cases(quick: bool) -> tuple[Case, ...]:
    """One run of many seeds."""
    seeds = SEEDS_QUICK if quick else SEEDS
    return (Case(f"{seeds:,} seeds", seeds),)


def measure(case: Case, _: Path) -> tuple[Figure, ...]:
    """Run the worlds; a broken law is shown, for it may have cut its run short."""
    try:
        from lockgate.sim import runner
    except ImportError as error:
        raise NotThere(f"the simulator cannot be imported: {error}") from error

    report = runner.run(FIRST, case.size, jobs=JOBS, plant=None, on_progress=lambda *_: None)
    return (
        seconds("seconds", report.seconds),
        Figure("rate", round(report.seeds / report.seconds, 1), "seeds/s"),
        Figure("messages", report.messages, ""),
        Figure("faults", report.faults, ""),
        Figure("violations", len(report.violations), ""),
        Figure("jobs", JOBS, ""),
    )


BENCHMARK = Benchmark(
    name="sim",
    title="The default world of the simulator, many seeds, two at a time",
    cases=cases,
    measure=measure,
    limits=(
        Limit(f"{SEEDS:,} seeds", "seconds", 120, "s", "1,000 seeds in at most 120 s"),
        Limit(f"{SEEDS:,} seeds", "violations", 0, "", "1,000 seeds break no law"),
    ),
)
