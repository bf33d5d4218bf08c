"""What is broken, and how it heals: kills, pauses, partitions.

Each fault heals by itself after a while, at most three leases: some before anybody's lease has run
out, most of them after. Faults overlap. Choices come from the seed; when things happen does not.
"""

import contextlib
import heapq
import itertools
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from soak.process import command, descendants, python_workers
from soak.proxy import FaultProxy, Way
from soak.service.supervisor import Supervisor
from soak.service.world import NODES, World

__all__ = ["KINDS", "Faults"]

KINDS: Final = {
    "kill node": 30,
    "pause node": 12,
    "partition node": 10,
    "partition metastore": 10,
    "partition source": 5,
    "partition target": 5,
    "kill worker": 8,
    "kill spark": 2,
    "kill source": 4,
    "kill target": 4,
    "kill metastore": 4,
}
"""How often each, compared with the others."""

LEASES: Final = (0.2, 3.0)
"""How long a fault lasts."""


def _cut(proxy: FaultProxy, _: random.Random) -> None:
    proxy.refuse()
    proxy.cut()


def _deaf(proxy: FaultProxy, _: random.Random) -> None:
    proxy.lose(Way.TO_SERVER)


def _mute(proxy: FaultProxy, _: random.Random) -> None:
    proxy.lose(Way.TO_CLIENT)


def _slow(proxy: FaultProxy, rng: random.Random) -> None:
    proxy.delay(rng.uniform(0.02, 0.3))


def _silent(proxy: FaultProxy, _: random.Random) -> None:
    proxy.fall_silent()


MANNERS: Final = {"cut": _cut, "deaf": _deaf, "mute": _mute, "slow": _slow, "silent": _silent}
"""Deaf: what is said to the server vanishes. Mute: its answers do. Silent: everything waits."""


class Faults:
    """Breaks things, and heals them when their time has come."""

    def __init__(self, world: World, nodes: Supervisor, rng: random.Random) -> None:
        self._world = world
        self._nodes = nodes
        self._rng = rng
        self._order = itertools.count()
        self._healing: list[tuple[float, int, str, Callable[[], None]]] = []
        self._broken: set[str] = set()
        self.done: Counter[str] = Counter()
        """By kind, and for partitions by their manner."""

    def once(self, kind: str = "") -> str:
        """Do one, of this kind or any; says what. Nothing, when it cannot be done just now."""
        if not kind:
            [kind] = self._rng.choices(list(KINDS), list(KINDS.values()))
        verb, _, what = kind.partition(" ")
        if verb == "partition":
            return self._partition(what)
        if kind == "kill node":
            return self._kill_node()
        if kind == "pause node":
            return self._pause()
        if kind == "kill worker":
            return self._kill_worker()
        if kind == "kill spark":
            return self._kill_spark()
        return self._kill_server(what)

    def heal_due(self) -> None:
        """Heal what has been broken for long enough."""
        while self._healing and self._healing[0][0] <= time.monotonic():
            self._heal_next()

    def heal_all(self) -> None:
        """Heal everything now."""
        while self._healing:
            self._heal_next()

    def _heal_next(self) -> None:
        _, _, what, heal = heapq.heappop(self._healing)
        heal()
        self._broken.discard(what)

    def _later(self, what: str, heal: Callable[[], None]) -> float:
        lasts_s = self._rng.uniform(*LEASES) * self._world.lease_s
        self._broken.add(what)
        due = time.monotonic() + lasts_s
        heapq.heappush(self._healing, (due, next(self._order), what, heal))
        return lasts_s

    # --- nodes ------------------------------------------------------------------------------------

    def _some_node(self, why: str) -> str:
        names = list(NODES)
        self._rng.shuffle(names)
        return next((name for name in names if self._world.take(why, name)), "")

    def _kill_node(self) -> str:
        name = self._some_node("killed")
        if not name:
            return ""
        self._nodes.kill(name)

        def heal() -> None:
            self._nodes.start(name)
            self._world.give_back(name)

        return self._told("kill node", f"{name}, away {self._later(name, heal):.1f} s")

    def _pause(self) -> str:
        name = self._some_node("paused")
        if not name:
            return ""
        node = self._world.node(name)
        with contextlib.suppress(ProcessLookupError):
            node.pause()

        def heal() -> None:
            with contextlib.suppress(ProcessLookupError):
                node.go_on()
            self._world.give_back(name)

        return self._told("pause node", f"{name} for {self._later(name, heal):.1f} s")

    # --- ways -------------------------------------------------------------------------------------

    def _partition(self, what: str) -> str:
        name = ""
        if what in self._world.ends:
            proxy = self._world.ends[what]
        else:
            name = self._some_node("cut off")
            if not name:
                return ""
            proxy = (self._world.links if what == "node" else self._world.stores)[name]
        place = f"way to {what} {name}"
        if place in self._broken:
            return ""
        manner = self._rng.choice(list(MANNERS))
        MANNERS[manner](proxy, self._rng)

        def heal() -> None:
            proxy.heal()
            if name:
                self._world.give_back(name)

        lasts_s = self._later(place, heal)
        return self._told(f"partition {what}, {manner}", f"{name} for {lasts_s:.1f} s".strip())

    # --- servers ----------------------------------------------------------------------------------

    def _kill_worker(self) -> str:
        """One of the Python processes that run tasks."""
        workers = python_workers(self._world.spark.pid)
        if not workers:
            return ""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._rng.choice(workers), signal.SIGKILL)
        return self._told("kill worker", "")

    def _kill_spark(self) -> str:
        """All of Java; another one comes at the same address."""
        for pid in descendants(self._world.spark.pid):
            if Path(next(iter(command(pid)), "")).name == "java":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._world.spark.stop()
        self._world.spark.start()
        return self._told("kill spark", "")

    def _kill_server(self, what: str) -> str:
        if what in self._broken:
            return ""
        server = self._world.servers[what]
        server.stop(self._rng.choice(["kill", "immediate"]))
        lasts_s = self._later(what, lambda: void(server.start()))
        return self._told(f"kill {what}", f"away {lasts_s:.1f} s")

    def _told(self, kind: str, more: str) -> str:
        self.done[kind] += 1
        return f"{kind}: {more}" if more else kind


def void(_: object) -> None:
    """Of an answer that nobody needs."""
