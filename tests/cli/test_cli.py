"""The command line keeps its contract: exit codes, what goes to stdout, what goes to stderr."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from lockgate.cli.main import main
from lockgate.model.errors import IllegalTransition, MetastoreUnavailable

COMMAND = Path(sys.executable).with_name("lockgate")
DEADLINE_S = 120


def lockgate(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *args], capture_output=True, text=True, timeout=DEADLINE_S, check=False, **options
    )


# --- every command ------------------------------------------------------------------------------


def test_version_is_the_installed_one() -> None:
    import lockgate as package

    done = lockgate("--version")
    assert (done.returncode, done.stdout) == (0, f"lockgate {package.__version__}\n")


def test_help_names_every_command() -> None:
    done = lockgate("--help")
    assert done.returncode == 0
    assert {"demo", "sim"} <= set(done.stdout.split())


def test_the_command_line_starts_without_loading_what_commands_run() -> None:
    heavy = {"sqlalchemy", "psycopg", "rich", "lockgate.core", "lockgate.store", "lockgate.sim"}
    script = "import sys, lockgate.cli.main; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert heavy & set(loaded.stdout.split()) == set()


WRONG = [
    (),
    ("simm",),
    ("sim", "--seeds", "0"),
    ("sim", "--seeds", "many"),
    ("sim", "--from", "-1"),
    ("sim", "--jobs", "0"),
    ("sim", "--seed", "1"),
    ("sim", "extra"),
    ("sim", "--plant", "no-such-bug"),
    ("demo", "--nonsense"),
]


@pytest.mark.parametrize("args", WRONG, ids=" ".join)
def test_wrong_usage_exits_2_with_error_and_hint_on_stderr(args: tuple[str, ...]) -> None:
    done = lockgate(*args)
    assert done.returncode == 2
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first.startswith("error: ")
    assert second.startswith("hint: ")


def test_wrong_usage_with_json_is_one_document_on_stdout() -> None:
    done = lockgate("sim", "--seeds", "0", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "usage"
    assert done.stderr.startswith("error: ")


# --- sim, for real ------------------------------------------------------------------------------


def test_sim_of_a_healthy_core_exits_0_and_says_so() -> None:
    done = lockgate("sim", "--seeds", "5")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].split() == ["laws", "all", "held"]


def test_sim_json_has_the_keys_that_scripts_read() -> None:
    done = lockgate("sim", "--seeds", "5", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert document.keys() >= {
        *("seeds", "violations", "messages", "faults", "probes", "trace_hash", "seconds"),
        *("ok", "from", "plant", "missed_probes"),
    }
    assert (document["seeds"], document["violations"], document["ok"]) == (5, [], True)


def test_sim_gives_one_trace_whatever_the_number_of_jobs() -> None:
    traces = {
        json.loads(lockgate("sim", "--seeds", "6", "--jobs", jobs, "--json").stdout)["trace_hash"]
        for jobs in ("1", "2")
    }
    assert len(traces) == 1


def test_sim_seeds_differ() -> None:
    traces = {
        json.loads(lockgate("sim", "--seeds", "1", "--from", seed, "--json").stdout)["trace_hash"]
        for seed in ("1", "2")
    }
    assert len(traces) == 2


def test_plant_list_names_every_bug_and_what_it_breaks() -> None:
    document = json.loads(lockgate("sim", "--plant", "list", "--json").stdout)
    text = lockgate("sim", "--plant", "list").stdout.splitlines()
    assert document["plants"]
    assert len(text) == len(document["plants"])
    for line, plant in zip(text, document["plants"], strict=True):
        assert line.split()[0] == plant["name"]
        assert plant["what"] in line


def test_a_mistyped_bug_is_answered_with_the_close_one() -> None:
    name = json.loads(lockgate("sim", "--plant", "list", "--json").stdout)["plants"][0]["name"]
    done = lockgate("sim", "--plant", name[:-1])
    assert done.returncode == 2
    assert f"`{name}`" in done.stderr
    assert "--plant list" in done.stderr


# --- sim, with a report made up -----------------------------------------------------------------


class Violation(msgspec.Struct):
    seed: int
    law: str = "Cover"
    what: str = "key 7 belongs to no span"
    story: list[str] = msgspec.field(default_factory=lambda: ["split began", "origin died"])


class Report(msgspec.Struct):
    """Stands in for the runner's own report where a test needs a certain outcome."""

    seeds: int = 1000
    violations: list[Violation] = msgspec.field(default_factory=list)
    messages: int = 1
    faults: int = 1
    probes: dict[str, int] = msgspec.field(default_factory=lambda: {"merge-aborted": 0})
    missed_probes: list[str] = msgspec.field(default_factory=lambda: ["merge-aborted"])
    trace_hash: str = "cafe"
    seconds: float = 1.0


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Callable[[Report | Exception], None]:
    def arrange(outcome: Report | Exception) -> None:
        def run(*_: Any) -> Report:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr("lockgate.sim.runner.run", run)
        monkeypatch.setattr("lockgate.sim.plants.PLANTS", {"forget-merge": None})

    return arrange


