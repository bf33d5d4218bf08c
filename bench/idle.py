"""A server with one feed that has nothing to do, and commands that people wait for.

The server is one as people start it: SQLite, Spark in its own Java process. Its processor time is
that of the Python process alone, as is its memory (PSS); Spark's are told beside it.
"""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.figures import Figure, Limit
from bench.registry import Benchmark, Case
from bench.rig import memory, servers
from bench.rig.phases import median
from bench.rig.processes import JAVA, descendants, kind_of
from bench.watch import seconds
from soak.nodes import LOCKGATE, NodeServer

SECONDS: Final = 60
TIMES: Final = 10
NAME: Final = f"{SECONDS} s"
CPU_MAX: Final = 3.0
MEMORY_MAX: Final = 200.0
LEVEL_S: Final = 120.0
SETTLE_S: Final = 15.0
"""After the first rows, Spark's and Python's own tidying is over."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def cases(quick: bool) -> tuple[Case, ...]:
    """One length of time."""
    length = 3 if quick else SECONDS
    return (Case(f"{length} s", length),)


def measure(case: Case, directory: Path) -> tuple[Figure, ...]:
    """Have a feed level, then look at nothing happening."""
    with servers.server() as source, servers.server() as target:
        servers.execute(
            source,
            "CREATE TABLE orders (id int PRIMARY KEY, v text)",
            "INSERT INTO orders SELECT n, 'x' FROM generate_series(1, 10000) n",
        )
        node = NodeServer("one", directory, ["--listen", "127.0.0.1:0"], {})
        node.start()
        try:
            client = node.client()
            client.endpoints.add("source", source)
            client.endpoints.add("target", target)
            client.feeds.create("shop", source="source", target="target", tables=["public.*"])
            if not client.feeds.wait("shop", timeout_s=LEVEL_S).level:
                raise RuntimeError(f"the feed is not level: {client.feeds.status('shop')}")
            time.sleep(SETTLE_S if case.size == SECONDS else 0.0)
            figures = _idle(node.pid, case.size)
            environment = {"LOCKGATE_URL": node.url, "LOCKGATE_HOME": str(node.home)}
            help_s = _times([*LOCKGATE, "--help"], environment)
            status_s = _times([*LOCKGATE, "feed", "status", "shop"], environment)
        finally:
            node.close()
    return (
        *figures,
        seconds("lockgate --help, median", median(help_s)),
        seconds("lockgate --help, greatest", max(help_s)),
        seconds("lockgate feed status, median", median(status_s)),
        seconds("lockgate feed status, greatest", max(status_s)),
    )


def _idle(pid: int, length_s: int) -> tuple[Figure, ...]:
    java = [each for each in descendants(pid) if kind_of(each) == JAVA]
    began = time.monotonic()
    before, before_java = _spent_s([pid]), _spent_s(java)
    time.sleep(length_s)  # what is measured is that nothing happens
    spent_s = time.monotonic() - began
    sample = memory.take(pid, began)
    return (
        Figure("CPU of the server", _share(_spent_s([pid]) - before, spent_s), "% of a core"),
        Figure("CPU of Spark", _share(_spent_s(java) - before_java, spent_s), "% of a core"),
        Figure("memory of the server", round(sample.driver / 1e6, 1), "MB"),
        Figure("memory of Spark's Python", round(sample.workers / 1e6, 1), "MB"),
        Figure("memory of Spark's Java", round(sample.java / 1e6, 1), "MB"),
    )


def _spent_s(pids: Sequence[int]) -> float:
    """Processor time, user and system, of these processes and not of their children."""
    total = 0
    for pid in pids:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        user, system = stat.rpartition(")")[2].split()[11:13]
        total += int(user) + int(system)
    return total / _TICKS


def _share(spent_s: float, length_s: float) -> float:
    return round(100 * spent_s / length_s, 2)


def _times(words: Sequence[str], environment: dict[str, str]) -> list[float]:
    """Of each of several runs; the first, which nobody has in memory yet, is not counted."""
    found = []
    for _ in range(TIMES + 1):
        began = time.perf_counter()
        subprocess.run(
            words, env={**os.environ, **environment}, check=True, stdout=subprocess.DEVNULL
        )
        found.append(time.perf_counter() - began)
    return found[1:]


BENCHMARK = Benchmark(
    name="idle",
    title="A server with one idle feed, and how long commands take",
    cases=cases,
    measure=measure,
    limits=(
        Limit(NAME, "CPU of the server", CPU_MAX, "% of a core", "under 3 % of one core"),
        Limit(NAME, "memory of the server", MEMORY_MAX, "MB", "under 200 MB of Python memory"),
        Limit(NAME, "lockgate --help, median", 0.5, "s", "lockgate --help under 0.5 s"),
        Limit(NAME, "lockgate feed status, median", 1.0, "s", "feed status under 1 s"),
    ),
)
