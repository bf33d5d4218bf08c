"""One attempt at a step, as an executor makes it: it takes time, and may outlive its keeper.

acts ──► acts ──► … ──► its end is told, perhaps late, perhaps twice
  │                └── it is done and that is not told: it counts as failed
  └── a server is away, somebody has to act first, a later keeper was there
"""

from typing import TYPE_CHECKING, Final

from lockgate.model.move_events import StepEnded, StepOutcome
from lockgate.model.move_instructions import RunStep
from lockgate.model.moves import MoveFacts, MoveTrouble, Step
from lockgate.sim.move.losing import LosingVerbs
from lockgate.sim.move.probes import MoveProbe
from lockgate.sim.move.side import NotNow, NotSo, StaleKeeper
from lockgate.sim.move.verbs import Verbs

if TYPE_CHECKING:
    from lockgate.sim.move.process import SimMoveKeeper

__all__ = ["Running"]

SLOW_MS: Final = (100, 1_200)
ORPHAN_MS: Final = (50, 4_000)
STOP: Final = 0.7


class Running:
    """Under way."""

    def __init__(self, keeper: "SimMoveKeeper", run: RunStep) -> None:
        self.run = run
        self.stopped = False
        self._keeper = keeper
        self._world = keeper.world
        self.began = keeper.world.loop.now
        kind = Verbs if run.order.lost is None else LosingVerbs
        self._acts = kind(keeper.world, run).act()
        self._over = False
        self._orphan_until: int | None = None

    def begin(self) -> None:
        """For as long as it takes."""
        self._advance()

    def orphan(self, *, lives: bool) -> None:
        """Its keeper is gone. It goes on for a while and tells nobody, or ends with it."""
        loop = self._world.loop
        if lives:
            self._orphan_until = loop.now + loop.between(*ORPHAN_MS)
        else:
            self.cancel()

    def cancel(self) -> None:
        """Nothing of it happens any more."""
        self._over = True
        self._acts.close()

    def _advance(self) -> None:
        if self._over:
            return
        loop, faults = self._world.loop, self._world.faults
        if self._orphan_until is not None and loop.now >= self._orphan_until:
            self.cancel()
        elif loop.now < self._keeper.paused_until:
            loop.after(self._keeper.paused_until - loop.now, self._advance)
        elif (self.stopped and loop.chance(STOP)) or loop.chance(faults.step_failed):
            faults.count += 1
            self._end(StepOutcome.FAILED, None, "the server made a noise")
        else:
            self._act()

    def _act(self) -> None:
        world, loop = self._world, self._world.loop
        try:
            delay = next(self._acts)
        except StopIteration as over:
            self._done(over.value)
        except StaleKeeper:
            world.probes.hit(MoveProbe.MOVE_ZOMBIE_FENCED)
            self._end(StepOutcome.STALE, None, "a later keeper was there")
        except NotSo as why:
            self._end(StepOutcome.REFUSED, None, str(why))
        except NotNow as why:
            self._end(StepOutcome.FAILED, None, str(why))
        else:
            if world.goes_wrong(world.faults.step_slow):
                delay += loop.between(*SLOW_MS)
            loop.after(delay, self._advance)

    def _done(self, facts: MoveFacts | None) -> None:
        world = self._world
        if self._orphan_until is not None:
            world.probes.hit(MoveProbe.MOVE_ZOMBIE_LANDED)
        if not self.run.dry and world.goes_wrong(world.faults.step_unknown):
            if self.run.step is Step.SEAL:
                world.probes.hit(MoveProbe.MOVE_SEAL_UNKNOWN)
            self._end(StepOutcome.FAILED, None, "the answer was lost")
        else:
            self._end(StepOutcome.DONE, facts, "")

    def _end(self, outcome: StepOutcome, facts: MoveFacts | None, why: str) -> None:
        self.cancel()
        run = self.run
        trouble = MoveTrouble(why) if why else None
        detail = f"would {run.step.value}" if run.dry else ""
        self._keeper.ends(self, StepEnded(run.number, run.step, outcome, facts, detail, trouble))
