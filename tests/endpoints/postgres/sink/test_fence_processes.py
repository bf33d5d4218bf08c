"""Tasks whose process is killed or stopped in the middle of their transaction (F11, F12)."""

import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from lockgate.model.floors import Refusal
from tests.endpoints.postgres.sink import task
from tests.endpoints.postgres.sink.target import A, Target, token

NEW = token(2, 1)

Start = Callable[[str, Target], subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def run(mode: str, target: Target) -> subprocess.Popen[str]:
        floors = target.claim(A, task.TOKEN)
        assert floors == task.START
        if mode == "part":
            target.sink.record_batch(target.feed, "a", task.TOKEN, task.START, task.TO, 2)
        started.append(task.start(mode, target.url, target.feed))
        return started[-1]

    yield run
    for one in started:
        one.kill()
        one.communicate()


def _claimed(target: Target) -> None:
    """The new owner goes on from where the old one had committed: from the beginning."""
    assert target.claim(A, NEW) == task.START
    assert target.rows() == {}


def test_undisturbed_a_task_commits(hasty: Target, start: Start) -> None:
    assert task.go_on(start("alone", hasty)) == "committed"
    assert hasty.rows() == {1: 1, 3: 3}


@pytest.mark.parametrize("mode", ["alone", "part", "copy", "query"])
def test_a_killed_task_leaves_nothing(hasty: Target, start: Start, mode: str) -> None:
    """In a long statement, the server does not even notice that its client is gone."""
    running = start(mode, hasty)
    running.send_signal(signal.SIGKILL)
    running.wait()
    _claimed(hasty)


@pytest.mark.parametrize("mode", ["alone", "part", "copy"])
def test_a_stopped_task_is_ended_and_commits_nothing_when_it_wakes(
    hasty: Target, start: Start, mode: str
) -> None:
    running = start(mode, hasty)
    running.send_signal(signal.SIGSTOP)
    _claimed(hasty)
    assert hasty.apply(A, NEW, task.START, 9, key=5) == ((task.START[0][0], 9),)
    running.send_signal(signal.SIGCONT)
    assert task.go_on(running).startswith("failed: ")
    assert hasty.rows() == {5: 9}
    assert hasty.spans()["a"].floors == ((task.START[0][0], 9),)


def test_a_stopped_task_is_ended_by_closing_the_feed(hasty: Target, start: Start) -> None:
    running = start("alone", hasty)
    running.send_signal(signal.SIGSTOP)
    assert hasty.sink.close(hasty.feed, NEW, forget=True)
    running.send_signal(signal.SIGCONT)
    assert task.go_on(running).startswith("failed: ")
    assert hasty.rows() == {}
    assert hasty.claim(A, token(9, 9)) is Refusal.GONE
