"""One keeper at work: the core, and hands that carry out what it asks for, through faults."""

from typing import TYPE_CHECKING, Any, Final

from lockgate.core.lake.keeper import LakeKeeper
from lockgate.model.errors import IllegalTransition
from lockgate.model.ids import TableId
from lockgate.model.lake import (
    HomeId,
    LakeRole,
    LakeTrouble,
    Leadership,
    TableKey,
    Wish,
    WorkKind,
    WorkOutcome,
)
from lockgate.model.lake_events import (
    DropTable,
    LakeEvent,
    LakeRefused,
    LakeReleased,
    LakeSurveyed,
    LakeTakeFailed,
    LakeTaken,
    LakeVerb,
    ReleaseFailed,
    SurveyFailed,
    Tick,
    WishNotRecorded,
    WishOutdated,
    WishRecorded,
    WorkEnded,
)
from lockgate.model.lake_instructions import (
    LakeAnswer,
    LakeInstruction,
    RecordWish,
    ReleaseLake,
    RunWork,
    StopWork,
    Survey,
    TakeLake,
)
from lockgate.sim.lake.probes import LakeProbe
from lockgate.sim.lake.running import Running
from lockgate.sim.lake.watch import Watch
from lockgate.sim.violation import Law, LawBroken, about_node

if TYPE_CHECKING:
    from lockgate.sim.lake.world import LakeWorld

__all__ = ["SimKeeper"]

ASK_MS: Final = (1, 15)
SLOW_MS: Final = (200, 2_500)
LATER_MS: Final = (200, 3_000)
CRASH_BETWEEN: Final = 0.01
_SHORT: Final = frozenset({WorkKind.CLAIM, WorkKind.KILL})


