"""A program of the user's is told what it needs, and nothing of it is left when it is over."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from lockgate.model.errors import StaleOwner, Transient
from lockgate.model.moves import Side
from lockgate.model.server_config import read_server_config
from lockgate.node.hooks import HookContext, HookEnd, Keeping, hook_named
from lockgate.node.hooks.command import CommandHook
from lockgate.node.hooks.port import Hook, HookFailed, HookUnfit
from tests.support.waiting import until

Make = Callable[..., CommandHook]


def no_check(_: HookContext) -> None:
    """Whoever asks is the newest."""


KEEPS = Keeping(no_check, lambda: math.inf)


def ctx(left_s: float = 30.0, tables: tuple[str, ...] = ("public.orders",)) -> HookContext:
    ends = HookEnd(Side.SOURCE, "old"), HookEnd(Side.TARGET, "new")
    return HookContext("shop", *ends, tables, 3, left_s, birth=7)


@pytest.fixture
def program(tmp_path: Path) -> Make:
    """A hook that runs a script of these lines, whose directory is its first argument."""

    def make(*lines: str, timeout_s: float = 20.0) -> CommandHook:
        path = tmp_path / "hook"
        path.write_text("\n".join(["#!/bin/sh", 'cd "$1"', *lines, ""]))
        path.chmod(0o755)
        return CommandHook("flip", [str(path), str(tmp_path)], timeout_s, KEEPS)

    return make


def test_it_is_told_which_flip_it_is_about(
    program: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PW", "hunter2")
    program("env > env; cat > document").after(ctx())
    told = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    assert {key: told[key] for key in told if key.startswith("LOCKGATE_")} == {
        "LOCKGATE_MOVE": "shop",
        "LOCKGATE_PHASE": "after",
        "LOCKGATE_SIDE": "target",
        "LOCKGATE_GIVING": "old",
        "LOCKGATE_TAKING": "new",
        "LOCKGATE_ATTEMPT": "3",
        "LOCKGATE_FENCE": "000000000000007.00000003",
    }
    assert not told.keys() & {"SHOP_PW", "HOME", "LOCKGATE_HOME"}
    assert json.loads((tmp_path / "document").read_text()) == {
        "move": "shop",
        "phase": "after",
        "giving": {"side": "source", "endpoint": "old"},
        "taking": {"side": "target", "endpoint": "new"},
        "tables": ["public.orders"],
        "attempt": 3,
        "fence": "000000000000007.00000003",
    }


def test_there_may_be_very_many_tables(program: Make, tmp_path: Path) -> None:
    tables = tuple(f"public.a_table_with_a_long_name_{n:06d}" for n in range(20_000))
    program("cat > document").before(ctx(tables=tables))
    assert json.loads((tmp_path / "document").read_text())["tables"] == list(tables)


@pytest.mark.parametrize("phase", ["before", "after", "undo"])
def test_each_phase_has_its_name(phase: str, program: Make) -> None:
    assert getattr(program("echo well; echo $LOCKGATE_PHASE ran"), phase)(ctx()) == (
        f"hook flip, {phase}: {phase} ran"
    )


def test_words_are_not_a_shell_s(tmp_path: Path) -> None:
    hook = CommandHook("flip", ["/bin/echo", "$HOME; touch x", "`id`"], 10.0, KEEPS)
    assert hook.before(ctx()) == "hook flip, before: $HOME; touch x `id`"


def test_one_that_fails_says_what_it_said(program: Make) -> None:
    with pytest.raises(HookFailed, match="exit code 7") as failed:
        program("echo no route >&2; exit 7").before(ctx())
    assert "no route" in failed.value.hint


def test_what_looks_like_a_secret_is_masked(program: Make) -> None:
    said = program("echo connecting to postgres://app:hunter2@db/shop password=hunter2")
    assert said.before(ctx()).endswith("postgres://app:***@db/shop password=***")


def test_much_is_said_and_the_end_is_kept(program: Make) -> None:
    with pytest.raises(HookFailed) as failed:
        program("seq 1 200000; echo the end; exit 1").before(ctx())
    assert "the end" in failed.value.hint
    assert len(failed.value.hint) < 600


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.parametrize("by", ["its own timeout", "the time that is left"])
def test_one_that_takes_too_long_is_killed_with_all_that_it_started(
    by: str, program: Make, tmp_path: Path
) -> None:
    hook = program(
        "sleep 100 & echo $! > child", "wait", timeout_s=1.0 if by == "its own timeout" else 60
    )
    began = time.monotonic()
    with pytest.raises(HookFailed, match="was killed"):
        hook.before(ctx(left_s=60 if by == "its own timeout" else 1.0))
    assert time.monotonic() - began < 20
    child = int((tmp_path / "child").read_text())
    until(lambda: not alive(child))


def test_what_it_leaves_running_is_ended_with_it(program: Make, tmp_path: Path) -> None:
    program("sleep 100 & echo $! > child").before(ctx())
    child = int((tmp_path / "child").read_text())
    until(lambda: not alive(child))


_RUNS = """
import sys, time
from lockgate.model.moves import Side
from lockgate.node.hooks import HookContext, HookEnd, Keeping
from lockgate.node.hooks.command import CommandHook

