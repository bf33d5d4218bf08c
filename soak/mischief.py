"""Who is killed next, and when.

Mostly the runner, at any moment of its life: while it starts, sets the feed up, copies, captures,
applies, writes a schema change. Sometimes a Python worker of Spark's in the middle of its task, all
of Spark's Java, or a database server. No moment is chosen, so every one is met in the long run.
"""

import contextlib
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Final

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from soak.connect import ConnectServer
from soak.process import FeedProcess, command, descendants, python_workers

__all__ = ["KINDS", "Mischief"]

KINDS: Final = {"runner": 80, "worker": 8, "spark": 3, "source": 5, "target": 4}
"""Whom it hits how often, of a hundred."""

_EARLY: Final = 0.2
"""The share of kills that come while a runner starts."""
_START_S: Final = 5.0
_LIFE_S: Final = 5.0
"""How long a runner lives, on average, after it has said its first word."""
_LIFE_MAX_S: Final = 25.0
_SILENCE_MAX_S: Final = 120.0


class Mischief:
    """Kills, and starts again what must not stay dead."""

    def __init__(
        self,
        rng: random.Random,
        runner: FeedProcess,
        spark: ConnectServer,
        source: EmbeddedPostgres,
        target: EmbeddedPostgres,
    ) -> None:
        self._rng = rng
        self._runner = runner
        self._spark = spark
        self._servers = {"source": source, "target": target}
        self.kills: Counter[str] = Counter()
        self.starts = 0
        self.ended: list[str] = []
        """What runners said that ended by themselves."""

    @property
    def count(self) -> int:
        return self.kills.total()

    def once(self) -> str:
        """Let the runner live for a while, then kill something; what it was."""
        if not self._runner.running:
            self._start()
        if self._rng.random() < _EARLY:
            self._live(self._rng.random() * _START_S)
        else:
            self._live(_SILENCE_MAX_S, until_it_speaks=True)
            self._live(min(self._rng.expovariate(1 / _LIFE_S), _LIFE_MAX_S))
        [kind] = self._rng.choices(list(KINDS), list(KINDS.values()))
        if kind == "worker" and not self._kill_worker():
            kind = "runner"
        if kind == "runner":
            self._runner.kill()
        elif kind == "spark":
            self._kill_spark()
        elif kind in self._servers:
            self._kill_server(self._servers[kind])
        self.kills[kind] += 1
        return kind

    def _start(self) -> None:
        self._runner.start()
        self.starts += 1

    def _live(self, seconds: float, *, until_it_speaks: bool = False) -> None:
        """Let time pass. A runner that ends by itself is noted, and started again."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not (until_it_speaks and self._runner.said()):
            if not self._runner.running:
                self.ended.append(self._runner.said()[-2000:])
                self._start()
            time.sleep(0.05)

    def _kill_worker(self) -> bool:
        """One of the Python processes that run tasks; False when there is none."""
        workers = python_workers(self._spark.pid)
        if not workers:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._rng.choice(workers), signal.SIGKILL)
        return True

    def _kill_spark(self) -> None:
        """The Java process. Whoever owns it starts another one, at the same address."""
        for pid in descendants(self._spark.pid):
            if Path(next(iter(command(pid)), "")).name == "java":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._spark.stop()
        self._spark.start()

    def _kill_server(self, server: EmbeddedPostgres) -> None:
        server.stop(self._rng.choice(["kill", "immediate"]))
        time.sleep(self._rng.random())
        server.start()
