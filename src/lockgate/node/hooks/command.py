"""A hook that is a program of the user's.

    /usr/local/bin/point-dns shop      run by no shell, in a process group with its `warden`
        LOCKGATE_PHASE=before          before, after or undo
        stdin: {"move": …, "tables": […], …}
                 │
                 ├── exits 0             done; its last line is the detail
                 ├── exits otherwise     failed, with what it said last
                 └── takes too long,     it and whatever it started are killed
                     or is not its
                     node's to run now

It is started only for the newest keeper of the move, and runs only as long as its node may believe
that there is no other: until the end of its lease, which is told on and on, or until the keeper is
over. Who takes the move over begins after that, so it undoes what has ended. What the program has
asked of others may yet be late: by `LOCKGATE_FENCE` they know a former keeper.

Its environment is made here and holds nothing of the server's, whose own may hold passwords. Tables
come on stdin, for there may be more of them than an environment takes. What it says is kept in the
move's record, so what looks like a secret is masked first.
"""

import contextlib
import json
import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from lockgate.model.errors import Transient
from lockgate.model.looks import by_look
from lockgate.node.hooks.port import HookContext, HookFailed, HookUnfit, Keeping

__all__ = ["CommandHook"]

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KEPT_BYTES: Final = 16 * 1024
"""Of what it says, the end."""
_SAID_MAX: Final = 500
"""Of that, what goes into a record."""
_LOOK_MS: Final = 20
_TELL_S: Final = 0.2
"""So often its warden is told until when it may run."""
_WARDEN: Final = str(Path(__file__).with_name("warden.py"))


