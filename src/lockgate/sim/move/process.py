"""One keeper at work: the core, and hands that carry out what it asks for, through faults."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lockgate.core.move.changes import current
from lockgate.core.move.keeper import MoveKeeper
from lockgate.core.move.plans import CHECKS, is_before_seal
from lockgate.core.move.stages import Stage
from lockgate.model.move_events import (
    MoveCommand,
    MoveEvent,
    MoveKeeperOver,
    MoveNotRecorded,
    MoveOutdated,
    MoveRecorded,
    StepEnded,
    StepOutcome,
    Tick,
)
from lockgate.model.move_instructions import (
    MoveAnswer,
    MoveInstruction,
    RecordMove,
    RunStep,
    StopStep,
)
from lockgate.model.moves import Command, MoveRecord, Step, StepState
from lockgate.sim.keeping import KeeperLife
from lockgate.sim.move.ledger import ABOUT
from lockgate.sim.move.probes import MoveProbe
from lockgate.sim.move.running import Running
from lockgate.sim.violation import Law, LawBroken

if TYPE_CHECKING:
    from lockgate.sim.move.world import MoveWorld

__all__ = ["SimMoveKeeper"]


class SimMoveKeeper(KeeperLife[MoveEvent, MoveInstruction]):
    """One life of one."""

    ask_ms = (1, 8)
    slow_ms = (100, 1_200)
    later_ms = (50, 1_500)
    world: "MoveWorld"

    def __init__(self, world: "MoveWorld") -> None:
        probe_found(world, world.store.record)
        record = world.store.begin()
        super().__init__(f"keeper {record.keeper}", ABOUT, Tick())
        self.world = world
        self.keeper = record.keeper
        self.core = MoveKeeper(world.settings, record)
        self._running: dict[int, Running] = {}
        self._heard: set[int] = set()

    # --- its life -----------------------------------------------------------------------------

    def crash(self, *, zombies: bool = True) -> None:
        """It is gone. What it began may not be."""
        if not self.up:
            return
        self.up = False
        self.world.requests.lose(self.name)
        for running in list(self._running.values()):
            lives = zombies and self.world.loop.chance(self.world.faults.zombie)
            running.orphan(lives=lives)
            self.world.orphans.append(running)

    def tell_over(self) -> None:
        """Its node may not keep moves any more. What it has begun is not over by that."""
        if self._running:
            self.world.probes.hit(MoveProbe.MOVE_TOLD_OVER)
        self.take(MoveKeeperOver())

    def ask(self, asked: MoveCommand) -> None:
        """A person asks it."""
        self.world.requests.ask(self.name, asked)
        order, held = asked.order, self.core.record.order
        same = order.command is held.command and order.disposal is not held.disposal
        if self.core.stage is Stage.STUCK and same and not asked.dry and order.lost is held.lost:
            self.world.probes.hit(MoveProbe.MOVE_DISPOSAL_CHANGED)
        self.take(asked)

    def _die(self) -> None:
        self.world.crash(self)

    def _handle(self, event: MoveEvent) -> Sequence[MoveInstruction]:
        before = self.core.stage
        forward = isinstance(event, Tick) and not self.core.record.undoing
        out = self.core.handle(self.world.loop.now, event)
        self._probe(event, before, turned=forward and self.core.record.undoing)
        return out

    def _probe(self, event: MoveEvent, before: Stage, *, turned: bool) -> None:
        probes = self.world.probes
        if isinstance(event, Tick):
            if before is Stage.RUNNING and self.core.stage is Stage.STOPPING:
                probes.hit(MoveProbe.MOVE_LATE_RUNNING)
                if current(self.core.record).step is Step.CATCH_UP:
                    probes.hit(MoveProbe.MOVE_CATCH_UP_SLOW)
            elif turned and before is Stage.NOTING:
                probes.hit(MoveProbe.MOVE_LATE_NOTING)
            elif turned and before is Stage.WAITING:
                probes.hit(MoveProbe.MOVE_LATE_WAITING)
        elif isinstance(event, StepEnded):
            if event.number in self._heard:
                probes.hit(MoveProbe.MOVE_END_REPEATED)
            self._heard.add(event.number)
            if self.core.stage is Stage.STUCK:
                probes.hit(MoveProbe.MOVE_STUCK)
            elif self.core.stage is Stage.UNDO_WAITING:
                probes.hit(MoveProbe.MOVE_UNDO_FAILED)
            if before is Stage.LOOKING and self.core.stage is not Stage.LOOKING:
                gives_up = self.core.record.order.lost is not None
                probes.hit(MoveProbe.MOVE_LOOKED_GONE if gives_up else MoveProbe.MOVE_LOOKED_THERE)

    # --- hands --------------------------------------------------------------------------------

    def _carry_out(self, instruction: MoveInstruction) -> None:
        match instruction:
            case RecordMove():
                self._later(self._record, instruction)
            case RunStep():
                self._run(instruction)
            case StopStep():
                if (running := self._running.get(instruction.number)) is not None:
                    running.stopped = True
            case MoveAnswer():
                self.world.requests.answered(instruction, self.keeper)

    def _record(self, ask: RecordMove) -> None:
        """What was sent off lands, whatever became of who sent it."""
        world, serial = self.world, ask.record.serial
        unheard = MoveNotRecorded(serial)
        if not self._arrives(ask, self._record_late, unheard):
            return
        flips = ask.record.traffic is not world.store.record.traffic
        if self._land(ask.record) is False:
            world.probes.hit(MoveProbe.MOVE_RECORD_OUTDATED)
            self._reply(MoveOutdated(serial))
        elif world.goes_wrong(world.faults.unknown_landed):
            if flips:
                world.probes.hit(MoveProbe.MOVE_ROUTE_UNKNOWN)
            self._reply(unheard)
        else:
            self._reply(MoveRecorded(serial))

    def _land(self, record: MoveRecord) -> bool | None:
        self.world.note(self.name, "records", record)
        return self.world.store.write(record)

    def _record_late(self, ask: RecordMove) -> None:
        if self._land(ask.record):
            self.world.probes.hit(MoveProbe.MOVE_RECORD_LATE)

    # --- steps --------------------------------------------------------------------------------

    def _run(self, run: RunStep) -> None:
        store = self.world.store
        if not run.dry and store.keeps(self.keeper) and not store.says(run.step, undo=run.undo):
            verb = "undoes" if run.undo else "begins"
            what = f"{self.name} {verb} {run.step.value}, and that is not recorded"
            raise LawBroken(Law.RECORD, what, ABOUT)
        running = self._running[run.number] = Running(self, run)
        running.begin()

    def ends(self, running: Running, ended: StepEnded) -> None:
        """An attempt tells its end."""
        del self._running[running.run.number]
        self.world.note(self.name, "ends", ended)
        if ended.outcome is StepOutcome.STALE and self.world.store.keeps(self.keeper):
            what = f"{self.name} is the newest, and {running.run.step.value} calls it stale"
            raise LawBroken(Law.FENCE, what, ABOUT)
        run = running.run
        if run.step in CHECKS and run.order.lost and ended.outcome is StepOutcome.DONE:
            self.world.ledger.found_gone(run.order.lost, running.began)
        self._reply(ended)


def probe_found(world: "MoveWorld", record: MoveRecord) -> None:
    """What a successor finds."""
    probes, command = world.probes, record.order.command
    if record.ended or not record.steps:
        return
    if record.undoing:
        probes.hit(MoveProbe.MOVE_LOST_UNDOING)
    elif command in (Command.SWITCH, Command.REVERSE):
        [acting] = [one.step for one in record.steps if one.state is StepState.RUNNING]
        if is_before_seal(acting):
            probes.hit(MoveProbe.MOVE_LOST_BEFORE_SEAL)
        elif acting is Step.SEAL:
            sealed = world.sides[record.traffic].sealed
            probes.hit(MoveProbe.MOVE_LOST_SEALED if sealed else MoveProbe.MOVE_LOST_IN_SEAL)
        else:
            probes.hit(MoveProbe.MOVE_LOST_BEHIND_SEAL)
    else:
        probes.hit(
            {
                Command.CREATE: MoveProbe.MOVE_LOST_IN_CREATE,
                Command.COMPLETE: MoveProbe.MOVE_LOST_IN_COMPLETE,
                Command.CANCEL: MoveProbe.MOVE_LOST_IN_CANCEL,
            }[command]
        )
