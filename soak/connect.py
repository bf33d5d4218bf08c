"""A Spark that outlives the runners: a Connect server in a process of its own.

A runner with a Spark of its own takes Spark with it when it is killed, and needs ten seconds or
more for the next one. With a Connect server a runner starts in a second or two: there is time for
many kills; and the tasks of a killed runner go on, which is the worse case of the two: they are
what the fence at the target is for.

    python -m soak.connect PORT        says `ready` when it answers, and ends with its stdin
"""

import contextlib
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Self

__all__ = ["ConnectServer"]

ROOT = Path(__file__).parents[1]


class ConnectServer:
    """Spark behind `url`, from `start` to `stop`; again at the same address after a kill."""

    def __init__(self, log: Path, slots: int = 2) -> None:
        self._log = log
        self._slots = slots
        self._port = _free_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"sc://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The process that owns Spark's Java process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Run it, and wait until it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "soak.connect", str(self._port), str(self._slots)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"the Spark Connect server did not start; see {self._log}")

    def stop(self) -> None:
        """End it, whatever is left of it."""
        process, self._process = self._process, None
        if process is None:
            return
        _close(process.stdin)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _close(process.stdout)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _close(pipe: IO[str] | None) -> None:
    if pipe is not None:
        with contextlib.suppress(OSError):
            pipe.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main(port: str, slots: str) -> None:
    """Serve until our stdin ends."""
    from lockgate.pipeline.jobs import warm_up
    from lockgate.pipeline.session import SparkOptions, start

    settings = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        # As Spark's own Connect server does: else all sessions share what any of them has sent,
        # and all of them fail when it goes with the session that sent it.
        "spark.sql.artifact.isolation.enabled": "true",
        "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        # A runner that was killed says no farewell: its session must not stay for an hour.
        "spark.connect.session.manager.defaultSessionTimeout": "10m",
    }
    with start(SparkOptions(f"local[{slots}]", settings=settings)) as spark:
        warm_up(spark)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
