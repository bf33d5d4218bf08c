"""Changes into a lake table: drained by Lockgate, merged by delta-rs, rewritten by Spark.

100,000 changes of distinct keys (updates, inserts, deletes), evenly over the table or over a tenth
of it. All begin with the same files of 500,000 rows in the order of the key, take turns, and end
with the same rows, or the run is void. Times are medians.

Lockgate's time is that until stable has the changes: landing them in ingest, the drain as a Spark
job on a warm session, and what of ingest is done with taken out. Readers see them after the first
of the three. delta-rs' and Spark's begin with the changes in memory too, and end with the commit.
"""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.figures import OVERALL, Figure, Limit, Row
from bench.registry import Benchmark, Case
from bench.rig import ours
from bench.watch import seconds

if TYPE_CHECKING:
    from bench.rig.lake_tables import Base, Peer, Upsert
    from lockgate.pipeline.session import Spark

    Way = Callable[[Path, Base], Peer]

LARGE, SMALL = 5_000_000, 1_000_000
CHANGES: Final = 100_000
TENTH: Final = 0.1
RUNS: Final = 5
WARM: Final = 3
QUICK: Final = 20
"""By so much a quick run is smaller."""

EVENLY, CLUSTERED = "evenly", "in a tenth"
OURS, MERGES = "Lockgate", ("delta-rs merge", "delta-rs merge, streamed")
RATE = "rate, by that of delta-rs"
FIRST_RATE = f"the first round, {RATE}"
BYTES = "in a tenth, bytes written, by those of evenly"
ABOVE = "in a tenth, time above a tenth of that of evenly"


def _name(rows: int, how: str) -> str:
    return f"{rows:,} rows, {how}"


