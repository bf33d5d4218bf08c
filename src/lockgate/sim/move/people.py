"""People: who asks for flips, completes, cancels and dry runs, at the wrong moment as well."""

from typing import TYPE_CHECKING, Final

from lockgate.core.move.stages import Stage
from lockgate.model.move_events import MoveCommand
from lockgate.model.moves import Command, Disposal, MoveOrder, Side
from lockgate.sim.move.probes import MoveProbe

if TYPE_CHECKING:
    from lockgate.sim.move.process import SimMoveKeeper
    from lockgate.sim.move.world import MoveWorld

__all__ = ["TIMEOUTS_MS", "MovePeople"]

TIMEOUTS_MS: Final = (250, 600, 1_500)
CALM_TIMEOUT_MS: Final = 5_000
DRY: Final = 0.08
FORMER: Final = 0.1
KNOWN: Final = 0.4
"""That a database does not come back is seen by some before they ask, and by others later."""


class MovePeople:
    """Everybody who wants something of the move."""

    def __init__(self, world: "MoveWorld") -> None:
        self._world = world
        self._requests = 0
        self._ends = world.loop.chance(0.6)
        """They come to an end of it before all faults are over."""
        self._regrets = world.loop.chance(0.04)
        """They cancel it when it has hardly begun."""

    def begin(self) -> None:
        """They go on until the world heals."""
        self._world.every(self._world.faults.ask_ms, self._ask_by_chance)

    def ask(self, order: MoveOrder, *, dry: bool = False) -> None:
        """Somebody asks whoever keeps the move, if there is one."""
        keeper = self._whom()
        if keeper is None or not keeper.up:
            return
        record = keeper.core.record
        if not dry and keeper.core.stage is not Stage.RESTING:
            if order.command is record.order.command and not record.undoing:
                self._world.probes.hit(MoveProbe.MOVE_JOINED)
            if order.command in (Command.SWITCH, Command.REVERSE) and record.undoing:
                self._world.probes.hit(MoveProbe.MOVE_SECOND_FLIP)
            if order.command is Command.CANCEL and record.order.command is Command.CREATE:
                self._world.probes.hit(MoveProbe.MOVE_CREATE_CANCELLED)
        self._requests += 1
        keeper.ask(MoveCommand(f"r{self._requests}", order, dry=dry))

    def _whom(self) -> "SimMoveKeeper | None":
        """Who they take for the one that keeps the move: not always it is."""
        world = self._world
        former = [twin for twin in world.twins if twin.up]
        if former and world.loop.chance(FORMER):
            world.probes.hit(MoveProbe.MOVE_ASKED_FORMER)
            return former[-1]
        return world.keeper

    def _order(self, command: Command) -> MoveOrder:
        rng = self._world.loop.rng
        disposal = rng.choice(tuple(Disposal))
        if command is Command.CANCEL and disposal is Disposal.RENAME:
            disposal = Disposal.DROP
        timeout_ms = CALM_TIMEOUT_MS if self._world.healed else rng.choice(TIMEOUTS_MS)
        lost = self._lost() if command in (Command.CANCEL, Command.COMPLETE) else None
        return MoveOrder(command, timeout_ms=timeout_ms, disposal=disposal, lost=lost)

    def _lost(self) -> Side | None:
        """What they say is lost: mostly what is, or what is away at this moment."""
        world = self._world
        if world.goes_wrong(world.faults.lies):
            away = [one for one, side in world.sides.items() if world.is_away(side)]
            return away[0] if away else world.loop.rng.choice(tuple(Side))
        knows = world.healed or world.loop.chance(KNOWN)
        return world.lost if knows else None

    def _ask_by_chance(self) -> None:
        """Mostly what can be done next; now and then anything."""
        loop, record = self._world.loop, self._world.store.record
        switched = record.traffic is Side.TARGET
        late = self._ends and loop.now > self._world.faults_ms // 2
        if self._regrets and record.order.command is Command.CREATE:
            command = Command.CANCEL
        elif loop.chance(0.1):
            command = loop.rng.choice(tuple(Command))
            if not late and command is (Command.COMPLETE if switched else Command.CANCEL):
                command = Command.SWITCH
        elif not record.ended and loop.chance(0.5):
            command = record.order.command
        elif late and loop.chance(0.3):
            command = Command.COMPLETE if switched else Command.CANCEL
        else:
            command = Command.REVERSE if switched else Command.SWITCH
        self.ask(self._order(command), dry=loop.chance(DRY))

    # --- when all faults are over -------------------------------------------------------------

    def settle(self) -> None:
        """Somebody acts where somebody has to."""
        keeper = self._world.keeper
        if keeper is None or keeper.core.stage in (Stage.RESTING, Stage.LOOKING):
            return
        record = keeper.core.record
        if self._world.lost is not None and record.order.lost is None:
            creates = record.order.command is Command.CREATE
            self.ask(self._order(Command.CANCEL if creates else record.order.command))
        elif keeper.core.stage is Stage.STUCK:
            self.ask(record.order)

    def once_more(self, *, ends: bool) -> None:
        """Standing still could be dead: something new must get through."""
        switched = self._world.store.record.traffic is Side.TARGET
        if ends:
            command = Command.COMPLETE if switched else Command.CANCEL
        else:
            command = Command.REVERSE if switched else Command.SWITCH
        self.ask(self._order(command))
