"""Runs many seeds, on several cores, and sums up.

A seed is three worlds, which have nothing to do with each other: that of the feeds, that of a lake
which several homes share, and that of a move between two databases. A planted bug is in one of
them, and only that one is run.

Whatever the number of processes, a seed is one world: the trace hash over all seeds is the
same for any `jobs`.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from multiprocessing import get_context
from typing import TypeVar

import msgspec

from lockgate.sim.any_world import AnyStory, AnyWorld
from lockgate.sim.lake.story import LakeStory
from lockgate.sim.lake.world import LakeWorld
from lockgate.sim.move.story import MoveStory
from lockgate.sim.move.world import MoveWorld
from lockgate.sim.plants import PLANTS
from lockgate.sim.plants.registry import FEEDS, LAKE, MOVE
from lockgate.sim.story import Story
from lockgate.sim.violation import LawBroken, Violation
from lockgate.sim.world import World

CHUNK = 8
"""Seeds handed to a process at a time."""
CHUNKS_AHEAD = 4
"""Chunks that wait for each process, so that none is idle while an earlier one takes long."""

Progress = Callable[[int, int], None]
Told = TypeVar("Told", bound=AnyStory)


class SeedResult(msgspec.Struct):
    """One seed."""

    seed: int
    violation: Violation | None
    messages: int
    faults: int
    probes: dict[str, int]
    trace_hash: str


class SimReport(msgspec.Struct):
    """Many seeds."""

    seeds: int
    violations: list[Violation]
    messages: int
    faults: int
    probes: dict[str, int]
    missed_probes: list[str]
    trace_hash: str
    seconds: float

    @property
    def ok(self) -> bool:
        """No law was broken."""
        return not self.violations


def run_seed(seed: int, plant: str | None = None) -> SeedResult:
    """Run the worlds of one seed; with `plant`, the one that has this known bug in it."""
    only = None if plant is None else PLANTS[plant].world
    with _planted(plant):
        results = [run(seed) for world, run in _WORLDS.items() if only in {None, world}]
    trace = blake2b(digest_size=16)
    for result in results:
        trace.update(result.trace_hash.encode())
    return SeedResult(
        seed,
        next((one.violation for one in results if one.violation is not None), None),
        sum(one.messages for one in results),
        sum(one.faults for one in results),
        {name: hits for one in results for name, hits in one.probes.items()},
        trace.hexdigest(),
    )


def _planted(plant: str | None) -> AbstractContextManager[object]:
    return nullcontext() if plant is None else PLANTS[plant].install()


def _runs(
    new: Callable[[int, Told | None], AnyWorld], new_story: Callable[[], Told]
) -> Callable[[int], SeedResult]:
    """How a seed is run in one kind of world."""

    def run_world(seed: int) -> SeedResult:
        world = new(seed, None)
        violation: Violation | None = None
        try:
            world.run()
        except LawBroken as broken:
            story = new_story()
            retold = _retold(new(seed, story), story)
            violation = Violation(seed, broken.law.value, broken.what, [*retold, *broken.story])
        probes, faults = world.probes.by_name(), world.faults.count
        return SeedResult(seed, violation, world.messages, faults, probes, world.trace_hash)

    return run_world


_WORLDS: dict[str, Callable[[int], SeedResult]] = {
    FEEDS: _runs(World, Story),
    LAKE: _runs(LakeWorld, LakeStory),
    MOVE: _runs(MoveWorld, MoveStory),
}


def _retold(world: AnyWorld, story: AnyStory) -> list[str]:
    """Run the world again, this time taking notes."""
    try:
        world.run()
    except LawBroken as again:
        return story.about(again.about)
    return ["the same seed did not break the law again: the simulator is not deterministic"]


def run(
    first_seed: int,
    seeds: int,
    jobs: int = 1,
    plant: str | None = None,
    on_progress: Progress | None = None,
) -> SimReport:
    """Run `seeds` worlds from `first_seed` on. With a plant, stop at the first one it breaks."""
    began = time.monotonic()
    results: list[SeedResult] = []
    found: Iterator[SeedResult]
    if jobs <= 1 or seeds <= CHUNK:
        found = (run_seed(seed, plant) for seed in range(first_seed, first_seed + seeds))
    else:
        found = _in_processes(first_seed, seeds, jobs, plant)
    for result in found:
        results.append(result)
        if on_progress is not None:
            on_progress(len(results), seeds)
        if plant is not None and result.violation is not None:
            break
    return _report(results, time.monotonic() - began)


def _in_processes(
    first_seed: int, seeds: int, jobs: int, plant: str | None
) -> Iterator[SeedResult]:
    """Chunks of seeds, handed out as processes become free; the results in the order of seeds.

    In order, so that the first seed to find a planted bug is the same one each time.
    """
    end = first_seed + seeds
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running: deque[Future[bytes]] = deque()
        try:
            for start in range(first_seed, end, CHUNK):
                running.append(pool.submit(_run_chunk, start, min(start + CHUNK, end), plant))
                if len(running) >= jobs * CHUNKS_AHEAD:
                    yield from _decode(running.popleft().result())
            while running:
                yield from _decode(running.popleft().result())
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _run_chunk(first: int, end: int, plant: str | None) -> bytes:
    """In a process of its own. With a plant, nothing after the first violation is of use."""
    results = []
    for seed in range(first, end):
        results.append(run_seed(seed, plant))
        if plant is not None and results[-1].violation is not None:
            break
    return msgspec.msgpack.encode(results)


def _decode(encoded: bytes) -> list[SeedResult]:
    return msgspec.msgpack.decode(encoded, type=list[SeedResult])


def _report(results: list[SeedResult], seconds: float) -> SimReport:
    results.sort(key=lambda result: result.seed)
    trace = blake2b(digest_size=16)
    probes: dict[str, int] = {}
    for result in results:
        trace.update(result.trace_hash.encode())
        for name, hits in result.probes.items():
            probes[name] = probes.get(name, 0) + hits
    return SimReport(
        seeds=len(results),
        violations=[result.violation for result in results if result.violation is not None],
        messages=sum(result.messages for result in results),
        faults=sum(result.faults for result in results),
        probes=probes,
        missed_probes=[name for name, hits in probes.items() if not hits],
        trace_hash=trace.hexdigest(),
        seconds=seconds,
    )
