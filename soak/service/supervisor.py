"""Starts nodes and stops them, and notes every one that ended by itself.

    kill / stop ──► (not wanted) ──► start ──► (wanted) ──► it must not end

A node that cannot join, because its metastore is away just then, may end before it listens: then it
is started again, as any supervisor of services does. One that has listened must not end.
"""

import subprocess
import threading
from typing import Final

from soak.service.world import NODES, World

__all__ = ["Supervisor"]

STOP_S: Final = 90.0


class Supervisor:
    """Who alone starts and ends nodes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lock = threading.RLock()
        self._wanted = set(NODES)
        self.starts = 0
        self.starts_refused = 0
        self.deaths: list[str] = []
        """Nodes that ended by themselves, with their last words; and those that did not end."""

    def kill(self, name: str) -> None:
        """SIGKILL."""
        with self._lock:
            self.look()
            self._wanted.discard(name)
            self._world.node(name).kill()

    def stop(self, name: str) -> bool:
        """SIGTERM; True when it ended as it should."""
        node = self._world.node(name)
        with self._lock:
            self.look()
            self._wanted.discard(name)
            if not node.running:
                return False
        try:
            code = node.stop(STOP_S)
        except subprocess.TimeoutExpired:
            self.deaths.append(f"{name} did not stop within {STOP_S:g} s: {_last(node.said())}")
            node.kill()
            return False
        if code:
            self.deaths.append(f"{name} stopped with code {code}: {_last(node.said())}")
        return code == 0

    def start(self, name: str) -> None:
        """Begin another life, unless it lives; does not wait for it."""
        with self._lock:
            if not self._world.node(name).running:
                self._world.node(name).start(wait=False)
                self.starts += 1
            self._wanted.add(name)

    def look(self) -> None:
        """See who has ended, and start it again."""
        with self._lock:
            for name in self._wanted:
                node = self._world.node(name)
                if node.running:
                    continue
                said = node.said()
                if '"listening"' in said:
                    self.deaths.append(f"{name} ended by itself: {_last(said)}")
                else:
                    self.starts_refused += 1
                node.start(wait=False)
                self.starts += 1

    def all_listen(self) -> bool:
        """True when every node runs and has said where it listens."""
        self.look()
        return all('"listening"' in self._world.node(name).said() for name in NODES)


def _last(said: str) -> str:
    return "\n".join(said.splitlines()[-12:])
