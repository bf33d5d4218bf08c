"""A quick run goes through and leaves results of the promised shape. Speed is not tested."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bench.figures import Result

ROOT = Path(__file__).parents[2]
NAMES = ("bootstrap", "heartbeat")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("results")
    words = [*NAMES, "--quick", "--results", str(directory)]
    done = subprocess.run(
        [sys.executable, "-m", "bench", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


@pytest.mark.parametrize("name", NAMES)
def test_the_json_reads_back_as_a_result(results: Path, name: str) -> None:
    document = (results / f"{name}.json").read_bytes()
    result = msgspec.json.decode(document, type=Result)
    assert result.name == name
    assert result.quick
    assert len(result.rows) == 2
    assert all(figure.value >= 0 for row in result.rows for figure in row.figures)


@pytest.mark.parametrize("name", NAMES)
def test_the_json_names_every_promised_field(results: Path, name: str) -> None:
    document = msgspec.json.decode((results / f"{name}.json").read_bytes())
    assert {"name", "date", "machine", "rows", "limits", "passed"} <= document.keys()
    assert document["machine"].keys() == {"cores", "memory", "python", "platform"}
    for row in document["rows"]:
        assert all(figure.keys() == {"name", "value", "unit"} for figure in row["figures"])
    for verdict in document["limits"]:
        fields = {"case", "figure", "at_most", "at_least", "unit", "goal"}
        assert fields == verdict["limit"].keys()


@pytest.mark.parametrize("name", NAMES)
def test_tiny_sizes_are_not_held_against_the_goals(results: Path, name: str) -> None:
    result = msgspec.json.decode((results / f"{name}.json").read_bytes(), type=Result)
    assert result.limits
    assert result.passed is None
    assert all(verdict.passed is None for verdict in result.limits)


def test_the_summary_has_a_section_for_each(results: Path) -> None:
    summary = (results / "summary.md").read_text("utf-8")
    assert [line for line in summary.splitlines() if line.startswith("## ")] == [
        "## bootstrap",
        "## heartbeat",
    ]


def test_the_bootstrap_leaves_a_plot(results: Path) -> None:
    svg = (results / "bootstrap.svg").read_text("utf-8")
    assert svg.startswith("<svg")
    assert svg.count("<circle") == 2


def test_no_half_written_file_stays(results: Path) -> None:
    assert not list(results.glob("*.tmp"))


def test_an_unknown_name_is_refused_before_anything_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "nonsense"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "no such benchmark: nonsense" in done.stderr
    assert done.stdout == ""
