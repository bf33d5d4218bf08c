"""Nodes as processes: what is over is not signalled again, for its number may be another's."""

import os
import signal
import sys
from pathlib import Path

import pytest

from soak.nodes import NodeServer
from tests.support.waiting import until

SLEEP = (sys.executable, "-c", "import signal; signal.pause()")


def _node(tmp_path: Path, *launcher: str) -> NodeServer:
    node = NodeServer("one", tmp_path, [], {}, launcher)
    node.start(wait=False)
    return node


def _signalled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, _: found.append(group))
    return found


def test_a_node_that_was_stopped_is_not_killed_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = _node(tmp_path, *SLEEP)
    assert node.stop() == -signal.SIGTERM
    signalled = _signalled(monkeypatch)
    node.close()
    assert signalled == []


def test_a_node_that_ended_by_itself_keeps_its_number_until_it_is_killed(tmp_path: Path) -> None:
    node = _node(tmp_path, sys.executable, "-c", "pass")
    until(lambda: not node.running, 30)
    os.kill(node.pid, 0)  # still ours
    node.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(node.pid, 0)


def test_what_a_node_has_started_ends_with_it(tmp_path: Path) -> None:
    child = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
    node = _node(tmp_path, sys.executable, "-c", child)
    until(lambda: not node.running, 30)
    started = int(node.said())
    node.kill()
    until(lambda: not Path(f"/proc/{started}").exists() or _is_zombie(started), 30)


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
