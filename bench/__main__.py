"""`python -m bench [NAME…] [--quick] [--results DIR]`."""

import argparse
import datetime
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from bench import machine, report, worker
from bench.figures import Result, Row, all_passed, judge
from bench.registry import MODULES, Benchmark, NotThere, find

RESULTS = Path(__file__).parent / "results"
OTHERS_MAX = 0.2
"""Cores that others may keep busy before a result is marked as disturbed."""


def main(words: list[str]) -> int:
    """Run benchmarks one after another. The exit code is 1 only when one of them broke off."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Lockgate.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(MODULES)}; all if none"
    )
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes: shows that it works, measures nothing"
    )
    parser.add_argument(
        "--results", type=Path, metavar="DIR", help=f"where results go [default: {RESULTS}]"
    )
    asked = parser.parse_args(words)
    unknown = [name for name in asked.names if name not in MODULES]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(MODULES)}")

    # A quick run measures nothing, so it does not take the place of a result unless told to.
    directory = asked.results or (None if asked.quick else RESULTS)
    console = Console()
    broken = False
    for name in asked.names or MODULES:
        broken |= not _run(find(name), asked.quick, directory, console)
    if directory is not None:
        report.summarise(directory, MODULES)
        console.print(f"results are in {directory}", highlight=False)
    return 1 if broken else 0


def _run(benchmark: Benchmark, quick: bool, directory: Path | None, console: Console) -> bool:
    """One benchmark, shown and kept; False when it broke off."""
    others = machine.Others()
    rows: list[Row] = []
    notes: list[str] = []
    whole = True
    for case in benchmark.cases(quick):
        console.print(f"{benchmark.name}: {case.name} …", highlight=False)
        with tempfile.TemporaryDirectory(prefix="lockgate-bench-") as place:
            try:
                rows.append(Row(case.name, worker.run(benchmark, case, Path(place))))
            except NotThere as missing:
                notes.append(f"{case.name}: {missing}")
            except worker.WorkerFailed as failed:
                notes.append(f"BROKEN: {failed}")
                whole = False
    result = _result(benchmark, quick, others.cores(), tuple(rows), tuple(notes))
    report.show(console, result)
    # What was not measured, or not to its end, does not take the place of what was.
    if directory is not None and rows and whole:
        report.keep(result, directory, benchmark.svg(result.rows) if benchmark.svg else "")
    return whole


def _result(
    benchmark: Benchmark,
    quick: bool,
    others: float | None,
    rows: tuple[Row, ...],
    notes: tuple[str, ...],
) -> Result:
    """Put together what the workers found."""
    overall = benchmark.conclude(rows) if benchmark.conclude else ()
    # Tiny sizes say nothing about a goal, not even where a figure of the goal's name exists.
    verdicts = judge(() if quick else rows, () if quick else overall, benchmark.limits)
    if others is not None and others > OTHERS_MAX:
        notes += (f"taken under load: others kept {others} cores busy meanwhile",)
    return Result(
        name=benchmark.name,
        title=benchmark.title,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        quick=quick,
        machine=machine.describe(),
        others=others,
        rows=rows,
        overall=overall,
        limits=verdicts,
        passed=all_passed(verdicts),
        notes=notes,
        plot=benchmark.plot(rows) if benchmark.plot else "",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