Arrange = Callable[[Report | Exception], None]


def test_a_broken_law_exits_1_with_story_and_replay(
    reported: Arrange, capsys: pytest.CaptureFixture[str]
) -> None:
    reported(Report(violations=[Violation(17)]))
    assert main(["sim"]) == 1
    out, err = capsys.readouterr()
    assert "seed 17 broke Cover: key 7 belongs to no span\n  split began\n  origin died\n" in out
    assert "replay: lockgate sim --from 17 --seeds 1\n" in out
    assert err.startswith("error: 1 of 1,000 seeds broke a law")
    assert "hint: `lockgate sim --from 17 --seeds 1`" in err


def test_many_violations_are_counted_and_only_the_first_are_told(
    reported: Arrange, capsys: pytest.CaptureFixture[str]
) -> None:
    reported(Report(violations=[Violation(seed) for seed in range(10)]))
    assert main(["sim"]) == 1
    out = capsys.readouterr().out
    assert out.count("replay:") == 3
    assert "and 7 more" in out


def test_a_found_plant_exits_1_and_names_the_seed(
    reported: Arrange, capsys: pytest.CaptureFixture[str]
) -> None:
    reported(Report(violations=[Violation(17)]))
    assert main(["sim", "--plant", "forget-merge"]) == 1
    out, err = capsys.readouterr()
    assert "the planted bug `forget-merge` was found by seed 17" in out
    assert "lockgate sim --from 17 --seeds 1 --plant forget-merge" in err


def test_a_violation_in_json_carries_its_replay(
    reported: Arrange, capsys: pytest.CaptureFixture[str]
) -> None:
    reported(Report(violations=[Violation(17)]))
    assert main(["sim", "--plant", "forget-merge", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["ok"], document["plant"]) == (False, "forget-merge")
    assert document["violations"] == [
        {
            "seed": 17,
            "law": "Cover",
            "what": "key 7 belongs to no span",
            "story": ["split began", "origin died"],
            "replay": "lockgate sim --from 17 --seeds 1 --plant forget-merge",
        }
    ]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        pytest.param(("--seeds", "9999"), 0, id="a short run may miss one"),
        pytest.param(("--seeds", "10000"), 1, id="a long run may not"),
        pytest.param(("--seeds", "10000", "--plant", "forget-merge"), 0, id="a plant may hide one"),
    ],
)
def test_a_missed_probe(
    args: tuple[str, ...], code: int, reported: Arrange, capsys: pytest.CaptureFixture[str]
) -> None:
    reported(Report())
    assert main(["sim", *args]) == code
    assert ("never reached: merge-aborted" in capsys.readouterr().err) == bool(code)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_failure_is_error_and_hint_and_no_trace(
    as_json: bool, reported: Arrange, capsys: pytest.CaptureFixture[str]
) -> None:
    reported(MetastoreUnavailable("no answer", object_="meta.db", hint="is the disk mounted?"))
    assert main(["sim", *(["--json"] if as_json else [])]) == 1
    out, err = capsys.readouterr()
    assert err == "error: no answer (meta.db)\nhint: is the disk mounted?\n"
    assert (json.loads(out)["error"]["code"] if as_json else out) == (
        "metastore-unavailable" if as_json else ""
    )


@pytest.mark.parametrize(
    "bug", [RuntimeError("oops"), IllegalTransition("removed → working", object_="span 7")]
)
def test_a_bug_keeps_its_trace(bug: Exception, reported: Arrange) -> None:
    reported(bug)
    with pytest.raises(type(bug)) as kept:
        main(["sim"])
    assert kept.value is bug


# --- demo ---------------------------------------------------------------------------------------


def test_demo_reaches_its_end() -> None:
    done = lockgate("demo", "--simulated")
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_demo_json_keeps_the_show_off_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def show(console: Console) -> int:
        console.print("the water rises")
        return 0

    monkeypatch.setattr("lockgate.sim.demo.run", show)
    assert main(["demo", "--simulated", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["ok"] is True
    assert "the water rises" in err


def test_a_demo_that_stops_early_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("lockgate.sim.demo.run", lambda _console: 1)
    assert main(["demo", "--simulated"]) == 1
    assert capsys.readouterr().err.startswith("error: ")
