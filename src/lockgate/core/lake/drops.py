"""How the tables of a lake end: the drops that people wait for, and the kills.

A drop and other work on one table never meet:

    nothing under way          the table is killed; who waits for queued work is told "superseded"
    work under way             busy, with no side effect; or it waits, before all work that is
                               queued, and at its deadline is busy after all
    dead                       nothing to do
    drop first, work later     the work is not queued, or is let go when its turn comes
    begun anew meanwhile       what is still being copied is killed before it: landing later, it
                               would be the table again. That kill says so in the lake: should
                               this keeper come no further, the next one ends what was begun

A kill whose outcome is not known is repeated until it is: whoever asked is told what is true.
"""

from collections.abc import Callable

from lockgate.core.lake.asks import DROPPED
from lockgate.core.lake.book import Book
from lockgate.core.lake.entry import Drop, Entry, Job, Life
from lockgate.core.lake.policy import pause_ms
from lockgate.core.lake.words import BUSY_HINT, NO_TABLE, OUTDATED
from lockgate.core.lake.works import Works
from lockgate.model.ids import NO_TOKEN, Millis
from lockgate.model.lake import LakeSettings, LakeTrouble, WorkKind, WorkOutcome
from lockgate.model.lake_events import DropTable, WorkEnded
from lockgate.model.lake_instructions import LakeAnswer, LakeInstruction, LakeVerdict

__all__ = ["Drops"]

_DEADLY = frozenset({WorkOutcome.DONE, WorkOutcome.NOTHING, WorkOutcome.DEAD})
_NO_EFFECT = frozenset({LakeVerdict.REFUSED, LakeVerdict.FAILED})
_SHORT = frozenset({WorkKind.CLAIM, WorkKind.KILL})


