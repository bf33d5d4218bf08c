"""What one keeper asks for, held against what it was told: one watch per keeper.

    Fence    it goes on under an epoch that it was told is stale, or that is not its own
    Record   it asks for the lake before that wish is durable
    Drain    two pieces of work for one table; work on a table that it was told is dead; a kill that
             nobody asked for; more drains in a step-up than tables and requests

It hears what the keeper hears, and remembers all of it.
"""

from collections.abc import Callable

from lockgate.model.ids import Epoch, Millis
from lockgate.model.lake import LakeRole, TableKey, TableSeen, WishRecord, WorkKind, WorkOutcome
from lockgate.model.lake_events import LakeEvent, LakeSurveyed, LakeTaken, WorkEnded
from lockgate.model.lake_instructions import RunWork
from lockgate.sim.lake.ledger import about_table
from lockgate.sim.lake.probes import LakeProbe, LakeProbes
from lockgate.sim.violation import Law, LawBroken, about_node

__all__ = ["Kill", "Watch"]


class Kill:
    """One attempt at killing a table: whether it had, has or may still have an effect."""

    __slots__ = ("key", "may_land")

    def __init__(self, key: TableKey) -> None:
        self.key = key
        self.may_land = True


class Watch:
    """Of one keeper."""

    def __init__(
        self, name: str, record: WishRecord, probes: LakeProbes, now: Callable[[], Millis]
    ) -> None:
        self._name = name
        self._now = now
        self.epoch: Epoch = 0
        """The last one that it took, and when it heard so."""
        self.taken_at: Millis = 0
        self._probes = probes
        self.wished = record
        """The last wish that it found or asked to have recorded."""
        self.active: dict[int, RunWork] = {}
        self._ended: set[int] = set()
        self._told_dead: set[TableKey] = set()
        self._latest: dict[str, int] = {}
        """The newest incarnation of each name that it heard of."""
        self._newest: dict[str, int] = {}
        """And the newest that it heard has had rows, or was dropped with what is older."""
        self._stale: set[Epoch] = set()
        self._failed: set[TableKey] = set()
        self._epochs: set[Epoch] = set()
        self._drains: dict[tuple[Epoch, TableKey], int] = {}
        self.kills: list[Kill] = []

    def _broken(self, law: Law, what: str, key: TableKey | None = None) -> LawBroken:
        about = (about_node(self._name), *((about_table(key),) if key is not None else ()))
        return LawBroken(law, f"{self._name} {what}", about)

    # --- what it is told ----------------------------------------------------------------------

    def takes(self, event: LakeEvent) -> None:
        """It is about to hear of this."""
        if isinstance(event, LakeTaken):
            if event.epoch not in self._epochs:
                self.epoch, self.taken_at = event.epoch, self._now()
            self._epochs.add(event.epoch)
            if any(work.kind is not WorkKind.KILL for work in self.active.values()):
                self._probes.hit(LakeProbe.LAKE_STEP_UP_WITH_OLD_WORK)
        elif isinstance(event, LakeSurveyed):
            for seen in event.tables:
                if seen.dead:
                    self._told_dead.add(seen.key)
                elif seen.key in self._told_dead:
                    self._probes.hit(LakeProbe.LAKE_OLD_SURVEY)
                _raise(self._latest, seen)
                if seen.dropped or (seen.trouble is None and not seen.awaits):
                    _raise(self._newest, seen)
                if seen.trouble is not None:
                    self._probes.hit(LakeProbe.LAKE_TABLE_UNSEEN)
        elif isinstance(event, WorkEnded):
            self._hears_end(event)

    def _hears_end(self, event: WorkEnded) -> None:
        if event.work in self._ended:
            self._probes.hit(LakeProbe.LAKE_END_REPEATED)
            return
        self._ended.add(event.work)
        work = self.active.pop(event.work)
        key = event.table, event.incarnation
        if event.incarnation < self._latest.get(event.table, 0):
            self._probes.hit(LakeProbe.LAKE_END_OF_FORMER)
        dies = work.kind is WorkKind.KILL and event.outcome is WorkOutcome.DONE
        if dies or event.outcome is WorkOutcome.DEAD:
            self._told_dead.add(key)
        if work.kind is WorkKind.DRAIN:
            self._hears_drain(key, event.outcome)
        if event.outcome is WorkOutcome.STALE:
            self._stale.add(work.token.epoch)

    def _hears_drain(self, key: TableKey, outcome: WorkOutcome) -> None:
        if outcome is WorkOutcome.FAILED:
            self._failed.add(key)
        elif outcome is WorkOutcome.DONE and key in self._failed:
            self._failed.discard(key)
            self._probes.hit(LakeProbe.LAKE_TABLE_RECOVERED)

    # --- what it asks for ---------------------------------------------------------------------

    def runs(self, work: RunWork, role: LakeRole, drops: bool, asked: int) -> None:
        """It begins a piece of work. `drops`: somebody waits for the table's end; `asked`: how many
        drains of it people have asked for."""
        key, kind, epoch = (work.table, work.incarnation), work.kind, work.token.epoch
        name = f"{work.table}/{work.incarnation}"
        if epoch in self._stale:
            raise self._broken(Law.FENCE, f"begins to {kind.value} {name} though stale", key)
        if epoch not in self._epochs:
            raise self._broken(Law.FENCE, f"begins to {kind.value} {name} and does not lead", key)
        for other in self.active.values():
            if (other.table, other.incarnation) == key:
                what = f"begins to {kind.value} {name} during a {other.kind.value}"
                raise self._broken(Law.DRAIN, what, key)
        if key in self._told_dead and kind not in {WorkKind.DELETE, WorkKind.KILL}:
            raise self._broken(Law.DRAIN, f"begins to {kind.value} {name}, which is dead", key)
        if kind is WorkKind.KILL:
            replaced = self._newest.get(work.table, 0) > work.incarnation
            if not drops and not replaced and key not in self._told_dead:
                raise self._broken(Law.DRAIN, f"kills {name} and nobody asked for it", key)
            if any(kill.key == key for kill in self.kills):
                self._probes.hit(LakeProbe.LAKE_KILL_REPEATED)
        if kind is WorkKind.DRAIN and role is LakeRole.STEPPING_UP:
            count = self._drains[epoch, key] = self._drains.get((epoch, key), 0) + 1
            if count > 1 + asked:
                raise self._broken(Law.DRAIN, f"drains {name} twice in one step-up", key)
        self.active[work.work] = work


def _raise(numbers: dict[str, int], seen: TableSeen) -> None:
    numbers[seen.table] = max(seen.incarnation, numbers.get(seen.table, 0))
