"""A benchmark of the data plane goes through, at a tiny size, with every peer. Speed is not tested.

Through the worker, as a real run does it: a process with servers and a Spark of its own.
"""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench import catchup
from bench.figures import Row, judge
from bench.worker import Outcome

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_tiny_backlog_is_caught_up_with_by_all(tmp_path: Path) -> None:
    words = ["measure", "catchup", catchup.MANY, "200", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.worker", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    outcome = msgspec.json.decode((tmp_path / "outcome.json").read_bytes(), type=Outcome)
    row = Row(catchup.MANY, outcome.figures)
    changes = row.figure("changes")
    assert changes is not None
    assert changes.value == 360
    assert all(figure.value >= 0 for figure in outcome.figures)
    # Every goal of this case finds its figure, in its unit.
    limits = [limit for limit in catchup.BENCHMARK.limits if limit.case == catchup.MANY]
    assert limits
    assert all(verdict.value is not None for verdict in judge((row,), (), tuple(limits)))
