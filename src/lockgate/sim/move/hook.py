"""Whoever routes the traffic: told to hold it and to let it go on, by a program of the user's.

It does what it is told by the newest keeper that it has seen, and knows of no records. It may hang,
fail before it has done anything, or do it and fail: a hook that was ended may have held traffic.
"""

from typing import TYPE_CHECKING, Final

from lockgate.sim.move.probes import MoveProbe
from lockgate.sim.move.side import StaleKeeper

if TYPE_CHECKING:
    from lockgate.sim.move.world import MoveWorld

__all__ = ["HANG_MS", "SimHook"]

HANG_MS: Final = 700
"""After this it is ended, if it is not before."""


class SimHook:
    """One, of one move."""

    def __init__(self, world: "MoveWorld") -> None:
        self._world = world
        self.holds = False
        self._keeper = 0

    def tell(self, keeper: int, *, holds: bool) -> None:
        """Hold the traffic, or let it go on."""
        if not self.admits(keeper):
            self._world.probes.hit(MoveProbe.MOVE_ZOMBIE_AT_HOOK)
            raise StaleKeeper
        self._world.ledger.tells_hook(keeper)
        self._keeper = keeper
        self.holds = holds

    def admits(self, keeper: int) -> bool:
        """The fence."""
        return keeper >= self._keeper

    def hangs(self) -> bool:
        """This time."""
        return self._by_chance(self._world.faults.hook_hangs, MoveProbe.MOVE_HOOK_HUNG)

    def fails(self) -> bool:
        """This time."""
        return self._by_chance(self._world.faults.hook_failed, MoveProbe.MOVE_HOOK_FAILED)

    def _by_chance(self, rate: float, probe: MoveProbe) -> bool:
        wrong = self._world.goes_wrong(rate)
        if wrong:
            self._world.probes.hit(probe)
        return wrong
