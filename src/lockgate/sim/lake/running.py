"""Work as an executor does it: it takes time, and it may outlive the keeper that began it.

    looks ──► reads files ──► commits ──► its end is told, perhaps late, perhaps twice
                 │               └── the outcome may be unknown: landed, lost, or still to land
                 └── a file is missing: the table is dead by now, so it lets go

A file that is missing although the table lives, or that the same keeper deleted, is a violation.
"""

from typing import TYPE_CHECKING, Final

from lockgate.model.lake import LakeTrouble, TableKey, WorkKind, WorkOutcome
from lockgate.model.lake_instructions import RunWork
from lockgate.sim.lake.ledger import about_table
from lockgate.sim.lake.probes import LakeProbe
from lockgate.sim.lake.watch import Kill
from lockgate.sim.violation import Law, LawBroken

if TYPE_CHECKING:
    from lockgate.sim.lake.process import SimKeeper

__all__ = ["Running"]

SHORT_MS: Final = (2, 30)
WORK_MS: Final = (40, 400)
SLOW_MS: Final = (800, 3_000)
LATER_MS: Final = (200, 3_000)
_READS: Final = frozenset({WorkKind.DRAIN, WorkKind.COMPACT, WorkKind.VACUUM})
_TROUBLE: Final = LakeTrouble("the disk made a noise", "none")


