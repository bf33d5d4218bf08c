"""What a leader does to tables: work that people ask for, work that is due, and drops.

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

from collections.abc import Callable, Iterable

from lockgate.core.lake.asks import DROPPED, Ask, Result, answers
from lockgate.core.lake.book import Book
from lockgate.core.lake.entry import Drop, Entry, Job, Life
from lockgate.core.lake.policy import due
from lockgate.core.lake.surveys import Asked, Surveys
from lockgate.core.lake.words import OUTDATED
from lockgate.core.lake.works import Works
from lockgate.model.ids import NO_TOKEN, Millis, Token
from lockgate.model.lake import (
    LakeSettings,
    LakeTrouble,
    WorkKind,
    WorkOutcome,
)
from lockgate.model.lake_events import (
    DrainTable,
    DropTable,
    LakeSurveyed,
    SurveyFailed,
    WorkEnded,
)
from lockgate.model.lake_instructions import LakeAnswer, LakeInstruction, LakeVerdict

__all__ = ["Tender"]

_DEADLY = frozenset({WorkOutcome.DONE, WorkOutcome.NOTHING, WorkOutcome.DEAD})
_NO_EFFECT = frozenset({LakeVerdict.REFUSED, LakeVerdict.FAILED})
_SHORT = frozenset({WorkKind.CLAIM, WorkKind.KILL})
_LIST = "`lockgate lake list` shows the tables that there are"
_BUSY_HINT = "ask again when it is over, or give it time with `--wait`"


class Tender:
    """The tables of one lake in the hands of one keeper."""

    def __init__(
        self,
        settings: LakeSettings,
        emit: Callable[[LakeInstruction], None],
        now: Callable[[], Millis],
        on_stale: Callable[[], None],
    ) -> None:
        """`now` is the moment of the event that is being taken; `on_stale` is called when a fence
        says that a newer leader is there."""
        self._settings = settings
        self._emit = emit
        self._now = now
        self._on_stale = on_stale
        self.token: Token = NO_TOKEN
        """Of the leader; NO_TOKEN while this home does not lead, and then nothing is begun."""
        self.book = Book()
        self.surveys = Surveys(settings, emit)
        self.works = Works(settings, emit)
        self.blind: LakeTrouble | None = None
        """Why the last look at all tables failed."""

    @property
    def now(self) -> Millis:
        return self._now()

    # --- looking ------------------------------------------------------------------------------

    def look(self, asked: Asked | None, found: LakeSurveyed) -> list[DrainTable | DropTable]:
        """Take in what a survey found; the requests that waited for it. None was asked that way any
        more: it was answered before, or taken for lost."""
        begun = self.surveys.number
        self.book.hear(self.now, begun, found.tables)
        if asked is not None:
            self.blind = self.blind if asked.table is not None else None
            self.book.apply(
                self.now, asked.at, found.number, begun, asked.table, found.tables, found.unseen
            )
        for entry in self.book:
            if entry.drops:
                self._kill_if_free(entry)
        return self.surveys.ready(self.book)

    def cannot_look(self, asked: Asked, failed: SurveyFailed) -> None:
        """Nothing was found out; who waited for it is told why."""
        if asked.table is None:
            self.blind = failed.trouble
            self.surveys.soon(self.now)
        for verb in self.surveys.failed(failed.number):
            trouble = failed.trouble
            self._answer(verb.request, LakeVerdict.FAILED, trouble.what, trouble.hint)

    # --- what people ask for ------------------------------------------------------------------

    def decide(self, verb: DrainTable | DropTable) -> None:
        """Its table, or all of them, were looked at after it was asked."""
        if isinstance(verb, DropTable):
            self._drop(verb)
        elif verb.table is None:
            self.drain(Ask(self._answer_drain, verb.request), self.book.current())
        else:
            entries = self.book.meant(verb.table)
            if not entries:
                self._answer(verb.request, LakeVerdict.NOT_FOUND, "no such table", _LIST)
            else:
                self.drain(Ask(self._answer_drain, verb.request), entries)

    def drain(self, ask: Ask, entries: Iterable[Entry]) -> None:
        """Queue a drain of each that is not dead, and have `ask` told what comes of them."""
        for entry in entries:
            self.works.queue(entry, WorkKind.DRAIN, ask)
        ask.go_on_if_complete()

    def claim(self, ask: Ask) -> None:
        """Queue a claim of every table that lives, replaced ones too."""
        for entry in self.book:
            self.works.queue(entry, WorkKind.CLAIM, ask)
        ask.go_on_if_complete()

    def _answer_drain(self, ask: Ask) -> None:
        told = ask.trouble()
        for answer in answers(ask, ask.verdict(), told.what, told.hint):
            self._emit(answer)

    def _answer(
        self, request: str, verdict: LakeVerdict, what: str = "", hint: str = "", of: int = 0
    ) -> None:
        self._emit(LakeAnswer(request, verdict, what, hint, of))

    # --- drops --------------------------------------------------------------------------------

    def _drop(self, verb: DropTable) -> None:
        newest = self.book.newest(verb.table)
        entry = newest
        if verb.incarnation is not None:
            entry = self.book.find((verb.table, verb.incarnation))
        heirs = self.book.heirs(entry) if entry is not None else ()
        if entry is not None and entry.is_dead and verb.incarnation is None and heirs:
            *others, entry = heirs
            heirs = tuple(others)
        if entry is None:
            gone = newest is not None and verb.incarnation is not None
            verdict = LakeVerdict.NOTHING if gone else LakeVerdict.NOT_FOUND
            self._answer(verb.request, verdict, "no such table", _LIST)
        elif entry.is_dead:
            what = "the table is dropped already"
            self._answer(verb.request, LakeVerdict.NOTHING, what, of=entry.incarnation)
        elif entry.awaits is not False and newest is not entry and _lives(newest):
            # Its feed would be left without a table, and the older one would stay the table.
            what = "the table is being copied anew"
            hint = "drop the table by its name: both go then"
            self._answer(verb.request, LakeVerdict.REFUSED, what, hint, of=entry.incarnation)
        elif (busy := self._obstacle(entry, *heirs)) is None:
            entry.drops.append(Drop(verb.request, None, heirs))
            self._kill_if_free(entry)
        elif verb.wait_ms <= 0:
            self.tell_busy(entry, verb.request, busy)
        else:
            entry.drops.append(Drop(verb.request, self.now + verb.wait_ms, heirs))

    def _obstacle(self, *entries: Entry) -> Job | None:
        """Work that a drop has to wait for. A claim is over in a moment, and a kill is welcome."""
        active = (entry.active for entry in entries)
        return next((job for job in active if job is not None and job.kind not in _SHORT), None)

    def _heirs(self, entry: Entry) -> list[Entry]:
        """Who has to end before it, for those who wait for its end."""
        return [one for drop in entry.drops for one in drop.heirs if not one.is_dead]

    def tell_busy(self, entry: Entry, request: str, job: Job) -> None:
        """Refuse a drop; nothing has happened."""
        what = f"a {job.kind.value} is under way for the table"
        self._answer(request, LakeVerdict.BUSY, what, _BUSY_HINT, of=entry.incarnation)

    def _kill_if_free(self, entry: Entry) -> None:
        """Go on with a drop: its heirs first, so that a table which is dead stays so. One at a
        time: when one cannot be killed, nothing else is left in doubt."""
        heirs = self._heirs(entry)
        if not heirs and entry.is_dead and entry.active is None:
            self._died(entry)
        if self.token == NO_TOKEN or self._obstacle(entry, *heirs) is not None:
            return
        # The newest first: whatever is older then goes too, whoever ends it.
        one = max(heirs, key=lambda heir: heir.incarnation, default=entry)
        if one.life is Life.LIVE and one.active is None:
            self._kill(one)

    def _kill(self, entry: Entry) -> None:
        others = self.book.of(entry.table)
        heir = any(entry in drop.heirs for one in others for drop in one.drops)
        self.works.kill(entry, self.token, dropped=heir)

    def _give_up_waiting(self, entry: Entry) -> None:
        """Drops whose deadline has come."""
        busy = self._obstacle(entry, *self._heirs(entry))
        if busy is None:
            return
        for drop in list(entry.drops):
            if drop.deadline is not None and self.now >= drop.deadline:
                entry.drops.remove(drop)
                self.tell_busy(entry, drop.request, busy)

    def _tell_drops(
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
            begun = any(heir.life is not Life.LIVE for heir in drop.heirs)
            what = LakeVerdict.UNKNOWN if begun and verdict in _NO_EFFECT else verdict
            self._answer(drop.request, what, trouble.what, trouble.hint, of=entry.incarnation)

    def _lives_on(self, entry: Entry, verdict: LakeVerdict, trouble: LakeTrouble) -> None:
        """The kill is over and, for all that is known, the table is not."""
        entry.life = Life.LIVE
        entry.in_doubt = False
        entry.kill_again_at = None
        # A drop that came to this one's kill, and has to wait for others first, has its own yet.
        failed = verdict is LakeVerdict.FAILED
        self._tell_drops(entry, verdict, trouble, lambda drop: not (failed and _waits(drop)))
        for other in self.book.of(entry.table):
            # Another drop of the same may have begun to kill it already.
            same = verdict if other.life is Life.LIVE else LakeVerdict.UNKNOWN
            self._tell_drops(other, same, trouble, lambda drop: entry in drop.heirs)

    # --- what comes of work -------------------------------------------------------------------

    def ended(self, event: WorkEnded) -> None:
        """Take the end of a piece of work."""
        job = self.works.finish(event)
        if job is None:
            return
        stale = event.outcome is WorkOutcome.STALE and job.token == self.token
        entry = self.concerned(job)
        entry.changed = self.surveys.number
        if job.kind is WorkKind.KILL:
            self._kill_ended(entry, event)
        if stale:
            # Before those hear of it who wait for work: they would go on as if this home led.
            self.told_stale()
        if job.kind is not WorkKind.KILL:
            self._work_ended(entry, job, event)
        for one in self.book.of(entry.table):
            if one.drops:
                self._kill_if_free(one)

    def told_stale(self) -> None:
        """A fence has seen a newer leader."""
        self._on_stale()

    def concerned(self, job: Job) -> Entry:
        """Whom the end of a job is about: the very incarnation that it was begun for."""
        return job.entry

    def _kill_ended(self, entry: Entry, event: WorkEnded) -> None:
        trouble = event.trouble or LakeTrouble("")
        outcome = event.outcome
        if entry.is_dead or outcome in _DEADLY:
            entry.in_doubt |= outcome is WorkOutcome.DONE
            self._died(entry)
        elif outcome is WorkOutcome.STALE:
            verdict = LakeVerdict.UNKNOWN if entry.in_doubt else LakeVerdict.REFUSED
            self._lives_on(entry, verdict, OUTDATED)
        elif outcome is WorkOutcome.FAILED and not entry.in_doubt:
            self._fail(entry, WorkKind.KILL, trouble)
            self._lives_on(entry, LakeVerdict.FAILED, trouble)
        elif self.token == NO_TOKEN:
            self._lives_on(entry, LakeVerdict.UNKNOWN, trouble)
        else:
            entry.in_doubt = True
            entry.kill_again_at = self.now + self._settings.retry_ms

    def _work_ended(self, entry: Entry, job: Job, event: WorkEnded) -> None:
        trouble = event.trouble or LakeTrouble("")
        match event.outcome:
            case WorkOutcome.DEAD if job.kind is not WorkKind.DELETE:
                self._died(entry)
                self.works.note(job, DROPPED)
            case WorkOutcome.DONE | WorkOutcome.NOTHING:
                self._done(entry, job, event)
                nothing = event.outcome is WorkOutcome.NOTHING
                verdict = LakeVerdict.NOTHING if nothing else LakeVerdict.DONE
                self.works.note(job, Result(verdict))
            case WorkOutcome.STALE:
                self.works.note(job, Result(LakeVerdict.REFUSED, OUTDATED))
            case WorkOutcome.HELD | WorkOutcome.DEAD:
                entry.fail(self.now, job.kind, trouble, self._settings.held_ms)
                self.works.note(job, Result(LakeVerdict.FAILED, trouble))
            case WorkOutcome.FAILED | WorkOutcome.UNKNOWN:
                unknown = event.outcome is WorkOutcome.UNKNOWN
                verdict = LakeVerdict.UNKNOWN if unknown else LakeVerdict.FAILED
                self._fail(entry, job.kind, trouble)
                self.works.note(job, Result(verdict, trouble))
                if job.kind is WorkKind.CLAIM:
                    # Nothing can be done to a table that is not ours.
                    self.works.cancel_of(entry, Result(LakeVerdict.FAILED, trouble))

    def _done(self, entry: Entry, job: Job, event: WorkEnded) -> None:
        entry.failures.pop(job.kind, None)
        if job.kind is WorkKind.CLAIM:
            entry.token = job.token
        elif job.kind is WorkKind.DRAIN:
            # What stable has by now, the next survey tells.
            entry.figures = entry.figures.drained(event.drained_to)
            entry.oldest_at = None
        elif job.kind is WorkKind.VACUUM:
            entry.vacuumed_at = self.now
        elif job.kind is WorkKind.COMPACT:
            entry.figures = entry.figures.compacted()
        elif job.kind is WorkKind.DELETE:
            entry.life = Life.GONE

    def _fail(self, entry: Entry, kind: WorkKind, trouble: LakeTrouble) -> None:
        before = entry.failures.get(kind)
        doublings = min(before.attempts if before is not None else 0, 20)
        wait = self._settings.backoff_ms_min * 2**doublings
        entry.fail(self.now, kind, trouble, min(wait, self._settings.backoff_ms_max))

    def _died(self, entry: Entry) -> None:
        """It is dead: whoever waits for that, or for anything else of it, is told; for a drop it
        is not over while something lives that would be the table in its place."""
        entry.die(self.now)
        self.works.tell_waiting(entry, DROPPED)
        done = entry.in_doubt or any(drop.heirs for drop in entry.drops)
        verdict = LakeVerdict.DONE if done else LakeVerdict.NOTHING
        self._tell_drops(entry, verdict, LakeTrouble(""), lambda drop: not _waits(drop))

    # --- time ---------------------------------------------------------------------------------

    def tick(self, *, by_policy: bool) -> None:
        """Look whether something is due."""
        for entry in self.book:
            if entry.drops:
                self._give_up_waiting(entry)
            if self.token == NO_TOKEN:
                continue
            if entry.kill_again_at is not None and self.now >= entry.kill_again_at:
                self._kill(entry)
            elif by_policy:
                self._queue_due(entry)

    def _queue_due(self, entry: Entry) -> None:
        if entry.life is Life.LIVE and self.book.replaced(entry):
            if self.works.is_free(entry) and not entry.rests(self.now, WorkKind.KILL):
                self._kill(entry)
            return
        kind = due(entry, self.token, self.now, self._settings)
        if kind is WorkKind.DELETE and self.book.hides(entry):
            return
        if kind is not None and (entry.active is None or entry.active.kind is not kind):
            self.works.queue(entry, kind)

    def start(self) -> None:
        """Begin what can be begun, if this home leads."""
        if self.token != NO_TOKEN:
            self.works.start(self.token)

    # --- the role ends ------------------------------------------------------------------------

    def lose(self, trouble: LakeTrouble) -> None:
        """This home does not lead: begin nothing more, and say so to everybody who waits."""
        refused = Result(LakeVerdict.REFUSED, trouble)
        self.token = NO_TOKEN
        self.works.cancel(refused)
        self.works.stop()
        for entry in self.book:
            if entry.active is not None and entry.active.kind is WorkKind.KILL:
                continue  # its end tells what is true
            if entry.life is Life.KILLING:
                self._lives_on(entry, LakeVerdict.UNKNOWN, trouble)
            else:
                verdict = LakeVerdict.UNKNOWN if entry.is_dead else LakeVerdict.REFUSED
                self._tell_drops(entry, verdict, trouble)
        for verb in self.surveys.give_up():
            self._answer(verb.request, LakeVerdict.REFUSED, trouble.what, trouble.hint)

    def end(self, trouble: LakeTrouble) -> None:
        """The keeper is over, and hears of nothing any more."""
        for job in list(self.works.active.values()):
            self.works.note(job, Result(LakeVerdict.UNKNOWN, trouble))
        for entry in self.book:
            if entry.life is Life.KILLING:
                self._tell_drops(entry, LakeVerdict.UNKNOWN, trouble)
        self.lose(trouble)

    @property
    def quiet(self) -> bool:
        """Nothing waits, nothing is under way, and of no kill the outcome is open."""
        return self.works.quiet and all(entry.idle for entry in self.book)


def _waits(drop: Drop) -> bool:
    return any(not heir.is_dead for heir in drop.heirs)


def _lives(entry: Entry | None) -> bool:
    return entry is not None and not entry.is_dead