left_s, lease_s = map(float, sys.argv[1:3])
ends = HookEnd(Side.SOURCE, "old"), HookEnd(Side.TARGET, "new")
keeping = Keeping(lambda _: None, lambda: time.monotonic() + lease_s)
hook = CommandHook("flip", sys.argv[3:], 60.0, keeping)
hook.before(HookContext("m", *ends, (), 3, left_s))
"""


@contextmanager
def node(tmp_path: Path, left_s: float, lease_s: float = 60.0) -> Iterator[subprocess.Popen[bytes]]:
    """Another process, in which a hook runs that holds the traffic once the file `go` is there."""
    path = tmp_path / "holding"
    path.write_text(
        'echo $$ > pid; sleep 1000 & echo $! > child; touch "runs"\n'
        "while ! test -e go; do sleep 0.02; done; touch holds; wait\n"
    )
    words = [str(left_s), str(lease_s), "/bin/sh", "-c", f"cd {tmp_path}; . ./holding"]
    with subprocess.Popen([sys.executable, "-c", _RUNS, *words]) as process:
        try:
            until((tmp_path / "runs").exists)
            yield process
        finally:
            process.kill()


def _pids(tmp_path: Path) -> list[int]:
    return [int((tmp_path / name).read_text()) for name in ("pid", "child")]


def test_it_does_not_outlive_its_node(tmp_path: Path) -> None:
    with node(tmp_path, left_s=60.0) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        until(lambda: not any(map(alive, _pids(tmp_path))))
    (tmp_path / "go").touch()
    assert not (tmp_path / "holds").exists()


def test_it_is_ended_in_time_also_while_its_node_stands_still(tmp_path: Path) -> None:
    with node(tmp_path, left_s=3.0) as process:
        process.send_signal(signal.SIGSTOP)
        until(lambda: not any(map(alive, _pids(tmp_path))))


def test_it_ends_with_the_lease_of_its_node_also_while_that_stands_still(tmp_path: Path) -> None:
    with node(tmp_path, left_s=60.0, lease_s=3.0) as process:
        process.send_signal(signal.SIGSTOP)
        until(lambda: not any(map(alive, _pids(tmp_path))), timeout_s=20.0)


def test_it_goes_on_as_long_as_its_node_keeps_its_lease(program: Make, tmp_path: Path) -> None:
    hook = CommandHook(
        "flip",
        ["/bin/sh", "-c", f"while [ ! -e {tmp_path}/renewed ]; do sleep 0.02; done; echo well"],
        20.0,
        KEEPS._replace(until_s=renewed(tmp_path, 8)),
    )
    assert hook.before(ctx()) == "hook flip, before: well"


def renewed(tmp_path: Path, times: int) -> Callable[[], float]:
    """A lease of a second, that is renewed; the file is there when it was renewed so often."""
    left = iter(range(times))

    def until_s() -> float:
        if next(left, None) is None:
            (tmp_path / "renewed").touch()
        return time.monotonic() + 1.0

    return until_s


@pytest.mark.parametrize(
    ("why", "said"),
    [("nobody waits", "the flip's time was over"), ("no lease", "does not keep the move any more")],
)
def test_it_is_ended_when_its_keeper_is_and_says_why(why: str, said: str, tmp_path: Path) -> None:
    """Somebody else undoes what it does, and begins as soon as this one is over."""
    runs, held = tmp_path / "runs", tmp_path / "held"
    over = runs.exists
    keeping = KEEPS._replace(until_s=lambda: 0.0 if why == "no lease" and over() else math.inf)
    words = ["/bin/sh", "-c", f"touch {runs}; sleep 60; touch {held}"]
    hook = CommandHook("flip", words, 60.0, keeping, lambda: why == "nobody waits" and over())
    began = time.monotonic()
    with pytest.raises(HookFailed, match=said):
        hook.before(ctx())
    assert time.monotonic() - began < 30
    assert not held.exists()


def test_a_core_that_says_nothing_for_a_moment_changes_nothing(tmp_path: Path) -> None:
    asked = iter([time.monotonic() + 60.0])

    def until_s() -> float:
        for said in asked:
            return said
        raise Transient("the node's core does not show itself", object_="lg1", hint="ask again")

    hook = CommandHook("flip", ["/bin/sh", "-c", "sleep 0.5"], 20.0, Keeping(no_check, until_s))
    assert hook.before(ctx()) == "hook flip, before"


def test_a_lease_that_was_lost_meanwhile_is_no_leave_though_there_is_a_new_one(
    tmp_path: Path,
) -> None:
    """Its keeper was the newest when it looked; then it slept, and woke up with another lease."""
    leases = iter([time.monotonic() + 0.2, math.inf, math.inf])
    keeping = Keeping(lambda _: time.sleep(0.5), lambda: next(leases))
    hook = CommandHook("flip", ["/usr/bin/touch", str(tmp_path / "held")], 5.0, keeping)
    with pytest.raises(HookFailed):
        hook.before(ctx())
    assert not (tmp_path / "held").exists()


def test_nothing_is_started_by_a_node_without_a_lease(tmp_path: Path) -> None:
    keeping = KEEPS._replace(until_s=lambda: time.monotonic() - 1)
    hook = CommandHook("flip", ["/usr/bin/touch", str(tmp_path / "held")], 5.0, keeping)
    with pytest.raises(HookFailed):
        hook.before(ctx())
    assert not (tmp_path / "held").exists()


def test_when_its_warden_is_killed_it_is_ended_too(program: Make, tmp_path: Path) -> None:
    with pytest.raises(HookFailed, match="SIGKILL"):
        program("sleep 100 & echo $! > child", "kill -9 $PPID; wait").before(ctx())
    child = int((tmp_path / "child").read_text())
    until(lambda: not alive(child))


def test_a_former_keeper_starts_nothing(tmp_path: Path) -> None:
    def is_former(_: HookContext) -> None:
        raise StaleOwner("a later keeper works for it", object_="shop", hint="nothing")

    hook = CommandHook(
        "flip", ["/usr/bin/touch", str(tmp_path / "held")], 5.0, KEEPS._replace(check=is_former)
    )
    for verb in (hook.before, hook.after, hook.undo):
        with pytest.raises(StaleOwner):
            verb(ctx())
    assert not (tmp_path / "held").exists()


def test_nothing_is_started_when_its_time_is_over(tmp_path: Path) -> None:
    """Whoever asks who the newest is may have been kept waiting."""
    slow = KEEPS._replace(check=lambda _: time.sleep(0.2))
    hook = CommandHook("flip", ["/usr/bin/touch", str(tmp_path / "held")], 0.1, slow)
    with pytest.raises(HookFailed, match="before it was started"):
        hook.before(ctx())
    assert not (tmp_path / "held").exists()


def test_a_later_move_has_a_greater_fence_than_any_keeper_of_a_former_one() -> None:
    former = msgspec.structs.replace(ctx(), birth=2**48, attempt=9)
    next_ = msgspec.structs.replace(former, attempt=10)
    later = msgspec.structs.replace(former, birth=former.birth + 1, attempt=1)
    assert former.fence < next_.fence < later.fence


def test_a_shell_compares_fences(program: Make, tmp_path: Path) -> None:
    """As the guide says it."""
    hook = program(
        'fence=fence-$LOCKGATE_MOVE; exec 9>>"$fence"; flock 9; last=$(cat "$fence")',
        '[ "$last" \\> "$LOCKGATE_FENCE" ] && exit 1',
        'echo "$LOCKGATE_FENCE" > "$fence"',
    )
    for attempt in (9, 10):
        hook.before(msgspec.structs.replace(ctx(), attempt=attempt))
    with pytest.raises(HookFailed, match="exit code 1"):
        hook.before(msgspec.structs.replace(ctx(), attempt=9))
    later = msgspec.structs.replace(ctx(), move="other", birth=8, attempt=1)
    hook.before(later)
    hook.undo(msgspec.structs.replace(ctx(), attempt=10))
    hook.after(later)


@pytest.mark.parametrize("made", ["missing", "no-program"])
def test_what_cannot_be_run_is_said_before_anything_is_done(made: str, tmp_path: Path) -> None:
    path = tmp_path / made
    if made == "no-program":
        path.write_text("text")
    hook = CommandHook("flip", [str(path)], 5.0, KEEPS)
    with pytest.raises(HookUnfit):
        hook.check(ctx())
    with pytest.raises(HookUnfit):
        hook.before(ctx())


# --- by name --------------------------------------------------------------------------------------

CONFIG = read_server_config(
    {"home": "h", "node": "lg1", "hooks": {"flip": {"command": ["/bin/true"]}}}
)


def test_a_hook_is_found_by_its_name() -> None:
    assert hook_named(CONFIG, KEEPS, "flip").before(ctx()) == "hook flip, before"


def test_no_hook_does_nothing() -> None:
    none: Hook = hook_named(CONFIG, KEEPS, "")
    assert [none.check(ctx()), none.before(ctx()), none.undo(ctx())] == ["no hook"] * 3


def test_a_name_that_is_not_configured_is_refused_with_those_that_are() -> None:
    with pytest.raises(HookUnfit, match="lg1 has no hook") as refused:
        hook_named(CONFIG, KEEPS, "dns")
    assert "[hooks.dns]" in refused.value.hint
    assert "it has: flip" in refused.value.hint
