"""All processes of the soak, kept alive from run to run; who is killed is replaced by a spare.

To import everything takes longer than a run: a process is spawned before it is needed.
"""

import contextlib
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from soak.lake.actor import Actor, ActorGone
from soak.lake.points import Armed
from soak.lake.roles import Part

__all__ = ["FEEDS", "HOMES", "KEEPERS", "Cast", "Death"]

HOMES: Final = ("a", "b")
KEEPERS: Final = {"a1": "a", "a2": "a", "b1": "b"}
FEEDS: Final = {"feed-a": "a", "feed-b": "b"}
NAMES: Final = (*KEEPERS, *FEEDS, "reader")


@dataclass(frozen=True)
class Death:
    """Of a process, killed."""

    who: str
    how: str
    """At which point, or `any time`."""


class Cast:
    """The processes, by what they are called."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._actors = {name: Actor() for name in NAMES}
        self._spare = Actor()
        self._parts: dict[str, Part] = {}
        self._armed: dict[str, Armed] = {}
        self.deaths: list[Death] = []
        self.stopped: set[str] = set()
        self.keeps: dict[str, str] = {}
        """Which node of each home has the coordinator, and is asked."""

    def __getitem__(self, name: str) -> Actor:
        return self._actors[name]

    def keeper(self, home: str) -> Actor:
        """Who is to be asked."""
        return self._actors[self.keeps[home]]

    # --- a run ------------------------------------------------------------------------------------

    def begin(
        self, run: Path, seed: int, drain_ms: int, workers: int, armed: dict[str, Armed]
    ) -> None:
        """Let everybody play a part in the run."""
        self.deaths.clear()
        self._armed = armed
        for name in NAMES:
            role = "keeper" if name in KEEPERS else "feed" if name in FEEDS else "reader"
            home = KEEPERS.get(name) or FEEDS.get(name) or ""
            metastore = self._folder / f"home-{home}.db"
            part = Part(role, name, home, run, seed, 1, drain_ms, workers, metastore)
            self._parts[name] = part
        called = [
            self._actors[name].begin("be", part, armed.get(name, Armed()))
            for name, part in self._parts.items()
            if name != "reader"
        ]
        for one in called:
            with contextlib.suppress(ActorGone):  # killed at a point so early
                one.result()
        self.keeps = {"a": "a1", "b": "b1"}
        self._actors["reader"].call("be", self._parts["reader"], Armed())

    def end(self) -> None:
        """Everybody leaves the run."""
        called = [self._actors[name].begin("end") for name in NAMES]
        for one in called:
            one.result()

    def close(self) -> None:
        for actor in (*self._actors.values(), self._spare):
            actor.kill()

    # --- keepers ----------------------------------------------------------------------------------

    def lead(self, name: str, leads: bool) -> None:
        """Whether the coordinator is on this node."""
        with contextlib.suppress(ActorGone):
            self._actors[name].call("leads", leads)

    def tell(self, name: str, verb: str, *args: Any) -> None:
        """Somebody who is gone hears nothing."""
        with contextlib.suppress(ActorGone):
            self._actors[name].call(verb, *args)

    # --- mischief ---------------------------------------------------------------------------------

    def stop(self, name: str) -> None:
        self.stopped.add(name)
        self._actors[name].signal(signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        self.stopped.discard(name)
        self._actors[name].signal(signal.SIGCONT)

    def kill(self, name: str) -> None:
        """At any time."""
        if self._actors[name].alive:
            self._actors[name].kill()
            self._died(name, "any time")

    def bury(self) -> list[str]:
        """Who has killed himself at a point since the last look."""
        dead = [name for name in NAMES if not self._actors[name].alive]
        dead = [name for name in dead if name not in {death.who for death in self.deaths}]
        for name in dead:
            code = self._actors[name].exit_code
            assert code == -signal.SIGKILL, f"{name} has ended by itself: {code}"
            self._actors[name].join()
            self._died(name, self._armed[name].dies_at)
        return dead

    def _died(self, name: str, how: str) -> None:
        self.stopped.discard(name)
        self.deaths.append(Death(name, how))

    def dead(self) -> list[str]:
        return [name for name in NAMES if not self._actors[name].alive]

    def replace(self, name: str) -> None:
        """Begin it anew. A feed's successor has a higher token."""
        actor, self._spare = self._spare, Actor()
        part = self._parts[name]
        part = self._parts[name] = replace(part, number=part.number + 100)
        actor.call("be", part, Armed())
        self._actors[name] = actor
        if name in self.keeps.values():
            actor.call("leads", True)
