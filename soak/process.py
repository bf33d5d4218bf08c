"""`lockgate feed run` as a process: started, watched, killed, started again with the same home."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["FeedProcess", "command", "descendants", "python_workers", "write_config"]


def write_config(path: Path, document: Mapping[str, Any]) -> Path:
    """A feed's configuration as a file that only we may read: passwords are in it."""
    path.touch(0o600)
    # A string, a number or a list of strings is written in TOML as it is in JSON.
    lines = [f"{key} = {json.dumps(value)}" for key, value in document.items()]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


class FeedProcess:
    """One feed, in one process at a time. What it says goes to `log`."""

    def __init__(self, name: str, config: Path, home: Path, spark: str, log: Path) -> None:
        self._command = [
            *(str(Path(sys.executable).with_name("lockgate")), "feed", "run", name),
            *("--config", str(config), "--home", str(home), "--spark", spark),
        ]
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._from = 0

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *options: str) -> None:
        """Begin, in the background."""
        with self.log.open("ab") as log:
            self._from = log.tell()
            self._process = subprocess.Popen(
                [*self._command, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing happens to one that has ended."""
        if self.running:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL, and gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def wait(self, timeout_s: float) -> int:
        """Its exit code, once it has ended by itself."""
        assert self._process is not None
        return self._process.wait(timeout_s)

    def said(self) -> str:
        """What it has said since it was started last."""
        with self.log.open("rb") as log:
            log.seek(self._from)
            return log.read().decode("utf-8", "replace")


def descendants(pid: int) -> Sequence[int]:
    """All processes below one, with a look at /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                children.setdefault(_parent_of(int(entry.name)), []).append(int(entry.name))
    found: list[int] = []
    ahead = [pid]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def python_workers(pid: int) -> list[int]:
    """Below a Spark, the processes that run Python tasks: forked by a daemon of theirs."""
    found = descendants(pid)
    daemons = {each for each in found if any(".daemon" in word for word in command(each))}
    return [each for each in found if each in daemons and _parent(each) in daemons]


def command(pid: int) -> list[str]:
    """The words of a process's command line; none when it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    return []


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError):
        return _parent_of(pid)
    return 0


def _parent_of(pid: int) -> int:
    """The number of a process's parent: the second word after the name, which may be anything."""
    text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    return int(text.rpartition(")")[2].split()[1])
