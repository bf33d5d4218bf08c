"""The work queue of a lake: pieces of work that wait, those under way, and the lock of each table.

    queue ──► waiting ──a worker and the table are free──► acquired ──► under way ──► ended
                                                              └── dead by now: let go ──┘

There are three looks at whether a table is dead: here when work is queued, here again when the
table was acquired, because much can happen while work waits, and at the commit, where the fence has
the last word. Each alone would let a drop meet a drain.

Claims have a lane of their own, since they are short and a step-up has many. A kill has none: it
is one commit, somebody waits for it, and its table is locked anyway.
"""

from collections.abc import Callable, Iterator

from lockgate.core.lake.asks import DROPPED, Ask, Result
from lockgate.core.lake.entry import Entry, Job, Life
from lockgate.model.ids import NO_TOKEN, Token
from lockgate.model.lake import LakeSettings, TableKey, WorkKind, WorkNumber
from lockgate.model.lake_events import WorkEnded
from lockgate.model.lake_instructions import LakeInstruction, RunWork, StopWork

__all__ = ["Works"]

Lane = dict[tuple[TableKey, WorkKind], Job]
_UNCLAIMED = frozenset({WorkKind.CLAIM, WorkKind.KILL, WorkKind.DELETE})
"""A kill claims the table itself, and what is dead is deleted whoever it belonged to."""


class Works:
    """What waits and what is under way, of one keeper."""

    def __init__(self, settings: LakeSettings, emit: Callable[[LakeInstruction], None]) -> None:
        self._settings = settings
        self._emit = emit
        self._claims: Lane = {}
        self._heavy: Lane = {}
        self._number: WorkNumber = 0
        self.active: dict[WorkNumber, Job] = {}
        self.token: Token = NO_TOKEN
        """Under which work is begun; NO_TOKEN while this home does not lead, and then none is."""

    # --- looking ------------------------------------------------------------------------------

    def waiting(self) -> Iterator[Job]:
        """All that waits, claims first."""
        yield from self._claims.values()
        yield from self._heavy.values()

    def is_waiting(self, entry: Entry, kind: WorkKind) -> bool:
        return (entry.key, kind) in self._lane(kind)

    @property
    def quiet(self) -> bool:
        """Nothing waits and nothing is under way."""
        return not self.active and not self._claims and not self._heavy

    def _lane(self, kind: WorkKind) -> Lane:
        return self._claims if kind is WorkKind.CLAIM else self._heavy

    def _room(self, kind: WorkKind) -> int:
        light = kind is WorkKind.CLAIM
        limit = self._settings.claimers if light else self._settings.workers
        return limit - sum(
            (job.kind is WorkKind.CLAIM) is light
            for job in self.active.values()
            if job.kind is not WorkKind.KILL
        )

    # --- queueing -----------------------------------------------------------------------------

    def queue(self, entry: Entry, kind: WorkKind, ask: Ask | None = None) -> bool:
        """Have it done when its turn comes, and `ask` told. False: the table is not for this."""
        if not self.may_queue(entry, kind):
            return False
        job = self._lane(kind).setdefault((entry.key, kind), Job(entry, kind))
        if ask is not None:
            job.asks.append(ask)
            ask.left.add(entry.key)
        return True

    def may_queue(self, entry: Entry, kind: WorkKind) -> bool:
        """What is dead by now is not even queued."""
        return _suits(entry, kind)

    def cancel(self, result: Result, *, keep: tuple[WorkKind, ...] = ()) -> None:
        """Let go of all that waits, but for these kinds."""
        for lane in (self._claims, self._heavy):
            for job in [job for job in lane.values() if job.kind not in keep]:
                del lane[job.entry.key, job.kind]
                self.note(job, result)

    def cancel_of(self, entry: Entry, result: Result) -> None:
        """Let go of all that waits for one table."""
        for kind in WorkKind:
            job = self._lane(kind).pop((entry.key, kind), None)
            if job is not None:
                self.note(job, result)

    def tell_waiting(self, entry: Entry, result: Result) -> None:
        """Answer who waits for work on a table that is dead now. The work is let go in its turn."""
        for kind in WorkKind:
            job = self._lane(kind).get((entry.key, kind))
            if job is not None:
                self.note(job, result)

    def note(self, job: Job, result: Result) -> None:
        """Tell everybody who waits for the job."""
        asks, job.asks = job.asks, []
        for ask in asks:
            ask.note(job.entry.key, result)

    # --- doing --------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin what can be begun, in the order in which it was queued."""
        if self.token == NO_TOKEN:
            return
        # Claims last: what waits for one has it queued when its turn has come.
        for kind, lane in ((WorkKind.DRAIN, self._heavy), (WorkKind.CLAIM, self._claims)):
            room = self._room(kind)
            ready: list[Job] = []
            for job in lane.values():
                if len(ready) >= room:
                    break
                if not self.is_free(job.entry):
                    continue
                if self._is_claimed(job):
                    ready.append(job)
                else:
                    self.queue(job.entry, WorkKind.CLAIM)
            for job in ready:
                if self.is_free(job.entry):
                    del lane[job.entry.key, job.kind]
                    self._acquire(job)

    def is_free(self, entry: Entry) -> bool:
        """The lock. Who waits to drop the table comes before all other work on it."""
        return entry.active is None and not entry.drops and entry.life is not Life.KILLING

    def _is_claimed(self, job: Job) -> bool:
        return job.kind in _UNCLAIMED or job.entry.is_dead or job.entry.token == self.token

    def _acquire(self, job: Job) -> None:
        """The table is ours. Is there still something to be done to it?"""
        job.entry.active = job
        if self.is_wanted(job):
            self._run(job)
        else:
            job.entry.active = None
            self.note(job, DROPPED)

    def is_wanted(self, job: Job) -> bool:
        """It may have died while the work waited."""
        return _suits(job.entry, job.kind)

    def kill(self, entry: Entry, *, dropped: bool) -> None:
        """Begin to kill a table that nobody works on. `dropped`: with others of its name."""
        job = Job(entry, WorkKind.KILL)
        job.dropped = dropped
        entry.active = job
        entry.life = Life.KILLING
        entry.kill_again_at = None
        self._run(job)

    def _run(self, job: Job) -> None:
        self._number += 1
        job.number = self._number
        job.token = self.token
        self.active[job.number] = job
        entry = job.entry
        key = entry.key
        self._emit(RunWork(job.number, job.kind, *key, job.token, dropped=job.dropped))

    def finish(self, ended: WorkEnded) -> Job | None:
        """Free the table of the work that has ended. None: it had ended before."""
        job = self.active.get(ended.work)
        if job is None or job.entry.key != (ended.table, ended.incarnation):
            return None
        del self.active[ended.work]
        if job.entry.active is job:
            job.entry.active = None
        return job

    def stop(self) -> None:
        """What is under way is not wanted any more. A kill has begun, and somebody waits for it."""
        for job in self.active.values():
            if job.kind is not WorkKind.KILL:
                self._emit(StopWork(job.number))


def _suits(entry: Entry, kind: WorkKind) -> bool:
    """Only what is dead is deleted, and nothing else is done to it."""
    return entry.life is Life.DEAD if kind is WorkKind.DELETE else not entry.is_dead
