"""One soak of the service, from empty servers to the last row compared."""

import datetime
import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg

from lockgate.model.errors import LockgateError
from soak.compare import Difference
from soak.matrix.watcher import Watcher
from soak.service import verdict
from soak.service.faults import Faults
from soak.service.people import People
from soak.service.progress import Progress
from soak.service.supervisor import Supervisor
from soak.service.world import FEEDS, NODES, World, open_world
from soak.writers import Writers

__all__ = ["Plan", "Soak"]

EVERY_S: Final = 4.0
"""Between two faults, on average."""
LOOK_S: Final = 0.1
ROUND_S: Final = (20.0, 60.0)
RECOVER_S: Final = 300.0
"""For all nodes to be back and both feeds to pass where the source stood, under writes, on two
cores that are busy with Spark. It takes a few seconds more than a lease as a rule."""


@dataclass(frozen=True)
class Plan:
    """How long and how hard."""

    seconds: float
    rows: int
    lease_s: float
    faults: tuple[str, ...] = ()
    """These, one after the other, in one round; then that is all. None: random ones, for the time.
    """
    verbs: tuple[str, ...] = ()
    """With `faults`: what people do meanwhile."""
    every_s: float = EVERY_S


@dataclass
class Soak:
    """`run` it once."""

    place: Path
    seed: int
    plan: Plan
    rounds: int = 0
    recoveries_s: list[float] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    """Everything that must not be."""

    def run(self) -> dict[str, Any]:
        """Everything; what came of it."""
        self._began = time.monotonic()
        self._rng = random.Random(self.seed)
        self._said = threading.Lock()
        self._say(f"seed {self.seed}")
        with open_world(self.place, self.plan.rows, self.plan.lease_s) as world:
            self._say("three nodes and two feeds are up")
            return self._soak(world)

    def _soak(self, world: World) -> dict[str, Any]:
        nodes = Supervisor(world)
        faults = Faults(world, nodes, self._rng)
        script = list(self.plan.verbs) if self.plan.faults else None
        people = People(world, nodes, random.Random(f"{self.seed} people"), self._say, script)
        target = world.servers["target"].url()
        progress = Progress(target, FEEDS, lambda: people.paused)
        writers = [
            Writers(
                world.servers["source"].url(),
                count=2,
                seed=f"{self.seed} {feed}",
                schema=feed,
                pause_s=0.04,
                reshape_every=400,
            )
            for feed in FEEDS
        ]
        with Watcher(target) as watcher:
            for one in writers:
                one.start()
            progress.start()
            people.start()
            try:
                self._hurt(world, nodes, faults, people, progress)
            finally:
                people.stop()
                faults.heal_all()
                for one in writers:
                    one.stop()
            progress.stop()
            self._say("healed; level …")
            self.found += [f"a writer broke: {bug!r}" for one in writers for bug in one.bugs]
            self._wait_nodes(nodes)
            self.found += verdict.level(world)
            tables = verdict.compared(world)
            self._say("compared; converged …")
            self.found += verdict.converged(world)
        self.found += watcher.violations
        epochs = _epochs(world)
        self._say("removed …")
        self.found += self._end(world, nodes)
        self.found += nodes.deaths + people.surprises
        traces, told = verdict.read_logs(world)
        self.found += traces
        return {
            **self._result(tables),
            **_mischief(faults, people),
            "lives": nodes.starts + len(NODES),
            "starts_refused": nodes.starts_refused,
            "epochs": epochs,
            "ddl": dict(sum((one.ddl for one in writers), writers[0].ddl.__class__())),
            "transactions": sum(one.transactions for one in writers),
            "refused": sum(one.refused for one in writers),
            "longest_without_progress_s": {
                feed: round(spent, 1) for feed, spent in progress.longest_s.items()
            },
            "looks": watcher.looks,
            "told": dict(sorted(told.items())),
        }

    # --- rounds -----------------------------------------------------------------------------------

    def _hurt(
        self, world: World, nodes: Supervisor, faults: Faults, people: People, progress: Progress
    ) -> None:
        deadline = time.monotonic() + self.plan.seconds
        recovered = True
        while recovered and (time.monotonic() < deadline or not self.rounds):
            world.spared = self._rng.choice(NODES)
            self.rounds += 1
            self._say(f"round {self.rounds}: {world.spared} is spared")
            if self.plan.faults:
                self._scripted(nodes, faults, people)
                deadline = 0.0
            else:
                lasts_s = min(self._rng.uniform(*ROUND_S), max(5.0, deadline - time.monotonic()))
                self._random(nodes, faults, time.monotonic() + lasts_s)
            with people.resting(lambda: self._pass(nodes, faults)):
                faults.heal_all()
                recovered = self._recover(world, nodes, progress)

    def _random(self, nodes: Supervisor, faults: Faults, until: float) -> None:
        due = time.monotonic()
        while time.monotonic() < until:
            if time.monotonic() >= due:
                if said := faults.once():
                    self._say(said)
                due = time.monotonic() + self._rng.expovariate(1 / self.plan.every_s)
            self._pass(nodes, faults)

    def _scripted(self, nodes: Supervisor, faults: Faults, people: People) -> None:
        """Each of them, however long it takes until it can be done."""
        for kind in self.plan.faults:
            while not (said := faults.once(kind)):
                self._pass(nodes, faults)
            self._say(said)
            due = time.monotonic() + self.plan.every_s
            while time.monotonic() < due:
                self._pass(nodes, faults)
        people.wait()

    def _pass(self, nodes: Supervisor, faults: Faults) -> None:
        time.sleep(LOOK_S)
        faults.heal_due()
        nodes.look()

    def _recover(self, world: World, nodes: Supervisor, progress: Progress) -> bool:
        """All nodes are back, and the feeds pass where the source stands now."""
        began = time.monotonic()
        upto = world.source_position()
        while True:
            behind = {feed: at for feed, at in progress.positions.items() if at < upto}
            if nodes.all_listen() and not behind:
                break
            if time.monotonic() - began > RECOVER_S:
                self.found.append(
                    f"round {self.rounds}: not recovered after {RECOVER_S:g} s: "
                    f"{behind} did not come to {upto}; {_statuses(world)}"
                )
                self._say(self.found[-1])
                return False
            time.sleep(LOOK_S)
        self.recoveries_s.append(round(time.monotonic() - began, 1))
        self._say(f"recovered within {self.recoveries_s[-1]:.1f} s")
        return True

    # --- the end ----------------------------------------------------------------------------------

    def _wait_nodes(self, nodes: Supervisor) -> None:
        deadline = time.monotonic() + RECOVER_S
        while not nodes.all_listen():
            if time.monotonic() > deadline:
                self.found.append("not all nodes came back")
                return
            time.sleep(LOOK_S)

    def _end(self, world: World, nodes: Supervisor) -> list[str]:
        try:
            left = verdict.leftovers(world, self.place / "nodes" / "changelog")
        except LockgateError as error:
            left = [f"the feeds cannot be removed: {error}"]
        for name in NODES:
            nodes.stop(name)
        return [f"left over: {one}" for one in left]

    def _result(self, tables: dict[str, Difference]) -> dict[str, Any]:
        equal = all(one.equal for one in tables.values())
        return {
            "passed": equal and not self.found,
            "equal": equal,
            "missing": sum(one.missing for one in tables.values()),
            "extra": sum(one.extra for one in tables.values()),
            "different": sum(one.different for one in tables.values()),
            "found": self.found,
            "rounds": self.rounds,
            "recoveries_s": self.recoveries_s,
            "tables": {name: one._asdict() for name, one in tables.items()},
            "rows": sum(one.rows for one in tables.values()),
            "seconds": round(time.monotonic() - self._began, 1),
            "lease_s": self.plan.lease_s,
            "seed": self.seed,
            "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }

    def _say(self, text: str) -> None:
        with self._said:
            print(f"{time.monotonic() - self._began:7.1f} s  {text}", flush=True)


def _mischief(faults: Faults, people: People) -> dict[str, Any]:
    def of(verb: str) -> dict[str, int]:
        return {
            kind.removeprefix(f"{verb} "): count
            for kind, count in sorted(faults.done.items())
            if kind.startswith(verb)
        }

    return {
        "kills": of("kill"),
        "pauses": of("pause"),
        "partitions": of("partition"),
        "operators": {verb: dict(ends) for verb, ends in sorted(people.done.items())},
    }


def _epochs(world: World) -> dict[str, int]:
    with psycopg.connect(world.servers["target"].url()) as connection:
        return dict(connection.execute("SELECT feed, epoch FROM lockgate.feeds").fetchall())


def _statuses(world: World) -> list[str]:
    """How the feeds say they are."""
    found = []
    for feed in FEEDS:
        try:
            found.append(str(world.client(world.spared).feeds.status(feed)))
        except LockgateError as error:
            found.append(f"{feed}: {error}")
    return found
