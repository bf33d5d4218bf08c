"""The benchmarks of moves and diffs go through, at tiny sizes. Speed is not tested."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench import diffing, moving, switching
from bench.figures import Row, judge
from bench.registry import Benchmark
from bench.worker import Outcome

ROOT = Path(__file__).parents[2]


def _measured(benchmark: Benchmark, case: str, size: int, directory: Path) -> Row:
    words = ["measure", benchmark.name, case, str(size), str(directory)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.worker", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    outcome = msgspec.json.decode((directory / "outcome.json").read_bytes(), type=Outcome)
    row = Row(case, outcome.figures)
    assert all(figure.value >= 0 for figure in row.figures)
    # Every goal finds its figure, in its unit.
    assert benchmark.limits
    assert all(verdict.value is not None for verdict in judge((row,), (), benchmark.limits))
    return row


@pytest.mark.slow
def test_flips_under_writers_lose_nothing_and_tell_every_step(tmp_path: Path) -> None:
    row = _measured(switching.BENCHMARK, switching.NAME, 1, tmp_path)
    names = {figure.name for figure in row.figures}
    assert {"step block, p50", "step seal, p50", "step open, p50"} <= names


@pytest.mark.slow
def test_both_find_what_differs(tmp_path: Path) -> None:
    _measured(diffing.BENCHMARK, diffing.NAME, 2_000, tmp_path)


@pytest.mark.slow
def test_a_small_move_is_whole(tmp_path: Path) -> None:
    _measured(moving.BENCHMARK, moving.NAME, 400, tmp_path)
