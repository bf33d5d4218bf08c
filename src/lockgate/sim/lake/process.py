"""One keeper at work: the core, and hands that carry out what it asks for, through faults."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lockgate.core.lake.keeper import LakeKeeper
from lockgate.core.lake.stages import Stage
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
from lockgate.sim.keeping import KeeperLife
from lockgate.sim.lake.probes import LakeProbe
from lockgate.sim.lake.running import Running
from lockgate.sim.lake.watch import Watch
from lockgate.sim.violation import Law, LawBroken, about_node

if TYPE_CHECKING:
    from lockgate.sim.lake.world import LakeWorld

__all__ = ["SimKeeper"]

_SHORT: Final = frozenset({WorkKind.CLAIM, WorkKind.KILL})


class SimKeeper(KeeperLife[LakeEvent, LakeInstruction]):
    """One life of one home's keeper."""

    ask_ms = (1, 15)
    slow_ms = (200, 2_500)
    later_ms = (200, 3_000)
    world: "LakeWorld"

    def __init__(self, world: "LakeWorld", home: HomeId, participant: int) -> None:
        record = world.store.begin(home)
        name = f"{home}.{record.keeper}"
        super().__init__(name, (about_node(name),), Tick())
        self.world = world
        self.home = home
        self.core = LakeKeeper(world.settings, "lake", home, participant, record)
        self.watch = Watch(self.name, record, world.probes, lambda: world.loop.now)
        self.deleted: set[TableKey] = set()
        self._running: dict[int, Running] = {}
        if record.wish is Wish.LEAVE:
            world.probes.hit(LakeProbe.LAKE_LEAVING_RESUMED)

    # --- its life -----------------------------------------------------------------------------

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
        leads = self.core.stage is Stage.LEADER
        self.world.requests.ask(
            self.name, self.home, verb, self.world.loop.now, busy=busy, leads=leads
        )
        self.take(verb)

    def _die(self) -> None:
        self.world.crash(self)

    def _handle(self, event: LakeEvent) -> Sequence[LakeInstruction]:
        led = self.core.epoch
        self.watch.takes(event)
        out = self.core.handle(self.world.loop.now, event)
        if led and not self.core.epoch:
            self._probe_loss(event)
        return out

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

    def _record(self, ask: RecordWish) -> None:
        world, serial = self.world, ask.record.serial
        unheard = WishNotRecorded(serial)
        if not self._arrives(ask, self._record_late, unheard):
            return
        if not world.store.record(self.home, ask.record):
            world.probes.hit(LakeProbe.LAKE_WISH_OUTDATED)
            self._reply(WishOutdated(serial))
        else:
            lost = world.goes_wrong(world.faults.unknown_landed)
            self._reply(unheard if lost else WishRecorded(serial))

    def _record_late(self, ask: RecordWish) -> None:
        if self.world.store.record(self.home, ask.record):
            self.world.probes.hit(LakeProbe.LAKE_WISH_LATE)

    def _take(self, ask: TakeLake) -> None:
        world, lake, probes = self.world, self.world.lake, self.world.probes
        unheard = LakeTakeFailed(ask.attempt)
        if not self._arrives(ask, self._take_late, unheard):
            return
        if (leader := lake.take(ask)) is None:
            probes.hit(LakeProbe.LAKE_TAKE_REFUSED)
            self._reply(LakeRefused(ask.attempt, lake.leader))
        elif world.goes_wrong(world.faults.unknown_landed):
            probes.hit(LakeProbe.LAKE_TAKE_UNKNOWN)
            self._reply(unheard)
        else:
            self._reply(LakeTaken(ask.attempt, leader.epoch))

    def _take_late(self, ask: TakeLake) -> None:
        held = self.world.lake.leader
        if self.world.lake.take(ask) not in {None, held}:
            self.world.probes.hit(LakeProbe.LAKE_TAKE_LATE)

    def _release(self, ask: ReleaseLake) -> None:
        world = self.world
        if world.goes_wrong(world.faults.failed):
            self._reply(ReleaseFailed(ask.epoch))
            return
        world.lake.release(ask.home, ask.epoch)
        world.probes.hit(LakeProbe.LAKE_RELEASED)
        lost = world.goes_wrong(world.faults.unknown_landed)
        self._reply(ReleaseFailed(ask.epoch) if lost else LakeReleased(ask.epoch))

    def _survey(self, ask: Survey) -> None:
        """The leader first; the tables a moment later."""
        if self.world.goes_wrong(self.world.faults.failed):
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
