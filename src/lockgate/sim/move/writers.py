"""Writers at both sides, all the time: each writes wherever it is let, and most do not know where
traffic is.

A transaction has the table from its first statement, where the guard is asked, to its commit. Who
waits for the table makes those that come later wait, for as long as it waits politely.
"""

from typing import TYPE_CHECKING, Final

from lockgate.model.moves import Side
from lockgate.sim.move.probes import MoveProbe
from lockgate.sim.move.side import SimSide

if TYPE_CHECKING:
    from lockgate.sim.move.world import MoveWorld

__all__ = ["Writers"]

WRITE_MS: Final = (15, 60)
HOLD_MS: Final = (1, 12)
SLOW_MS: Final = (100, 900)
INSERTS: Final = 0.3


class Writers:
    """Of one world."""

    def __init__(self, world: "MoveWorld") -> None:
        self._world = world

    def begin(self) -> None:
        """They never stop; when all faults are over they write less often."""
        for side in self._world.sides.values():
            self._later(side)

    def _later(self, side: SimSide) -> None:
        loop = self._world.loop
        low, high = WRITE_MS
        more = 4 if self._world.healed else 1
        loop.after(loop.between(low * more, high * more), self._write, side)

    def _write(self, side: SimSide) -> None:
        world, loop = self._world, self._world.loop
        self._later(side)
        if loop.now < side.wanted_until or world.is_away(side) or not self._may(side):
            return
        if side.guard is not None:
            world.probes.hit(MoveProbe.MOVE_BLOCK_RAN_OUT)
        side.writing += 1
        slow = world.goes_wrong(world.faults.write_slow)
        loop.after(loop.between(*(SLOW_MS if slow else HOLD_MS)), self._commit, side)

    def _may(self, side: SimSide) -> bool:
        """Nobody knows of the target's tables before the move has closed them, and what is left of
        the target by a move that was cancelled is nobody's business."""
        ledger = self._world.ledger
        unknown = side.side is Side.TARGET and not ledger.guarded_once
        left = side.over and side.side is not ledger.traffic
        return side.writable and not unknown and not left

    def _commit(self, side: SimSide) -> None:
        world, loop = self._world, self._world.loop
        side.writing -= 1
        rows = side.rows
        if world.is_away(side) or rows is None:
            return
        if not rows or loop.chance(INSERTS):
            side.sequence += 1
            key, seen = side.sequence, None
        else:
            key = 1 + loop.between(0, len(rows) - 1)
            seen = rows.get(key, 0)
        side.write(key, world.ledger.commits(side.side, key, seen))