def cases(quick: bool) -> tuple[Case, ...]:
    """Two sizes, and the greater one with changes that lie together."""
    large, small = (LARGE // QUICK, SMALL // QUICK) if quick else (LARGE, SMALL)
    return (
        Case(_name(small, EVENLY), small),
        Case(_name(large, EVENLY), large),
        Case(_name(large, CLUSTERED), large),
    )


def measure(case: Case, directory: Path) -> tuple[Figure, ...]:
    """All ways in turns, each time on a fresh table."""
    from bench.rig.lake_tables import Base

    quick = case.size not in (LARGE, SMALL)
    share = TENTH if case.name.endswith(CLUSTERED) else 1.0
    trial = Trial(
        directory,
        Base(directory, case.size // QUICK, smaller=QUICK),
        Base(directory, case.size, smaller=QUICK if quick else 1),
        CHANGES // QUICK if quick else CHANGES,
        share,
        1 if quick else RUNS,
    )
    # Two sessions, for Lockgate's own is set up for many small jobs and Spark's joins would suffer.
    with ours.warm_spark() as spark:
        trial.run(_with_drains(spark))
    with ours.joining_spark() as spark:
        trial.run(_with_spark(spark))
    return _figures(trial)


class Trial:
    """Some ways on the same changes, and what came of them."""

    def __init__(
        self, directory: Path, warm: "Base", base: "Base", count: int, share: float, runs: int
    ) -> None:
        self.directory, self.warm, self.base = directory, warm, base
        self.count, self.share, self.runs = count, share, runs
        self.taken: dict[str, list[Upsert]] = {}
        self.first: dict[str, Upsert] = {}
        self._found: dict[int, tuple[int, int]] = {}

    def run(self, ways: Sequence["Way"]) -> None:
        """Small tables first, and once as large as all, so that everybody is warm; then in turns.

        The rows are compared each time. The first round of full size takes everybody longer than
        those after it, so it is told by itself.
        """
        from bench.rig.lake_rows import changes

        for number in range(1, WARM + 1):
            for make in ways:
                peer = make(self.directory / "warm", self.warm)
                peer.upsert(changes(self.warm.count, self.count // QUICK, number, self.share))
        for number in range(self.runs + 1):
            given = changes(self.base.count, self.count, number, self.share)
            for make in ways:
                peer = make(self.directory / "run", self.base)
                took = peer.upsert(given)
                if number:
                    self.taken.setdefault(peer.name, []).append(took)
                else:
                    self.first[peer.name] = took
                self._compare(number, peer.digest())

    def _compare(self, number: int, rows: tuple[int, int]) -> None:
        if self._found.setdefault(number, rows) != rows:
            raise RuntimeError(f"the rows differ: {self._found[number]} and {rows}")


def _with_drains(spark: "Spark") -> Sequence["Way"]:
    from bench.rig.lake_peers import Merged, Streamed
    from bench.rig.lake_tables import Layered

    return (lambda directory, base: Layered(directory, base, spark), Merged, Streamed)


def _with_spark(spark: "Spark") -> Sequence["Way"]:
    from bench.rig.lake_peers import Rebuilt, Rewritten

    return (
        lambda directory, base: Rewritten(directory, base, spark),
        lambda directory, base: Rebuilt(directory, base, spark),
    )


def _figures(trial: Trial) -> tuple[Figure, ...]:
    taken, files = trial.taken, trial.base.files
    spent = {name: statistics.median(run.seconds for run in runs) for name, runs in taken.items()}
    merge = min(spent[name] for name in MERGES)
    first = min(trial.first[name].seconds for name in MERGES)
    out = [
        Figure("changes", trial.count, "rows"),
        Figure("table", round(sum(file.bytes for file in files) / 1e6, 1), "MB"),
        Figure("table, files", len(files), ""),
        *(seconds(name, value) for name, value in spent.items()),
        Figure(RATE, round(merge / spent[OURS], 3), ""),
        *(seconds(f"{name}, the first round", run.seconds) for name, run in trial.first.items()),
        Figure(FIRST_RATE, round(first / trial.first[OURS].seconds, 3), ""),
    ]
    for name, runs in taken.items():
        out += [
            Figure(f"{name}, files rewritten", runs[-1].files, ""),
            Figure(f"{name}, written", round(runs[-1].written / 1e6, 1), "MB"),
        ]
    for name, runs in taken.items():
        cpu = {kind: statistics.median(run.cpu[kind] for run in runs) for kind in runs[0].cpu}
        out += [
            Figure(f"{name}, CPU of {kind}", round(value, 2), "s")
            for kind, value in cpu.items()
            if value >= 0.005
        ]
    return tuple(out)


def conclude(rows: tuple[Row, ...]) -> tuple[Figure, ...]:
    """What changes cost that lie together."""
    tenth = next((row for row in rows if row.case.endswith(CLUSTERED)), None)
    if tenth is None:
        return ()
    whole = next((row for row in rows if row.case == tenth.case.replace(CLUSTERED, EVENLY)), None)
    if whole is None:
        return ()

    def value(row: Row, name: str) -> float:
        figure = row.figure(name)
        assert figure is not None
        return float(figure.value)

    written = f"{OURS}, written"
    return (
        Figure(BYTES, round(value(tenth, written) / value(whole, written), 3), ""),
        seconds(ABOVE, max(0.0, value(tenth, OURS) - TENTH * value(whole, OURS))),
    )


BENCHMARK = Benchmark(
    name="lake-upsert",
    title=f"{CHANGES:,} changes into a lake table of ten columns",
    cases=cases,
    measure=measure,
    conclude=conclude,
    limits=(
        Limit(
            _name(LARGE, EVENLY),
            RATE,
            None,
            "",
            f"{CHANGES:,} changes into {LARGE:,} rows at least 2 times as fast as delta-rs merge",
            at_least=2.0,
        ),
        Limit(
            _name(SMALL, EVENLY),
            RATE,
            None,
            "",
            f"the same into {SMALL:,} rows not slower than delta-rs merge",
            at_least=1.0,
        ),
        Limit(OVERALL, BYTES, 0.3, "", "changes in a tenth of the keys write that tenth anew"),
        Limit(OVERALL, ABOVE, 0.5, "s", "and take a tenth of the time, and half a second"),
    ),
)
