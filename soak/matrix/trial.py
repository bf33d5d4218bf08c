"""One cell: freeze, kill, let go, start again, and see whether all is well."""

import time
from typing import Final

import msgspec

from lockgate.model.errors import LockgateError
from soak.failpoints import FailPoint, Frozen
from soak.matrix.cells import Cell
from soak.matrix.provoke import arrange, begin
from soak.matrix.world import FEEDS, SOON_S, Unhealthy, World

__all__ = ["Outcome", "attempt"]

FREEZE_S: Final = 60.0
TRIES: Final = 4
"""The balance moves spans too: where it came first, everything is put in its place again."""


class Outcome(msgspec.Struct, frozen=True):
    """What came of a cell."""

    cell: Cell
    passed: bool
    converged_s: float = 0.0
    """From the kill, the start of the killed node included."""
    seconds: float = 0.0
    rows: int = 0
    why: str = ""


def attempt(world: World, cell: Cell, number: int) -> Outcome:
    """Try a cell. Cells take turns with the feeds, by their number."""
    began = time.monotonic()
    feed = list(FEEDS)[number % len(FEEDS)]
    try:
        frozen = _freeze(world, cell, feed)
        killed = time.monotonic()
        _kill(world, cell, frozen)
        world.converge()
        converged_s = time.monotonic() - killed
        rows = world.require_equal()
        world.require_watched()
    except (Unhealthy, LockgateError) as why:
        world.heal()
        return Outcome(cell, False, seconds=time.monotonic() - began, why=str(why))
    return Outcome(cell, True, converged_s, time.monotonic() - began, rows)


def _freeze(world: World, cell: Cell, feed: str) -> Frozen:
    """The owner stands still in that state, and the other parts are played by others."""
    for _ in range(TRIES):
        world.converge()
        scene = arrange(world, feed, cell.operator)
        owner = world.view(feed).owner
        points = world.points[owner]
        points.arm(FailPoint(feed, cell.operator, cell.state, cell.when, scene.span, scene.table))
        thread = begin(scene, owner if cell.victim == "owner" else "")
        try:
            frozen = world.until(points.frozen, world.problems, FREEZE_S)
        except Unhealthy:
            points.go()
            thread.join(SOON_S)
            continue
        if _all_different(frozen):
            return frozen
        points.go()
        thread.join(SOON_S)
    raise Unhealthy(f"the operator did not come about as it should: {world.problems()}")


def _all_different(frozen: Frozen) -> bool:
    parts = [part for part in (frozen.owner, frozen.origin, frozen.destination) if part]
    return len(set(parts)) == len(parts)


def _kill(world: World, cell: Cell, frozen: Frozen) -> None:
    victim: str = getattr(frozen, cell.victim)
    node = world.cluster.nodes[victim]
    node.kill()
    if victim == frozen.owner:
        world.points[victim].clear()
    else:
        world.points[frozen.owner].go()
    node.start()
