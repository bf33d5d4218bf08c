"""Bugs of a lake's keeper, and of the lake's fence: what it takes for a drop to race a drain.

The fence at the commit would make several of them harmless most of the time. They are seen all the
same: by work that is begun on a table which its keeper knows to be dead, by files that are missing,
by answers that are not true.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from lockgate.core.lake.asks import Ask
from lockgate.core.lake.book import Book
from lockgate.core.lake.drops import Drops
from lockgate.core.lake.entry import Drop, Entry, Job, Life
from lockgate.core.lake.keeper import LakeKeeper
from lockgate.core.lake.stages import Stage
from lockgate.core.lake.tender import Tender
from lockgate.core.lake.works import Works
from lockgate.model.ids import Millis, Token
from lockgate.model.lake import LakeTrouble, Leadership, TableSeen, WorkKind, WorkOutcome
from lockgate.model.lake_events import WorkEnded
from lockgate.model.lake_instructions import LakeVerdict, TakeLake
from lockgate.sim.lake.lake import SimLake, SimTable
from lockgate.sim.plants.registry import LAKE, plant
from lockgate.sim.violation import Law


@plant(
    "lake-no-table-lock",
    "work on a table begins while other work on it is under way",
    Law.DRAIN,
    Works,
    "is_free",
    LAKE,
)
def _no_table_lock(_self: Works, _entry: Entry) -> bool:
    return True


@plant(
    "lake-no-dead-check-at-queueing",
    "a drain is queued for a table that is dead",
    Law.DRAIN,
    Works,
    "may_queue",
    LAKE,
)
def _no_dead_check_at_queueing(_self: Works, entry: Entry, kind: WorkKind) -> bool:
    return entry.life is Life.DEAD if kind is WorkKind.DELETE else True


@plant(
    "lake-no-dead-check-acquired",
    "work whose table died while it waited is begun",
    Law.DRAIN,
    Works,
    "is_wanted",
    LAKE,
)
def _no_dead_check_acquired(_self: Works, _job: Job) -> bool:
    return True


@plant(
    "lake-end-of-former",
    "the end of work for a former incarnation is taken for the new one's",
    Law.DRAIN,
    Tender,
    "concerned",
    LAKE,
)
def _end_of_former(self: Tender, job: Job) -> Entry:
    return self.book.newest(job.entry.table) or job.entry


@plant(
    "lake-act-before-record",
    "a home asks for the lake before its wish to lead is durable",
    Law.RECORD,
    LakeKeeper,
    "_wish",
    LAKE,
)
def _act_before_record(self: LakeKeeper, stage: Stage, *args: Any, **kwargs: Any) -> None:
    _wish(self, stage, *args, **kwargs)
    if stage is Stage.WISHING:
        self._attempt += 1
        self._take()


_wish = LakeKeeper._wish


@plant(
    "lake-busy-kills",
    "a drop is told busy, and the table is dropped when the work has ended",
    Law.DRAIN,
    Drops,
    "tell_busy",
    LAKE,
)
def _busy_kills(self: Drops, entry: Entry, request: str, job: Job) -> None:
    _tell_busy(self, entry, request, job)
    entry.drops.append(Drop(request, None))


_tell_busy = Drops.tell_busy


@plant(
    "lake-survey-resurrects",
    "a survey that was begun before a table's death makes it live again",
    Law.DRAIN,
    Book,
    "see",
    LAKE,
)
def _survey_resurrects(
    self: Book, entry: Entry, now: Millis, asked_at: Millis, number: int, seen: TableSeen
) -> None:
    if entry.life is Life.DEAD and not seen.dead:
        entry.life = Life.LIVE
    _see(self, entry, now, asked_at, number, seen)


_see = Book.see


@plant(
    "lake-stale-goes-on",
    "a leader that a fence told of a newer one goes on",
    Law.FENCE,
    Tender,
    "told_stale",
    LAKE,
)
def _stale_goes_on(_self: Tender) -> None:
    pass


@plant(
    "lake-no-fence",
    "the lake does not compare tokens when something is committed",
    Law.FENCE,
    SimLake,
    "admits",
    LAKE,
)
def _no_fence(_self: SimLake, _table: SimTable, _token: Token, **_how: bool) -> bool:
    return True


@plant(
    "lake-taken-back",
    "a keeper that starts again takes the lake from a home that leads by now",
    Law.FENCE,
    SimLake,
    "allowed",
    LAKE,
)
def _taken_back(_self: SimLake, held: Leadership, ask: TakeLake) -> Leadership:
    return Leadership(held.epoch + 1, ask.home, ask.keeper, ask.attempt)


@plant(
    "lake-leads-unclaimed",
    "a home counts as leader before it has claimed every table",
    Law.FENCE,
    Tender,
    "claim",
    LAKE,
)
def _leads_unclaimed(_self: Tender, ask: Ask) -> None:
    ask.go_on_if_complete()


@plant(
    "lake-kill-denied",
    "a kill of unknown outcome is answered as one that had no effect",
    Law.DRAIN,
    Drops,
    "killed",
    LAKE,
)
def _kill_denied(self: Drops, entry: Entry, event: WorkEnded) -> None:
    if event.outcome is WorkOutcome.UNKNOWN:
        event = msgspec.structs.replace(event, outcome=WorkOutcome.FAILED)
    _killed(self, entry, event)


_killed = Drops.killed


@plant(
    "lake-drained-again",
    "a table that was drained is queued once more",
    Law.DRAIN,
    Tender,
    "_done",
    LAKE,
)
def _drained_again(self: Tender, entry: Entry, job: Job, event: WorkEnded) -> None:
    _done(self, entry, job, event)
    if job.kind is WorkKind.DRAIN and event.outcome is WorkOutcome.DONE:
        self.works.queue(entry, WorkKind.DRAIN)


_done = Tender._done


@plant(
    "lake-failure-forgotten",
    "a table that failed once is never tried again",
    Law.LIVENESS,
    Entry,
    "rests",
    LAKE,
)
def _failure_forgotten(self: Entry, _now: Millis, kind: WorkKind) -> bool:
    return kind in self.failures


@plant(
    "lake-delete-uncovers",
    "a dead table is deleted before an older one of its name that lives",
    Law.DRAIN,
    Book,
    "hides",
    LAKE,
)
def _delete_uncovers(_self: Book, _entry: Entry) -> bool:
    return False


@plant(
    "lake-drop-leaves-copy",
    "a drop leaves alive what is being copied to be the table next",
    Law.DRAIN,
    Book,
    "heirs",
    LAKE,
)
def _drop_leaves_copy(_self: Book, _entry: Entry) -> tuple[Entry, ...]:
    return ()


@plant(
    "lake-unseen-replaces",
    "a table is killed because of a newer one that nobody could look at, or that has no rows yet",
    Law.DRAIN,
    Book,
    "replaced",
    LAKE,
)
def _unseen_replaces(self: Book, entry: Entry) -> bool:
    return any(one.table == entry.table and one.incarnation > entry.incarnation for one in self)


@plant(
    "lake-half-drop-forgotten",
    "who comes after a keeper that was lost in a drop does not end what that had begun",
    Law.LIVENESS,
    Book,
    "replaced",
    LAKE,
)
def _half_drop_forgotten(self: Book, entry: Entry) -> bool:
    newer = (one for one in self.of(entry.table) if one.incarnation > entry.incarnation)
    return any(one.awaits is False for one in newer)


@plant(
    "lake-drop-refused-in-kill",
    "a drop is called refused while what would be the table next is being killed for it",
    Law.DRAIN,
    Drops,
    "tell",
    LAKE,
)
def _drop_refused_in_kill(
    self: Drops,
    entry: Entry,
    verdict: LakeVerdict,
    trouble: LakeTrouble,
    whose: Callable[[Drop], bool] = lambda _: True,
) -> None:
    told = [drop for drop in entry.drops if whose(drop)]
    entry.drops = [drop for drop in entry.drops if drop not in told]
    for drop in told:
        self._answer(drop.request, verdict, trouble, entry.incarnation)
