"""The demo's node: a `lockgate server` of its own process, so that it can be killed for real."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from lockgate.client import Client, connect
from lockgate.model.errors import Terminal

__all__ = ["DemoServer"]

START_S: Final = 60.0
STOP_S: Final = 30.0


class DemoServer:
    """One node with everything in its home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.log = home.with_suffix(".log")
        self.url = ""
        self._listen = "127.0.0.1:0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Client:
        """Run it; answers a client once it listens. It listens where it did before."""
        read_from = self.log.stat().st_size if self.log.exists() else 0
        command = [sys.executable, "-c", "import sys; from lockgate.cli.main import main"]
        command[-1] += "; sys.exit(main())"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(*command, "server", "--home", str(self.home), "--node", "demo"),
                    *("--listen", self._listen, "--lease", "5"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.url = self._wait(read_from)
        self._listen = self.url.removeprefix("http://")
        return connect(self.url, (self.home / "token").read_text("utf-8").strip())

    def kill(self) -> int:
        """SIGKILL, to it and to the Spark that it has started; answers its process id."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        return self._process.pid

    def stop(self) -> None:
        """Ask it to end, and see to it that it does."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
            return
        self.kill()

    def _wait(self, read_from: int) -> str:
        deadline = time.monotonic() + START_S
        lines: list[str] = []
        while time.monotonic() < deadline:
            with self.log.open("rb") as log:
                log.seek(read_from)
                lines = log.read().decode(errors="replace").splitlines()
            for line in lines:
                with contextlib.suppress(ValueError):
                    said = json.loads(line)
                    if said.get("event") == "listening":
                        return str(said["url"])
            if self._process is None or self._process.poll() is not None:
                break
            time.sleep(0.05)
        raise Terminal(
            "the demo's server did not start",
            object_=str(self.log),
            hint="its log says why",
            cause=lines[-1] if lines else None,
        )