class Running:
    """One piece of work."""

    def __init__(self, keeper: "SimKeeper", work: RunWork) -> None:
        self.keeper = keeper
        self.work = work
        self.key: TableKey = (work.table, work.incarnation)
        self.orphan = False
        """Its keeper is gone; it goes on and tells nobody."""
        self.stopped = False
        self.over = False
        self.kill = Kill(self.key)
        self._world = keeper.world
        self._lake = keeper.world.lake
        self._files: frozenset[int] = frozenset()
        self._after = self._upto = 0

    def begin(self) -> None:
        """Look, and take as long as it takes."""
        loop, faults = self._world.loop, self._world.faults
        light = self.work.kind in {WorkKind.CLAIM, WorkKind.KILL}
        span = SHORT_MS if light else WORK_MS
        if self._world.goes_wrong(faults.work_slow):
            span = SLOW_MS
        if self.work.kind in _READS:
            table = self._lake.tables.get(self.key)
            if table is None or table.dead:
                loop.after(loop.between(*SHORT_MS), self._end, WorkOutcome.DEAD)
                return
            self._files = frozenset(table.files)
            self._after, self._upto = table.drained, table.ingest
            self._world.ledger.uses(self.key, self.keeper.name)
        half = loop.between(*span) // 2
        loop.after(half, self._read)

    def _read(self) -> None:
        if self.over:
            return
        loop = self._world.loop
        if self.stopped and loop.chance(0.7):
            self._fail()
            return
        if self.work.kind in _READS and self._missing():
            return
        loop.after(loop.between(*SHORT_MS), self._commit)

    def _missing(self) -> bool:
        """True when it met a missing file and let go."""
        table = self._lake.tables.get(self.key)
        if table is not None and self._files <= table.files:
            return False
        if table is not None and not table.dead:
            # Another's drain may have replaced it: Delta keeps such files for a while.
            return False
        self._world.probes.hit(LakeProbe.LAKE_FILES_GONE)
        if self.keeper.has_deleted(self.key):
            what = f"work of {self.keeper.name} meets missing files that it deleted itself"
            raise LawBroken(Law.DRAIN, what, (about_table(self.key),))
        self._end(WorkOutcome.DEAD)
        return True

    def _commit(self) -> None:
        if self.over or (self.work.kind in _READS and self._missing()):
            return
        loop, faults = self._world.loop, self._world.faults
        table = self._lake.tables.get(self.key)
        broken = table is not None and loop.now < table.broken_until
        if broken or loop.chance(faults.work_failed):
            faults.count += 1
            self._fail()
        elif self.work.kind is WorkKind.DELETE:
            self._delete()
        elif self.work.kind is WorkKind.VACUUM:
            self._end(WorkOutcome.DONE)
        elif self._world.goes_wrong(faults.unknown_lost):
            self._end(WorkOutcome.UNKNOWN)
        elif self._world.goes_wrong(faults.unknown_later):
            loop.after(loop.between(*LATER_MS), self._land_late)
            self._end(WorkOutcome.UNKNOWN, may_land=True)
        else:
            outcome = self._land()
            if outcome is WorkOutcome.DONE and self._world.goes_wrong(faults.unknown_landed):
                if self.work.kind is WorkKind.KILL:
                    self._world.probes.hit(LakeProbe.LAKE_KILL_UNKNOWN)
                outcome = WorkOutcome.UNKNOWN
                self._end(outcome, may_land=True)
            else:
                self._end(outcome)

    def _land(self) -> WorkOutcome:
        work, lake = self.work, self._lake
        if work.kind is WorkKind.CLAIM:
            return lake.claim(self.key, work.token)
        if work.kind is WorkKind.KILL:
            return lake.kill(self.key, work.token, dropped=work.dropped)
        if work.kind is WorkKind.DRAIN and self._after == self._upto:
            return WorkOutcome.NOTHING
        upto = self._upto if work.kind is WorkKind.DRAIN else self._after
        read = self._files if work.kind is WorkKind.COMPACT else frozenset(sorted(self._files)[:1])
        return lake.rewrite(self.key, work.token, read, self._after, upto)

    def _land_late(self) -> None:
        outcome = self._land()
        self.kill.may_land = outcome is WorkOutcome.DONE
        if self.work.kind is WorkKind.KILL:
            probes = self._world.probes
            if outcome is WorkOutcome.DONE:
                probes.hit(LakeProbe.LAKE_KILL_LATE)
            elif outcome is WorkOutcome.STALE:
                probes.hit(LakeProbe.LAKE_KILL_LATE_FENCED)

    def _delete(self) -> None:
        """File by file. Killed or failing in between, another goes on with what is left."""
        loop, faults = self._world.loop, self._world.faults
        if loop.chance(faults.held):
            self._world.probes.hit(LakeProbe.LAKE_DELETE_HELD)
            self._end(WorkOutcome.HELD)
            return
        if self.keeper.has_deleted(self.key) or self.key in self._world.half_deleted:
            self._world.probes.hit(LakeProbe.LAKE_DELETE_RESUMED)
        self._delete_more()

    def _delete_more(self) -> None:
        if self.over:
            return
        loop, faults = self._world.loop, self._world.faults
        self.keeper.deleted.add(self.key)
        if self._lake.delete(self.key, self.keeper.name):
            self._end(WorkOutcome.DONE)
            return
        self._world.half_deleted.add(self.key)
        if self._world.goes_wrong(faults.work_failed):
            self._fail()
        else:
            loop.after(loop.between(*SHORT_MS), self._delete_more)

    # --- its end ------------------------------------------------------------------------------

    def _fail(self) -> None:
        self._end(WorkOutcome.FAILED)

    def cancel(self) -> None:
        """Its process is gone, and it with it."""
        if not self.over:
            self._let_go(may_land=False)

    def _let_go(self, *, may_land: bool) -> None:
        self.over = True
        self.kill.may_land = may_land
        if self.work.kind in _READS and self._upto:
            self._world.ledger.lets_go(self.key, self.keeper.name)

    def _end(self, outcome: WorkOutcome, *, may_land: bool = False) -> None:
        if self.over:
            return
        self._let_go(may_land=may_land or outcome is WorkOutcome.DONE)
        if self.orphan:
            self._probe_orphan(outcome)
            return
        troubled = {WorkOutcome.FAILED, WorkOutcome.UNKNOWN, WorkOutcome.HELD}
        trouble = _TROUBLE if outcome in troubled else None
        self.keeper.ends(self, outcome, trouble, self._upto)

    def _probe_orphan(self, outcome: WorkOutcome) -> None:
        probe = {
            WorkOutcome.STALE: LakeProbe.LAKE_ZOMBIE_FENCED,
            WorkOutcome.DONE: LakeProbe.LAKE_ZOMBIE_COMMITTED,
            WorkOutcome.DEAD: LakeProbe.LAKE_ZOMBIE_MET_DEATH,
        }.get(outcome)
        if probe is not None:
            self._world.probes.hit(probe)
