"""What must hold at the end, and what is wrong if it does not."""

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psycopg

from lockgate.model.errors import LockgateError
from soak.compare import Difference, compare
from soak.matrix.truth import Truth
from soak.service.world import FEEDS, NODES, World

__all__ = ["compared", "converged", "leftovers", "level", "read_logs"]

LEVEL_S: Final = 600.0
CONVERGE_S: Final = 180.0
_LEFT: Final = {
    "source": {
        "slots": "SELECT slot_name::text FROM pg_replication_slots",
        "publications": "SELECT pubname::text FROM pg_publication",
        "event triggers": "SELECT evtname::text FROM pg_event_trigger",
    },
    "target": {
        "rows of progress": "SELECT feed || '/' || span FROM lockgate.progress",
        "staging tables": "SELECT relname::text FROM pg_class WHERE relkind = 'r' "
        "AND relname LIKE '%lockgate%' AND relnamespace <> 'lockgate'::regnamespace",
    },
}


def level(world: World) -> list[str]:
    """`feed wait` of every feed; what hinders it."""
    found = []
    for feed in FEEDS:
        try:
            waited = world.client(NODES[0]).feeds.wait(feed, timeout_s=LEVEL_S)
        except LockgateError as error:
            found.append(f"{feed} does not become level: {error}")
            continue
        if not waited.level:
            found.append(f"{feed} is not level after {waited.seconds:.0f} s: {waited}")
    return found


def compared(world: World) -> dict[str, Difference]:
    """Every row of every table."""
    source, target = (world.servers[name].url() for name in ("source", "target"))
    return {f"{feed}.{one.table}": one for feed in FEEDS for one in compare(source, target, feed)}


def converged(world: World) -> list[str]:
    """Records, dispatchers and the target agree; each key is covered once. What is wrong if not."""
    metastore, target = (world.servers[name].url() for name in ("metastore", "target"))
    with Truth(metastore, target) as truth:

        def problems() -> list[str]:
            lives = truth.lives()
            away = [f"{name} is not there" for name in NODES if name not in lives]
            return away + [
                f"{feed}: {one}" for feed in FEEDS for one in truth.view(feed).problems()
            ]

        return _until_none(problems, CONVERGE_S)


def leftovers(world: World, changelog: Path) -> list[str]:
    """Remove both feeds; what stays of them although it should not."""
    for feed in FEEDS:
        world.client(NODES[0]).feeds.remove(feed)

    def left() -> list[str]:
        found = [f"feed {one.name}" for one in world.client(NODES[0]).feeds.list()]
        for server, questions in _LEFT.items():
            with psycopg.connect(world.servers[server].url()) as connection:
                for what, question in questions.items():
                    found += [f"{what}: {name}" for (name,) in connection.execute(question)]
        files = [each for each in changelog.rglob("*") if each.is_file()]
        return found + [f"{len(files)} files in the change log"] * bool(files)

    return _until_none(left, CONVERGE_S)


def _until_none(problems: Callable[[], list[str]], timeout_s: float) -> list[str]:
    """What is still wrong after that time."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            found = problems()
        except (LockgateError, psycopg.OperationalError) as error:
            found = [str(error)]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


def read_logs(world: World) -> tuple[list[str], Counter[str]]:
    """Traces in the nodes' logs, and how often they had which warning or error to tell."""
    traces: list[str] = []
    told: Counter[str] = Counter()
    for name in NODES:
        for line in world.node(name).log.read_text("utf-8", "replace").splitlines():
            try:
                said = json.loads(line)
            except ValueError:
                # Words of the command itself: why it does not start.
                if not line.startswith(("error: ", "hint: ")):
                    traces.append(f"{name}: {line}")
                continue
            if "trace" in said or "Traceback" in line:
                traces.append(f"{name}: {line}")
            if said.get("level") in {"warning", "error", "critical"}:
                event = str(said.get("event")).partition(":")[0]
                told[f"{said['level']}: {event}"] += 1
    return traces, told