class CommandHook:
    """One program, run for each verb."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        timeout_s: float,
        keeping: Keeping,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """It ends when it `is_stopped`: nobody waits for it any more. As long as the node keeps the
        move, that is because the time of the flip is over."""
        self._name = name
        self._command = list(command)
        self._timeout_s = timeout_s
        self._keeping = keeping
        self._is_stopped = is_stopped

    def check(self, ctx: HookContext) -> str:
        """Whether the program is there; whether it works, only it knows."""
        del ctx
        program = self._command[0]
        if not (Path(program).is_file() and os.access(program, os.X_OK)):
            raise self._unfit("there is no such program, or it may not be run")
        return f"hook {self._name}: would run {program}"

    def before(self, ctx: HookContext) -> str:
        return self._run("before", ctx)

    def after(self, ctx: HookContext) -> str:
        return self._run("after", ctx)

    def undo(self, ctx: HookContext) -> str:
        return self._run("undo", ctx)

    def _run(self, phase: str, ctx: HookContext) -> str:
        patience_s = min(self._timeout_s, ctx.left_s)
        deadline = time.monotonic() + patience_s
        with (
            tempfile.TemporaryFile() as told,
            _pipe() as (lifeline, tells),
            _pipe() as (heard, report),
        ):
            told.write(_document(phase, ctx))
            told.seek(0)
            fds = (lifeline.fileno(), report.fileno())
            warden = [sys.executable, "-I", "-S", _WARDEN, *map(str, fds), repr(deadline)]
            leave = _Leave(tells.fileno(), self._keeping.until_s, self._is_stopped)
            # The leave is older than the look: who sleeps between the two has none any more.
            self._keeping.check(ctx)
            if time.monotonic() >= deadline or not leave.holds():
                raise self._failed(phase, "its time was over before it was started", "")
            try:
                process = subprocess.Popen(
                    [*warden, *self._command],
                    stdin=told,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=_environment(phase, ctx),
                    cwd="/",
                    pass_fds=fds,
                    start_new_session=True,
                )
            except OSError as error:
                raise self._unfit("the program cannot be run", error.strerror or "") from error
            with process:
                said = _followed(process, deadline, leave)
            report.close()
            how, _, number = heard.readline().decode().partition(" ")
        if how == "unfit":
            raise self._unfit("the program cannot be run", os.strerror(int(number)))
        words = _words(said)
        code = int(number) if how == "ended" else process.returncode
        if code == 0:
            return f"hook {self._name}, {phase}" + (f": {words.splitlines()[-1]}" if words else "")
        if not how and leave.is_over():
            what = "the hook was ended: its node does not keep the move any more"
        elif not how and time.monotonic() >= deadline:
            what = f"the hook took longer than {patience_s:.3g} s, and was killed"
        elif not how and self._is_stopped():
            what = "the hook was ended: the flip's time was over"
        else:
            what = f"the hook ended with {_ending(code)}"
        raise self._failed(phase, what, words)

    def _failed(self, phase: str, what: str, words: str) -> HookFailed:
        return HookFailed(
            what,
            object_=self._name,
            hint=f"see what it says: {words}" if words else "it said nothing: see its own log",
            operation=f"hook {phase}",
        )

    def _unfit(self, what: str, cause: str = "") -> HookUnfit:
        return HookUnfit(
            what,
            object_=self._command[0],
            hint=f"see [hooks.{self._name}] in the configuration of this node",
            operation="hook",
            cause=cause or None,
        )


def _document(phase: str, ctx: HookContext) -> bytes:
    return json.dumps(
        {
            "move": ctx.move,
            "phase": phase,
            "giving": {"side": ctx.giving.side.value, "endpoint": ctx.giving.endpoint},
            "taking": {"side": ctx.taking.side.value, "endpoint": ctx.taking.endpoint},
            "tables": ctx.tables,
            "attempt": ctx.attempt,
            "fence": ctx.fence,
        }
    ).encode()


def _environment(phase: str, ctx: HookContext) -> Mapping[str, str]:
    return {
        "PATH": _PATH,
        "LANG": "C.UTF-8",
        "LOCKGATE_MOVE": ctx.move,
        "LOCKGATE_PHASE": phase,
        "LOCKGATE_SIDE": ctx.taking.side.value,
        "LOCKGATE_GIVING": ctx.giving.endpoint,
        "LOCKGATE_TAKING": ctx.taking.endpoint,
        "LOCKGATE_ATTEMPT": str(ctx.attempt),
        "LOCKGATE_FENCE": ctx.fence,
    }


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    ends = os.pipe()
    with os.fdopen(ends[0], "rb", 0) as out, os.fdopen(ends[1], "wb", 0) as in_:
        yield out, in_


class _Leave:
    """Until when the program may run, told to its warden by a lifeline.

    That ends when this process does, for nobody else has its other end."""

    def __init__(
        self, lifeline: int, until_s: Callable[[], float], is_stopped: Callable[[], bool]
    ) -> None:
        os.set_blocking(lifeline, False)
        self._lifeline = lifeline
        self._ask = until_s
        self._is_stopped = is_stopped
        self._until_s = 0.0
        self._tell()

    def holds(self) -> bool:
        """Looked at anew."""
        if time.monotonic() >= self._again_s and not self.is_over():
            self._tell()
        return not self._is_stopped() and not self.is_over()

    def is_over(self) -> bool:
        """Its node may not keep the move any more. It stays so: somebody else may have been there
        since."""
        return time.monotonic() >= self._until_s

    def _tell(self) -> None:
        with contextlib.suppress(Transient):  # what was so before still is
            self._until_s = self._ask()
        self._again_s = time.monotonic() + _TELL_S
        # A warden that stands still is told later, one that is gone nothing.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._lifeline, struct.pack("d", self._until_s))


def _followed(process: subprocess.Popen[bytes], deadline: float, leave: _Leave) -> bytes:
    """The end of what it says, until it is over or its time is. Nothing of its group runs then.

    Its warden's end counts and not the end of the pipe, which something that got away from the
    group may hold."""
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    said = b""
    try:
        while time.monotonic() < deadline and leave.holds():
            over = _over(process.pid)
            if poll.poll(0 if over else _LOOK_MS):
                more = os.read(pipe, 65536)
                said = (said + more)[-_KEPT_BYTES:]
                if not more:
                    poll.unregister(pipe)
            elif over:
                break
        return said
    finally:
        # Before it is reaped, so that its number is not somebody else's by now.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _over(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _words(said: bytes) -> str:
    text = said.decode("utf-8", "replace")
    shown = "".join(c if c.isprintable() or c == "\n" else " " for c in text).strip()
    return by_look(shown)[-_SAID_MAX:]


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
