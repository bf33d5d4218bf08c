"""Waiting for a command to a move, and watching one: steps as they come and go.

A command waits at the node, in a thread of its own here, so that Ctrl-C is heard at once and looks
go on beside it; what was asked goes on without whoever asked. On a terminal the steps are a picture
in its place, elsewhere there is a line for each step that has changed.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from lockgate.cli import move_show, output
from lockgate.model.errors import LockgateError, Transient
from lockgate.model.move_status import MoveOutcome, MoveStatus
from lockgate.model.moves import MoveState

if TYPE_CHECKING:
    from lockgate.client import Client

__all__ = ["copied", "looked_on", "watch", "watched"]

LOOK_S: Final = 0.3
"""A flip takes a second or two: whoever looks more seldom sees no step of it."""
SAY_S: Final = 5.0

_OVER: Final = frozenset({MoveState.COMPLETED, MoveState.CANCELLED})

Told = Callable[[MoveStatus], None]


def looked_on(lg: "Client", name: str, command: str, ask: Callable[[], MoveOutcome]) -> MoveOutcome:
    """What `ask` returns or raises, with the command's steps on stderr."""
    answers: list[MoveOutcome] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(ask())
        except BaseException as error:
            errors.append(error)

    worker = threading.Thread(target=work, name="move", daemon=True)
    worker.start()
    with steps_shown(command) as told:
        worker.join(LOOK_S)
        while worker.is_alive():
            _look(lg, name, told, under_way=True)
            worker.join(LOOK_S)
        if errors:
            if getattr(errors[0], "code", "") == "rolled-back":
                _look(lg, name, told)
            raise errors[0]
        [answer] = answers
        if answer.status is not None and answer.verdict == "done" and not answer.dry:
            told(answer.status)
    return answer


def _look(lg: "Client", name: str, told: Told, *, under_way: bool = False) -> None:
    """A look that fails says nothing about the command, which says it itself. `under_way`: before
    a command has begun, the steps are those of the one before."""
    with contextlib.suppress(LockgateError):
        seen = lg.moves.status(name)
        if seen.step or not under_way:
            told(seen)


def copied(lg: "Client", name: str) -> MoveStatus:
    """How a move is when its rows are copied, with a line about it now and then on stderr."""
    said, before = float("-inf"), ""

    def told(status: MoveStatus) -> None:
        nonlocal said, before
        line = move_show.line(status)
        if line != before and time.monotonic() - said >= SAY_S:
            said, before = time.monotonic(), line
            output.note(line)

    return lg.moves.wait(name, told=told)


@contextlib.contextmanager
def steps_shown(command: str) -> Iterator[Told]:
    """Shows the steps of a command, once each status is known."""
    if sys.stderr.isatty():
        with _picture_of_steps(command) as told:
            yield told
    else:
        yield _lines_of_steps(command)


def watch(ask: Callable[[], MoveStatus], interval_s: float) -> None:
    """Until Ctrl-C, or until the move is over. A node that is away is waited for."""
    with contextlib.suppress(KeyboardInterrupt), _shown() as told:
        for status in watched(ask, interval_s):
            told(status)


def watched(ask: Callable[[], MoveStatus], interval_s: float) -> Iterator[MoveStatus]:
    """Each status, until the move is over."""
    status: MoveStatus | None = ask()  # a name that is wrong is said at once
    while True:
        if status is not None:
            yield status
            if status.state in _OVER:
                return
        time.sleep(interval_s)
        try:
            status = ask()
        except Transient as error:
            output.note(f"{error}; trying again")
            status = None


# --- pictures -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _shown() -> Iterator[Told]:
    if sys.stdout.isatty():
        with _picture() as told:
            yield told
    else:
        yield _lines()


def _lines() -> Told:
    said: list[str] = []
    steps = _lines_of_steps("", output.line)

    def told(status: MoveStatus) -> None:
        steps(status)
        line = move_show.line(status)
        if [line] != said:
            output.line(line)
            said[:] = [line]

    return told


@contextlib.contextmanager
def _picture() -> Iterator[Told]:
    """The whole status, drawn anew in its place."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False, console=Console()) as live:
        yield lambda status: live.update(
            Text.from_ansi("\n".join(move_show.status_lines(status))), refresh=True
        )


@contextlib.contextmanager
def _picture_of_steps(command: str) -> Iterator[Told]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False, console=Console(stderr=True)) as live:

        def told(status: MoveStatus) -> None:
            if status.command == command:
                lines = "\n".join(map(move_show.step_line, status.steps))
                live.update(Text.from_ansi(lines), refresh=True)

        yield told


def _lines_of_steps(command: str, say: Callable[[str], None] = output.note) -> Told:
    """A line for each step when it has changed, of the command, or of whatever is under way."""
    seen: dict[str, str] = {}
    last = ""

    def told(status: MoveStatus) -> None:
        nonlocal last
        if command and status.command != command:
            return
        if status.command != last:
            seen.clear()
            last = status.command
        for step in status.steps:
            if step.state != seen.get(step.name, "pending"):
                seen[step.name] = step.state
                say(move_show.step_line(step))

    return told
