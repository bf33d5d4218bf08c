"""One step of one case, in a process of its own: `python -m bench.worker STEP NAME CASE SIZE DIR`.

What it measured goes to a file in DIR, so that whatever the measured code prints does no harm.
"""

import subprocess
import sys
from pathlib import Path

import msgspec

from bench.figures import Figure
from bench.registry import Benchmark, Case, NotThere, find

PREPARE, MEASURE = "prepare", "measure"


class Outcome(msgspec.Struct, frozen=True):
    """What the worker has to say: figures, or what it misses."""

    figures: tuple[Figure, ...] = ()
    missing: str = ""


class WorkerFailed(Exception):
    """The case broke off; its own words are on stderr."""


def run(benchmark: Benchmark, case: Case, directory: Path) -> tuple[Figure, ...]:
    """Prepare and measure one case in fresh processes. Raises NotThere or WorkerFailed."""
    if benchmark.prepare is not None:
        _step(PREPARE, benchmark, case, directory)
    return _step(MEASURE, benchmark, case, directory).figures


def _step(step: str, benchmark: Benchmark, case: Case, directory: Path) -> Outcome:
    words = [step, benchmark.name, case.name, str(case.size), str(directory)]
    root = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-m", "bench.worker", *words], cwd=root, check=False)
    if done.returncode:
        raise WorkerFailed(f"{step} of {case.name} ended with code {done.returncode}")
    outcome = msgspec.json.decode(_outcome_file(directory).read_bytes(), type=Outcome)
    if outcome.missing:
        raise NotThere(outcome.missing)
    return outcome


def _outcome_file(directory: Path) -> Path:
    return directory / "outcome.json"


def main(step: str, name: str, case_name: str, size: str, place: str) -> None:
    """Be the worker."""
    benchmark, case, directory = find(name), Case(case_name, int(size)), Path(place)
    outcome = Outcome()
    try:
        if step == MEASURE:
            outcome = Outcome(benchmark.measure(case, directory))
        elif benchmark.prepare is not None:
            benchmark.prepare(case, directory)
    except NotThere as missing:
        outcome = Outcome(missing=str(missing))
    _outcome_file(directory).write_bytes(msgspec.json.encode(outcome))


if __name__ == "__main__":
    main(*sys.argv[1:])
