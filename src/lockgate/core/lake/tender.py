"""What a leader does to tables: work that people ask for, and work that is due.

See `works` for the queue and the locks, `drops` for how tables end.
"""

from collections.abc import Callable, Iterable

from lockgate.core.lake.asks import DROPPED, Ask, Result, answers
from lockgate.core.lake.book import Book
from lockgate.core.lake.drops import Drops
from lockgate.core.lake.entry import Entry, Job, Life
from lockgate.core.lake.policy import due, pause_ms
from lockgate.core.lake.surveys import Asked, Surveys, Verb
from lockgate.core.lake.words import NO_TABLE, OUTDATED
from lockgate.core.lake.works import Works
from lockgate.model.ids import NO_TOKEN, Millis, Token
from lockgate.model.lake import LakeSettings, LakeTrouble, WorkKind, WorkOutcome
from lockgate.model.lake_events import (
    DrainTable,
    DropTable,
    LakeSurveyed,
    SurveyFailed,
    WorkEnded,
)
from lockgate.model.lake_instructions import LakeAnswer, LakeInstruction, LakeVerdict

__all__ = ["Tender"]


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
        self.book = Book()
        self.surveys = Surveys(settings, emit)
        self.works = Works(settings, emit)
        self.drops = Drops(settings, self.book, self.works, emit, now)
        self.blind: LakeTrouble | None = None
        """Why the last look at all tables failed."""

    @property
    def now(self) -> Millis:
        return self._now()

    @property
    def token(self) -> Token:
        """Of the leader; NO_TOKEN while this home does not lead, and then nothing is begun."""
        return self.works.token

    def lead(self, token: Token) -> None:
        """This home leads, under this token."""
        self.works.token = token

    # --- looking ------------------------------------------------------------------------------

    def look(self, asked: Asked | None, found: LakeSurveyed) -> list[Verb]:
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
                self.drops.go_on(entry)
        return self.surveys.ready(self.book)

    def cannot_look(self, asked: Asked, failed: SurveyFailed) -> None:
        """Nothing was found out; who waited for it is told why."""
        if asked.table is None:
            self.blind = failed.trouble
            self.surveys.soon(self.now)
        for verb in self.surveys.failed(failed.number):
            self._answer(verb, LakeVerdict.FAILED, failed.trouble)

    # --- what people ask for ------------------------------------------------------------------

    def decide(self, verb: DrainTable | DropTable) -> None:
        """Its table, or all of them, were looked at after it was asked."""
        if isinstance(verb, DropTable):
            self.drops.decide(verb)
        elif verb.table is None:
            self.drain(Ask(self._answer_drain, verb.request), self.book.current())
        else:
            entries = self.book.meant(verb.table)
            if not entries:
                self._answer(verb, LakeVerdict.NOT_FOUND, NO_TABLE)
            else:
                self.drain(Ask(self._answer_drain, verb.request), entries)

    def drain(self, ask: Ask, entries: Iterable[Entry]) -> None:
        """Queue a drain of each that is not dead, and have `ask` told what comes of them."""
        for entry in entries:
            self.works.queue(entry, WorkKind.DRAIN, ask)
        ask.go_on_if_complete()

    def flush(self, ask: Ask) -> None:
        """Queue a drain of all: figures are as old as the last look, and its own drain tells of
        each what is true. A name whose incarnations nobody could list cannot be flushed."""
        for name, why in self.book.unseen.items():
            ask.results[name, 0] = Result(LakeVerdict.FAILED, why)
        self.drain(ask, self.book.current())

    def claim(self, ask: Ask) -> None:
        """Queue a claim of every table that lives, replaced ones too."""
        for entry in self.book:
            self.works.queue(entry, WorkKind.CLAIM, ask)
        ask.go_on_if_complete()

    def _answer_drain(self, ask: Ask) -> None:
        told = ask.trouble()
        for answer in answers(ask, ask.verdict(), told.what, told.hint):
            self._emit(answer)

    def _answer(self, verb: Verb, verdict: LakeVerdict, why: LakeTrouble) -> None:
        self._emit(LakeAnswer(verb.request, verdict, why.what, why.hint))

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
            self.drops.killed(entry, event)
        if stale:
            # Before those hear of it who wait for work: they would go on as if this home led.
            self.told_stale()
        if job.kind is not WorkKind.KILL:
            self._work_ended(entry, job, event)
        for one in self.book.of(entry.table):
            if one.drops:
                self.drops.go_on(one)

    def told_stale(self) -> None:
        """A fence has seen a newer leader."""
        self._on_stale()

    def concerned(self, job: Job) -> Entry:
        """Whom the end of a job is about: the very incarnation that it was begun for."""
        return job.entry

    def _work_ended(self, entry: Entry, job: Job, event: WorkEnded) -> None:
        trouble = event.trouble or LakeTrouble("")
        match event.outcome:
            case WorkOutcome.DEAD if job.kind is not WorkKind.DELETE:
                self.drops.died(entry)
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
                pause = pause_ms(entry, job.kind, self._settings)
                entry.fail(self.now, job.kind, trouble, pause)
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

    # --- time ---------------------------------------------------------------------------------

    def tick(self, *, by_policy: bool) -> None:
        """Look whether something is due."""
        for entry in self.book:
            if entry.drops:
                self.drops.give_up_waiting(entry)
            if self.token == NO_TOKEN:
                continue
            if entry.kill_again_at is not None and self.now >= entry.kill_again_at:
                self.drops.kill(entry)
            elif by_policy:
                self._queue_due(entry)

    def _queue_due(self, entry: Entry) -> None:
        if entry.life is Life.LIVE and self.book.replaced(entry):
            if self.works.is_free(entry) and not entry.rests(self.now, WorkKind.KILL):
                self.drops.kill(entry)
            return
        kind = due(entry, self.token, self.now, self._settings)
        if kind is WorkKind.DELETE and self.book.hides(entry):
            return
        if kind is not None and (entry.active is None or entry.active.kind is not kind):
            self.works.queue(entry, kind)

    def start(self) -> None:
        """Begin what can be begun, if this home leads."""
        self.works.start()

    # --- the role ends ------------------------------------------------------------------------

    def lose(self, trouble: LakeTrouble) -> None:
        """This home does not lead: begin nothing more, and say so to everybody who waits."""
        refused = Result(LakeVerdict.REFUSED, trouble)
        self.works.token = NO_TOKEN
        self.works.cancel(refused)
        self.works.stop()
        for entry in self.book:
            if entry.active is not None and entry.active.kind is WorkKind.KILL:
                continue  # its end tells what is true
            if entry.life is Life.KILLING:
                self.drops.lives_on(entry, LakeVerdict.UNKNOWN, trouble)
            else:
                verdict = LakeVerdict.UNKNOWN if entry.is_dead else LakeVerdict.REFUSED
                self.drops.tell(entry, verdict, trouble)
        for verb in self.surveys.give_up():
            self._answer(verb, LakeVerdict.REFUSED, trouble)

    def end(self, trouble: LakeTrouble) -> None:
        """The keeper is over, and hears of nothing any more."""
        for job in list(self.works.active.values()):
            self.works.note(job, Result(LakeVerdict.UNKNOWN, trouble))
        for entry in self.book:
            if entry.life is Life.KILLING:
                self.drops.tell(entry, LakeVerdict.UNKNOWN, trouble)
        self.lose(trouble)

    @property
    def quiet(self) -> bool:
        """Nothing waits, nothing is under way, and of no kill the outcome is open."""
        return self.works.quiet and all(entry.idle for entry in self.book)
