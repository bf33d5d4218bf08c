"""Many runs, some at a time, and what came of them all."""

import argparse
import multiprocessing as mp
import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from soak.lake.cast import Cast
from soak.lake.run import Run

__all__ = ["Total", "main", "soak", "soak_beside"]


class Total:
    """Of all runs."""

    def __init__(self) -> None:
        self.runs = 0
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        """Each with the seed of its run."""

    @property
    def kills(self) -> int:
        return self.counts["kills"]

    def add(self, other: "Total") -> None:
        self.runs += other.runs
        self.counts += other.counts
        self.violations += other.violations


def soak(
    runs: int,
    kills: int,
    seed: int,
    folder: Path,
    *,
    found_max: int = 10,
    say: Callable[[str], None] = lambda _: None,
) -> Total:
    """So many runs, so many of them with a process killed. Ends early when much was found."""
    total = Total()
    cast = Cast(folder)
    try:
        for number in range(runs):
            # Spread evenly over all runs.
            kill = (number + 1) * kills // runs > number * kills // runs
            one = Run(cast, folder / f"run-{seed + number}", seed + number, kills=kill).run()
            total.runs += 1
            total.counts += one.counts
            total.violations += [f"seed {one.seed}: {what}" for what in one.violations]
            for what in one.violations:
                say(f"seed {one.seed}: {what}")
            took = " ".join(f"{phase_s:.1f}" for phase_s in one.phases_s)
            died = "".join(f", {death.who} killed: {death.how}" for death in one.deaths)
            say(f"run {number + 1} of {runs}, seed {one.seed}: {took} s{died}")
            if len(total.violations) >= found_max:
                break
    finally:
        cast.close()
    return total


def soak_beside(runs: int, kills: int, seed: int, folder: Path, jobs: int, found_max: int) -> Total:
    """The same, so many at a time: a run mostly waits."""
    edges = [runs * job // jobs for job in range(jobs + 1)]
    total = Total()
    # Spawned, as all who have to do with delta-rs are.
    with ProcessPoolExecutor(jobs, mp.get_context("spawn"), _end_with_parent) as pool:
        parts = [
            pool.submit(
                soak,
                edges[job + 1] - edges[job],
                kills * edges[job + 1] // runs - kills * edges[job] // runs,
                seed + edges[job],
                _made(folder / f"job-{job}"),
                found_max=found_max,
                say=_say,
            )
            for job in range(jobs)
        ]
        for part in parts:
            total.add(part.result())
    return total


def _end_with_parent() -> None:
    """Who is killed leaves nobody behind: neither those of a pool, nor the actors of theirs."""
    parent = mp.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _some(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("one at least")
    return number


def _say(line: str) -> None:
    print(line, flush=True)


def main(words: list[str]) -> int:
    """The exit code is 1 when something was found."""
    parser = argparse.ArgumentParser(prog="python -m soak.lake", description=__doc__)
    parser.add_argument("--runs", type=_some, default=2_000)
    parser.add_argument("--kills", type=int, default=120, help="runs with a process killed")
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--folder", type=Path, help="where lakes are made; in memory, if it can be")
    parser.add_argument("--jobs", type=_some, default=2, help="runs at a time")
    parser.add_argument("--found-max", type=int, default=10, help="end when so much was found")
    asked = parser.parse_args(words)
    memory = Path("/dev/shm")
    parent = asked.folder or (memory if memory.is_dir() else None)
    folder = Path(tempfile.mkdtemp(prefix="lockgate-lakes-", dir=parent))
    began_s = time.monotonic()
    total = soak_beside(asked.runs, asked.kills, asked.seed, folder, asked.jobs, asked.found_max)
    minutes = (time.monotonic() - began_s) / 60
    print()
    print(f"{total.runs} runs, {total.kills} kills, {minutes:.1f} minutes")
    for name, count in sorted(total.counts.items()):
        print(f"  {count:8}  {name}")
    print(f"  {len(total.violations):8}  violations")
    if total.violations:
        print(f"what is left of those runs: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0
