"""Nodes of the service as real processes: started, killed, paused, and asked over HTTP.

    with Cluster(folder, metastore_url, spark_url) as cluster:
        one, two, three = (cluster.start(name) for name in ("one", "two", "three"))
        one.client().feeds.create(…)
        one.kill()                      # SIGKILL; start it again with one.start()

Each node has a home and a log of its own; metastore, change log and Spark are common to all.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from lockgate.client import Client, connect

__all__ = ["Cluster", "NodeServer"]

START_S: Final = 180.0
"""It takes two on a machine that has nothing else to do."""
REFUSED: Final = "the metastore does not answer"
ROOT: Final = Path(__file__).parents[1]
LOCKGATE: Final = (str(Path(sys.executable).with_name("lockgate")),)
"""The command that people use; a launcher in its place may add to what runs."""


class NodeServer:
    """One `lockgate server`, through all its lives."""

    def __init__(
        self,
        name: str,
        folder: Path,
        options: list[str],
        env: dict[str, str],
        launcher: Sequence[str] = LOCKGATE,
    ) -> None:
        self.name = name
        self._launcher = launcher
        self.home = folder / name
        self.log = folder / f"{name}.log"
        self.url = ""
        self._options = options
        self._env = env
        self._process: subprocess.Popen[bytes] | None = None
        self._read_from = 0
        self._clients: list[Client] = []

    def start(self, *options: str, wait: bool = True) -> None:
        """Begin a life; returns when the node has joined and listens. One that refuses because its
        metastore is slow is begun once more, as whoever supervises it would: machines are busy."""
        self._begin(*options)
        if not wait:
            return
        try:
            self.wait_listening()
        except RuntimeError as refused:
            if self.running or REFUSED not in str(refused):
                raise
            self._begin(*options)
            self.wait_listening()

    def _begin(self, *options: str) -> None:
        self.kill()
        self._read_from = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(*self._launcher, "server"),
                    *("--home", str(self.home), "--node", self.name),
                    *self._options,
                    *options,
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=ROOT,
                env={**os.environ, **self._env},
                start_new_session=True,
            )

    def wait_listening(self) -> None:
        """Until the node has said where it listens."""
        deadline = time.monotonic() + START_S
        while not (url := self._listening()):
            if not self.running or time.monotonic() > deadline:
                raise RuntimeError(f"node {self.name} did not start:\n{self.said()}")
            time.sleep(0.02)
        self.url = url

    def _listening(self) -> str:
        for line in self.said().splitlines():
            with contextlib.suppress(ValueError):
                said = json.loads(line)
                if said.get("event") == "listening":
                    return str(said["url"])
        return ""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        process = self._process
        return process is not None and process.returncode is None and not _has_ended(process.pid)

    def said(self) -> str:
        """The log of this life."""
        with self.log.open("rb") as log:
            log.seek(self._read_from)
            return log.read().decode(errors="replace")

    def client(self) -> Client:
        """Asks this node, as its home's admin. Closed with the cluster."""
        made = connect(self.url, (self.home / "token").read_text("utf-8").strip())
        self._clients.append(made)
        return made

    def close(self) -> None:
        """Kill it, and close all who asked it."""
        self.kill()
        while self._clients:
            self._clients.pop().close()

    def kill(self) -> None:
        """SIGKILL, to it and whatever it has started. Nothing happens to one that is over.

        The group is ended before its leader is waited for: as long as that is not done, the number
        is nobody else's. On a busy machine numbers come round within a minute.
        """
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def pause(self) -> None:
        """SIGSTOP: it stands still, and its sockets stay open."""
        os.killpg(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        os.killpg(self.pid, signal.SIGCONT)

    def stop(self, timeout_s: float = 60.0) -> int:
        """SIGTERM, and its exit code. Raises TimeoutExpired when it does not end."""
        process = self._process
        assert process is not None
        if process.returncode is None:
            os.kill(process.pid, signal.SIGTERM)
            deadline = time.monotonic() + timeout_s
            while not _has_ended(process.pid):
                if time.monotonic() > deadline:
                    raise subprocess.TimeoutExpired(process.args, timeout_s)
                time.sleep(0.02)
            self.kill()
        assert process.returncode is not None
        return process.returncode


def _has_ended(pid: int) -> bool:
    """Whether our child is over, without waiting for it: it keeps its number."""
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, pid, flags) is not None


class Cluster:
    """Nodes that share a metastore, a change log and a Spark."""

    def __init__(
        self,
        folder: Path,
        metastore: str,
        spark: str,
        *,
        lease_s: float = 3.0,
        launcher: Sequence[str] = LOCKGATE,
    ) -> None:
        self._folder = folder
        self._launcher = launcher
        folder.mkdir(parents=True, exist_ok=True)
        self._options = [
            *("--listen", "127.0.0.1:0", "--metastore", metastore, "--spark-master", spark),
            *("--changelog", str(folder / "changelog"), "--lease", str(lease_s)),
            "--no-spark-ship",
        ]
        self.nodes: dict[str, NodeServer] = {}

    def start(
        self, name: str, *options: str, env: dict[str, str] | None = None, wait: bool = True
    ) -> NodeServer:
        """A new node."""
        asked = [*self._options, *options]
        node = NodeServer(name, self._folder, asked, env or {}, self._launcher)
        self.nodes[name] = node
        node.start(wait=wait)
        return node

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in self.nodes.values():
            node.close()