class Drops:
    """Who wants which table to end, and what is done about it, by one keeper."""

    def __init__(
        self,
        settings: LakeSettings,
        book: Book,
        works: Works,
        emit: Callable[[LakeInstruction], None],
        now: Callable[[], Millis],
    ) -> None:
        """`now` is the moment of the event that is being taken."""
        self._settings = settings
        self._book = book
        self._works = works
        self._emit = emit
        self._now = now

    # --- what people ask for ------------------------------------------------------------------

    def decide(self, verb: DropTable) -> None:
        """Its table was looked at after it was asked."""
        newest = self._book.newest(verb.table)
        entry = newest
        if verb.incarnation is not None:
            entry = self._book.find((verb.table, verb.incarnation))
        heirs = self._book.heirs(entry) if entry is not None else ()
        if entry is not None and entry.is_dead and verb.incarnation is None and heirs:
            *others, entry = heirs
            heirs = tuple(others)
        if entry is None:
            gone = newest is not None and verb.incarnation is not None
            verdict = LakeVerdict.NOTHING if gone else LakeVerdict.NOT_FOUND
            self._answer(verb.request, verdict, NO_TABLE)
        elif entry.is_dead:
            why = LakeTrouble("the table is dropped already")
            self._answer(verb.request, LakeVerdict.NOTHING, why, entry.incarnation)
        elif entry.awaits is not False and newest is not entry and _lives(newest):
            # Its feed would be left without a table, and the older one would stay the table.
            why = LakeTrouble(
                "the table is being copied anew", "drop the table by its name: both go then"
            )
            self._answer(verb.request, LakeVerdict.REFUSED, why, entry.incarnation)
        elif (busy := self._obstacle(entry, *heirs)) is None:
            entry.drops.append(Drop(verb.request, None, heirs))
            self.go_on(entry)
        elif verb.wait_ms <= 0:
            self.tell_busy(entry, verb.request, busy)
        else:
            entry.drops.append(Drop(verb.request, self._now() + verb.wait_ms, heirs))

    def give_up_waiting(self, entry: Entry) -> None:
        """Drops whose deadline has come, but for those that have begun: busy means that nothing has
        happened."""
        busy = self._obstacle(entry, *self._heirs(entry))
        if busy is None:
            return
        for drop in list(entry.drops):
            if drop.deadline is not None and self._now() >= drop.deadline and not _has_begun(drop):
                entry.drops.remove(drop)
                self.tell_busy(entry, drop.request, busy)

    # --- kills --------------------------------------------------------------------------------

    def go_on(self, entry: Entry) -> None:
        """Go on with a drop: its heirs first, so that a table which is dead stays so. One at a
        time: when one cannot be killed, nothing else is left in doubt."""
        heirs = self._heirs(entry)
        if not heirs and entry.is_dead and entry.active is None:
            self.died(entry)
        if self._works.token == NO_TOKEN or self._obstacle(entry, *heirs) is not None:
            return
        # The newest first: whatever is older then goes too, whoever ends it.
        one = max(heirs, key=lambda heir: heir.incarnation, default=entry)
        if one.life is Life.LIVE and one.active is None:
            self.kill(one)

    def kill(self, entry: Entry) -> None:
        """Begin to kill what nobody works on; of a drop's heirs the lake is told that they are."""
        others = self._book.of(entry.table)
        heir = any(entry in drop.heirs for one in others for drop in one.drops)
        self._works.kill(entry, dropped=heir)

    def killed(self, entry: Entry, event: WorkEnded) -> None:
        """A kill has ended, whatever became of it."""
        trouble = event.trouble or LakeTrouble("")
        outcome = event.outcome
        if entry.is_dead or outcome in _DEADLY:
            entry.in_doubt |= outcome is WorkOutcome.DONE
            self.died(entry)
        elif outcome is WorkOutcome.STALE:
            verdict = LakeVerdict.UNKNOWN if entry.in_doubt else LakeVerdict.REFUSED
            self.lives_on(entry, verdict, OUTDATED)
        elif outcome is WorkOutcome.FAILED and not entry.in_doubt:
            pause = pause_ms(entry, WorkKind.KILL, self._settings)
            entry.fail(self._now(), WorkKind.KILL, trouble, pause)
            self.lives_on(entry, LakeVerdict.FAILED, trouble)
        elif self._works.token == NO_TOKEN:
            self.lives_on(entry, LakeVerdict.UNKNOWN, trouble)
        else:
            entry.in_doubt = True
            entry.kill_again_at = self._now() + self._settings.retry_ms

    def died(self, entry: Entry) -> None:
        """It is dead: whoever waits for that, or for anything else of it, is told; for a drop it
        is not over while something lives that would be the table in its place."""
        entry.die(self._now())
        self._works.tell_waiting(entry, DROPPED)
        done = entry.in_doubt or any(drop.heirs for drop in entry.drops)
        verdict = LakeVerdict.DONE if done else LakeVerdict.NOTHING
        self.tell(entry, verdict, LakeTrouble(""), lambda drop: not _waits(drop))

    def lives_on(self, entry: Entry, verdict: LakeVerdict, trouble: LakeTrouble) -> None:
        """The kill is over and, for all that is known, the table is not."""
        entry.life = Life.LIVE
        entry.in_doubt = False
        entry.kill_again_at = None
        # A drop that came to this one's kill, and has to wait for others first, has its own yet.
        failed = verdict is LakeVerdict.FAILED
        self.tell(entry, verdict, trouble, lambda drop: not (failed and _waits(drop)))
        for other in self._book.of(entry.table):
            # Another drop of the same may have begun to kill it already.
            same = verdict if other.life is Life.LIVE else LakeVerdict.UNKNOWN
            self.tell(other, same, trouble, lambda drop: entry in drop.heirs)

    def _obstacle(self, *entries: Entry) -> Job | None:
        """Work that a drop has to wait for. A claim is over in a moment, and a kill is welcome."""
        active = (entry.active for entry in entries)
        return next((job for job in active if job is not None and job.kind not in _SHORT), None)

    def _heirs(self, entry: Entry) -> list[Entry]:
        """Who has to end before it, for those who wait for its end."""
        return [one for drop in entry.drops for one in drop.heirs if not one.is_dead]

    # --- answers ------------------------------------------------------------------------------

    def tell_busy(self, entry: Entry, request: str, job: Job) -> None:
        """Refuse a drop; nothing has happened."""
        why = LakeTrouble(f"a {job.kind.value} is under way for the table", BUSY_HINT)
        self._answer(request, LakeVerdict.BUSY, why, entry.incarnation)

    def tell(
        self,
        entry: Entry,
        verdict: LakeVerdict,
        trouble: LakeTrouble,
        whose: Callable[[Drop], bool] = lambda _: True,
    ) -> None:
        """Answer those who wait for its end, all or some."""
        told = [drop for drop in entry.drops if whose(drop)]
        entry.drops = [drop for drop in entry.drops if drop not in told]
        for drop in told:
            # A kill that is under way may land yet, and the next leader goes on with one that has.
            begun = _has_begun(drop) and verdict in _NO_EFFECT
            what = LakeVerdict.UNKNOWN if begun else verdict
            self._answer(drop.request, what, trouble, entry.incarnation)

    def _answer(self, request: str, verdict: LakeVerdict, why: LakeTrouble, of: int = 0) -> None:
        self._emit(LakeAnswer(request, verdict, why.what, why.hint, of))


def _waits(drop: Drop) -> bool:
    return any(not heir.is_dead for heir in drop.heirs)


def _has_begun(drop: Drop) -> bool:
    return any(heir.life is not Life.LIVE for heir in drop.heirs)


def _lives(entry: Entry | None) -> bool:
    return entry is not None and not entry.is_dead
