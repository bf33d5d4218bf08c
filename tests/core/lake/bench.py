"""A keeper on a bench: tests say what the world answers, and look at what it asks for."""

from typing import TypeVar

from lockgate.core.lake.keeper import LakeKeeper
from lockgate.model.ids import Token
from lockgate.model.lake import (
    NOBODY,
    Figures,
    LakeSettings,
    LakeTrouble,
    Leadership,
    TableKey,
    TableSeen,
    WishRecord,
    WorkKind,
    WorkOutcome,
    begun,
)
from lockgate.model.lake_events import (
    LakeEvent,
    LakeSurveyed,
    LakeTaken,
    StepUp,
    Tick,
    WishRecorded,
    WorkEnded,
)
from lockgate.model.lake_instructions import (
    LakeAnswer,
    LakeInstruction,
    LakeVerdict,
    RecordWish,
    RunWork,
    Survey,
    TakeLake,
)

T = TypeVar("T")

HOME = "here"
PARTICIPANT = 7
TROUBLE = LakeTrouble("the disk is full", "free some space")
SETTINGS = LakeSettings(
    workers=2,
    claimers=2,
    drain_rows=100,
    drain_ms=60_000,
    retention_ms=5_000,
    survey_ms=1_000,
    retry_ms=100,
    backoff_ms_min=1_000,
    backoff_ms_max=3_000,
)


def table(name: str, incarnation: int = 1, *, rows: int = 0, dead: bool = False) -> TableSeen:
    """A table as a survey finds it, not claimed by anybody."""
    return TableSeen(name, incarnation, dead=dead, figures=Figures(ingest_rows=rows))


class Bench:
    """One keeper, the moment, and everything that it asked for."""

    def __init__(self, record: WishRecord | None = None, settings: LakeSettings = SETTINGS) -> None:
        self.keeper = LakeKeeper(settings, "lake", HOME, PARTICIPANT, begun(record or WishRecord()))
        self.now = 0
        self.leader: Leadership = NOBODY
        self.out: list[LakeInstruction] = []
        """What the last event led to."""
        self.all: list[LakeInstruction] = []
        self.answers: dict[str, LakeAnswer] = {}
        self._ended: set[int] = set()

    def handle(self, event: LakeEvent, after_ms: int = 1) -> list[LakeInstruction]:
        self.now += after_ms
        self.out = self.keeper.handle(self.now, event)
        self.all += self.out
        for answer in self.of(LakeAnswer):
            assert answer.request not in self.answers, f"{answer.request} was answered before"
            self.answers[answer.request] = answer
        return self.out

    def of(self, kind: type[T]) -> list[T]:
        """What the last event led to, of one kind."""
        return [one for one in self.out if isinstance(one, kind)]

    def verdict(self, request: str) -> LakeVerdict | None:
        answer = self.answers.get(request)
        return None if answer is None else answer.verdict

    # --- the world's answers ------------------------------------------------------------------

    def tick(self, after_ms: int = 1) -> None:
        self.handle(Tick(), after_ms)

    def surveys(self) -> list[Survey]:
        return [one for one in self.all if isinstance(one, Survey)]

    def surveyed(self, *tables: TableSeen, number: int | None = None) -> None:
        """The last survey, or that one, found these."""
        number = self.surveys()[-1].number if number is None else number
        self.handle(LakeSurveyed(number, self.leader, tables))

    def recorded(self) -> WishRecord:
        """The last wish is durable."""
        record = [one for one in self.all if isinstance(one, RecordWish)][-1].record
        self.handle(WishRecorded(record.serial))
        return record

    def take(self, epoch: int) -> None:
        """The lake is this keeper's."""
        ask = [one for one in self.all if isinstance(one, TakeLake)][-1]
        self.leader = Leadership(epoch, HOME, ask.keeper, ask.attempt)
        self.handle(LakeTaken(ask.attempt, epoch))

    # --- work ---------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        return Token(self.keeper.epoch, 0, PARTICIPANT)

    def active(self, kind: WorkKind | None = None) -> list[RunWork]:
        """The work that was begun and has not ended, of one kind or any."""
        begun = [one for one in self.all if isinstance(one, RunWork)]
        return [w for w in begun if w.work not in self._ended and kind in {None, w.kind}]

    def tables(self, kind: WorkKind) -> list[TableKey]:
        """The tables that such work is under way for."""
        return [(work.table, work.incarnation) for work in self.active(kind)]

    def end(
        self, name: str, outcome: WorkOutcome = WorkOutcome.DONE, trouble: LakeTrouble | None = None
    ) -> RunWork:
        """The work that is under way for a table ends."""
        [work] = [one for one in self.active() if one.table == name]
        self._ended.add(work.work)
        self.handle(WorkEnded(work.work, work.table, work.incarnation, outcome, trouble))
        return work

    def over(self, work: RunWork, outcome: WorkOutcome, trouble: LakeTrouble | None = None) -> None:
        """That piece of work ends."""
        self._ended.add(work.work)
        self.handle(WorkEnded(work.work, work.table, work.incarnation, outcome, trouble))

    def end_all(self, kind: WorkKind, outcome: WorkOutcome = WorkOutcome.DONE) -> None:
        """All work of a kind ends, also what begins because of that."""
        while works := self.active(kind):
            for work in works:
                self._ended.add(work.work)
                self.handle(WorkEnded(work.work, work.table, work.incarnation, outcome))

    # --- ways to somewhere --------------------------------------------------------------------

    def gather(self, *tables: TableSeen) -> None:
        """Asked to step up, it has the lake and begins to claim these tables."""
        self.handle(StepUp("up"))
        self.surveyed(*tables)
        self.recorded()
        self.take(self.leader.epoch + 1)
        self.surveyed(*tables)

    def claimed(self, *tables: TableSeen) -> None:
        """It has claimed these tables and begins to drain them."""
        self.gather(*tables)
        self.end_all(WorkKind.CLAIM)

    def lead(self, *tables: TableSeen) -> None:
        """It leads, and these tables are drained."""
        self.claimed(*tables)
        self.end_all(WorkKind.DRAIN)

    def seen(self, *tables: TableSeen) -> None:
        """A survey of all tables is due, and finds these, claimed as they are."""
        self.tick(SETTINGS.survey_ms)
        self.surveyed(*tables)

    def mine(self, name: str, incarnation: int = 1, *, rows: int = 0) -> TableSeen:
        """A table that this keeper has claimed."""
        figures = Figures(ingest_rows=rows, stable_files=1)
        return TableSeen(name, incarnation, token=self.token, figures=figures)
