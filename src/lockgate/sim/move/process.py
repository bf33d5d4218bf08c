"""One keeper at work: the core, and hands that carry out what it asks for, through faults."""

from typing import TYPE_CHECKING, Any, Final

from lockgate.core.move.changes import current
from lockgate.core.move.keeper import MoveKeeper
from lockgate.core.move.plans import CHECKS, is_before_seal
from lockgate.core.move.stages import Stage
from lockgate.model.errors import IllegalTransition
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
from lockgate.sim.move.ledger import ABOUT
from lockgate.sim.move.probes import MoveProbe
from lockgate.sim.move.running import Running
from lockgate.sim.violation import Law, LawBroken

if TYPE_CHECKING:
    from lockgate.sim.move.world import MoveWorld

__all__ = ["SimMoveKeeper"]

ASK_MS: Final = (1, 8)
SLOW_MS: Final = (100, 1_200)
LATER_MS: Final = (50, 1_500)
CRASH_BETWEEN: Final = 0.01


class SimMoveKeeper:
    """One life of one."""

    def __init__(self, world: "MoveWorld") -> None:
        self.world = world
        probe_found(world, world.store.record)
        record = world.store.begin()
        self.keeper = record.keeper
        self.name = f"keeper {record.keeper}"
        self.up = True
        self.paused_until = 0
        self.core = MoveKeeper(world.settings, record)
        self._running: dict[int, Running] = {}
        self._heard: set[int] = set()

    # --- its life -----------------------------------------------------------------------------

    def tick(self) -> None:
        """For as long as it lives."""
        if self.up:
            self.take(Tick())
            self.world.loop.after(self.world.tick_ms, self.tick)

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

    def take(self, event: MoveEvent) -> None:
        """Hand an event to the core, and do what it says; a paused one does so later."""
        world = self.world
        if not self.up:
            return
        if world.loop.now < self.paused_until:
            world.loop.after(self.paused_until - world.loop.now, self.take, event)
            return
        world.trace(self.name, event)
        before = self.core.stage
        forward = isinstance(event, Tick) and not self.core.record.undoing
        try:
            out = self.core.handle(world.loop.now, event)
        except IllegalTransition as error:
            raise LawBroken(Law.CONTRACT, error.what, ABOUT, tuple(error.story)) from error
        self._probe(event, before, turned=forward and self.core.record.undoing)
        for instruction in out:
            if world.faults.crash_ms and world.loop.chance(CRASH_BETWEEN):
                world.faults.count += 1
                world.crash(self)
                return
            world.note(self.name, "asks", instruction)
            self._carry_out(instruction)

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
        world = self.world
        world.messages += 1
        match instruction:
            case RecordMove():
                self._later(self._record, instruction)
            case RunStep():
                self._run(instruction)
            case StopStep():
                if (running := self._running.get(instruction.number)) is not None:
                    running.stopped = True
            case MoveAnswer():
                world.requests.answered(instruction, self.keeper)

    def _later(self, action: Any, *args: Any) -> None:
        loop, faults = self.world.loop, self.world.faults
        slow = loop.chance(faults.slow)
        faults.count += slow
        loop.after(loop.between(*(SLOW_MS if slow else ASK_MS)), action, *args)

    def _reply(self, event: MoveEvent) -> None:
        self._later(self.take, event)
        if self.world.loop.chance(self.world.faults.repeat):
            self.world.faults.count += 1
            self.world.loop.after(self.world.loop.between(*LATER_MS), self.take, event)

    def _fails(self, rate: float) -> bool:
        failed = self.world.loop.chance(rate)
        self.world.faults.count += failed
        return failed

    def _record(self, ask: RecordMove) -> None:
        """What was sent off lands, whatever became of who sent it."""
        faults, serial = self.world.faults, ask.record.serial
        if self._fails(faults.failed) or self._fails(faults.unknown_lost):
            self._reply(MoveNotRecorded(serial))
            return
        if self._fails(faults.unknown_later):
            self.world.loop.after(self.world.loop.between(*LATER_MS), self._record_late, ask)
            self._reply(MoveNotRecorded(serial))
            return
        flips = ask.record.traffic is not self.world.store.record.traffic
        if self._land(ask.record) is False:
            self.world.probes.hit(MoveProbe.MOVE_RECORD_OUTDATED)
            self._reply(MoveOutdated(serial))
        elif self._fails(faults.unknown_landed):
            if flips:
                self.world.probes.hit(MoveProbe.MOVE_ROUTE_UNKNOWN)
            self._reply(MoveNotRecorded(serial))
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