class SimKeeper:
    """One life of one home's keeper."""

    def __init__(self, world: "LakeWorld", home: HomeId, participant: int) -> None:
        record = world.store.begin(home)
        self.world = world
        self.home = home
        self.name = f"{home}.{record.keeper}"
        self.up = True
        self.paused_until = 0
        self.core = LakeKeeper(world.settings, "lake", home, participant, record)
        self.watch = Watch(self.name, record, world.probes, lambda: world.loop.now)
        self.deleted: set[TableKey] = set()
        self._running: dict[int, Running] = {}
        if record.wish is Wish.LEAVE:
            world.probes.hit(LakeProbe.LAKE_LEAVING_RESUMED)

    # --- its life -----------------------------------------------------------------------------

    def tick(self) -> None:
        """For as long as it lives."""
        if self.up:
            self.take(Tick())
            self.world.loop.after(self.world.tick_ms, self.tick)

    def crash(self) -> None:
        """It is gone. What it began may not be."""
        if not self.up:
            return
        self.up = False
        self.world.requests.lose(self.name)
        for running in self._running.values():
            running.orphan = True
            if not self.world.loop.chance(self.world.faults.zombie):
                running.cancel()

    def ask(self, verb: LakeVerb) -> None:
        """A person asks it."""
        busy = isinstance(verb, DropTable) and any(
            work.table == verb.table and work.kind not in _SHORT
            for work in self.watch.active.values()
        )
        self.world.requests.ask(self.name, self.home, verb, self.world.loop.now, busy=busy)
        self.take(verb)

    def take(self, event: LakeEvent) -> None:
        """Hand an event to the core, and do what it says; a paused one does so later."""
        world = self.world
        if not self.up:
            return
        if world.loop.now < self.paused_until:
            world.loop.after(self.paused_until - world.loop.now, self.take, event)
            return
        world.trace(self.name, event)
        led = self.core.epoch
        self.watch.takes(event)
        try:
            out = self.core.handle(world.loop.now, event)
        except IllegalTransition as error:
            about = (about_node(self.name),)
            raise LawBroken(Law.CONTRACT, error.what, about, tuple(error.story)) from error
        if led and not self.core.epoch:
            self._probe_loss(event)
        for instruction in out:
            if world.faults.crash_ms and world.loop.chance(CRASH_BETWEEN):
                world.faults.count += 1
                world.crash(self)
                return
            world.note(self.name, "asks", instruction)
            self._carry_out(instruction)

    def _probe_loss(self, event: LakeEvent) -> None:
        probes = self.world.probes
        if isinstance(event, WorkEnded):
            probes.hit(LakeProbe.LAKE_STALE_TOLD)
        elif isinstance(event, LakeSurveyed):
            probes.hit(LakeProbe.LAKE_STALE_SEEN)
        if self.watch.active:
            probes.hit(LakeProbe.LAKE_STALE_WITH_WORK)

    # --- hands --------------------------------------------------------------------------------

    def _carry_out(self, instruction: LakeInstruction) -> None:
        world = self.world
        world.messages += 1
        match instruction:
            case RecordWish():
                self.watch.wished = instruction.record
                self._later(self._record, instruction)
            case TakeLake():
                if not world.store.was_durable(self.home, self.watch.wished) or (
                    self.watch.wished.wish is Wish.FOLLOW
                ):
                    what = f"{self.name} asks for the lake and its wish is not durable"
                    raise LawBroken(Law.RECORD, what, (about_node(self.name),))
                self._later(self._take, instruction)
            case ReleaseLake():
                self._later(self._release, instruction)
            case Survey():
                self._later(self._survey, instruction)
            case RunWork():
                self._run(instruction)
            case StopWork():
                if (running := self._running.get(instruction.work)) is not None:
                    running.stopped = True
            case LakeAnswer():
                world.requests.answered(instruction, self.watch)

    def _later(self, action: Any, *args: Any) -> None:
        loop, faults = self.world.loop, self.world.faults
        slow = loop.chance(faults.slow)
        if slow:
            faults.count += 1
        loop.after(loop.between(*(SLOW_MS if slow else ASK_MS)), action, *args)

    def _reply(self, event: LakeEvent) -> None:
        self._later(self.take, event)
        if self.world.loop.chance(self.world.faults.repeat):
            self.world.faults.count += 1
            self.world.loop.after(self.world.loop.between(*LATER_MS), self.take, event)

    def _fails(self, rate: float) -> bool:
        failed = self.world.loop.chance(rate)
        self.world.faults.count += failed
        return failed

    def _record(self, ask: RecordWish) -> None:
        faults, serial = self.world.faults, ask.record.serial
        if self._fails(faults.failed) or self._fails(faults.unknown_lost):
            self._reply(WishNotRecorded(serial))
        elif self._fails(faults.unknown_later):
            loop = self.world.loop
            loop.after(loop.between(*LATER_MS), self._record_late, ask)
            self._reply(WishNotRecorded(serial))
        elif not self.world.store.record(self.home, ask.record):
            self.world.probes.hit(LakeProbe.LAKE_WISH_OUTDATED)
            self._reply(WishOutdated(serial))
        else:
            lost = self._fails(faults.unknown_landed)
            self._reply(WishNotRecorded(serial) if lost else WishRecorded(serial))

    def _record_late(self, ask: RecordWish) -> None:
        if self.world.store.record(self.home, ask.record):
            self.world.probes.hit(LakeProbe.LAKE_WISH_LATE)

    def _take(self, ask: TakeLake) -> None:
        faults, lake, probes = self.world.faults, self.world.lake, self.world.probes
        if self._fails(faults.failed) or self._fails(faults.unknown_lost):
            self._reply(LakeTakeFailed(ask.attempt))
        elif self._fails(faults.unknown_later):
            self.world.loop.after(self.world.loop.between(*LATER_MS), self._take_late, ask)
            self._reply(LakeTakeFailed(ask.attempt))
        elif (leader := lake.take(ask)) is None:
            probes.hit(LakeProbe.LAKE_TAKE_REFUSED)
            self._reply(LakeRefused(ask.attempt, lake.leader))
        elif self._fails(faults.unknown_landed):
            probes.hit(LakeProbe.LAKE_TAKE_UNKNOWN)
            self._reply(LakeTakeFailed(ask.attempt))
        else:
            self._reply(LakeTaken(ask.attempt, leader.epoch))

    def _take_late(self, ask: TakeLake) -> None:
        held = self.world.lake.leader
        if self.world.lake.take(ask) not in {None, held}:
            self.world.probes.hit(LakeProbe.LAKE_TAKE_LATE)

    def _release(self, ask: ReleaseLake) -> None:
        if self._fails(self.world.faults.failed):
            self._reply(ReleaseFailed(ask.epoch))
            return
        self.world.lake.release(ask.home, ask.epoch)
        self.world.probes.hit(LakeProbe.LAKE_RELEASED)
        lost = self._fails(self.world.faults.unknown_landed)
        self._reply(ReleaseFailed(ask.epoch) if lost else LakeReleased(ask.epoch))

    def _survey(self, ask: Survey) -> None:
        """The leader first; the tables a moment later."""
        if self._fails(self.world.faults.failed):
            self._reply(SurveyFailed(ask.number, LakeTrouble("the lake does not answer")))
            return
        self._later(self._survey_tables, ask.number, ask.table, self.world.lake.leader)

    def _survey_tables(self, number: int, table: TableId | None, leader: Leadership) -> None:
        self._reply(LakeSurveyed(number, leader, self.world.lake.survey(table)))

    # --- work ---------------------------------------------------------------------------------

    def _run(self, work: RunWork) -> None:
        key = work.table, work.incarnation
        requests = self.world.requests
        drops = requests.drops(self.name, key)
        self.watch.runs(work, self.core.role, drops, requests.drains(self.name, key))
        running = self._running[work.work] = Running(self, work)
        if work.kind is WorkKind.KILL:
            self.watch.kills.append(running.kill)
            if drops and self.core.role is LakeRole.STEPPING_UP:
                self.world.probes.hit(LakeProbe.LAKE_DROP_IN_STEP_UP)
            requests.begins_kill(self.name, running.kill, heir=work.dropped)
        running.begin()

    def has_deleted(self, key: TableKey) -> bool:
        """It has deleted files of the table."""
        return key in self.deleted

    def ends(
        self, running: Running, outcome: WorkOutcome, trouble: LakeTrouble | None, drained_to: int
    ) -> None:
        """A piece of work tells its end."""
        work = running.work
        del self._running[work.work]
        self._reply(
            WorkEnded(work.work, work.table, work.incarnation, outcome, trouble, drained_to)
        )
