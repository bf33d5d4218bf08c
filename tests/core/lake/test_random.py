"""A keeper against everything at once: any order of questions and answers, late and repeated ones,
outcomes that nobody knows, leaders that come and go.

Held to, at every step: the lake is asked for only under a durable wish; work is begun by a leader
only, on one piece per table, never on a table that the keeper was told is dead; nobody is answered
twice. Then the keeper ends, and nobody waits any more.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lockgate.core.lake.keeper import LakeKeeper
from lockgate.core.lake.stages import BEGINS_WORK
from lockgate.model.ids import NO_TOKEN, Token
from lockgate.model.lake import (
    NOBODY,
    Figures,
    LakeSettings,
    LakeTrouble,
    Leadership,
    TableKey,
    TableSeen,
    Wish,
    WishRecord,
    WorkKind,
    WorkOutcome,
    begun,
    released,
    taken,
)
from lockgate.model.lake_events import (
    DrainTable,
    DropTable,
    KeeperOver,
    LakeEvent,
    LakeRefused,
    LakeReleased,
    LakeSurveyed,
    LakeTakeFailed,
    LakeTaken,
    LakeVerb,
    ReleaseFailed,
    StepDown,
    StepUp,
    SurveyFailed,
    Tick,
    WishNotRecorded,
    WishRecorded,
    WorkEnded,
)
from lockgate.model.lake_instructions import (
    LakeAnswer,
    LakeInstruction,
    RecordWish,
    ReleaseLake,
    RunWork,
    Survey,
    TakeLake,
)

SETTINGS = LakeSettings(
    workers=2,
    claimers=1,
    drain_rows=5,
    retention_ms=500,
    survey_ms=300,
    survey_wait_ms=2_000,
    retry_ms=100,
    backoff_ms_min=200,
    backoff_ms_max=400,
    held_ms=200,
    vacuum_ms=1_000,
)
NAMES = st.sampled_from(["a", "b"])
TROUBLE = LakeTrouble("no")
ENDS = {
    WorkKind.CLAIM: [WorkOutcome.DONE],
    WorkKind.DRAIN: [WorkOutcome.DONE, WorkOutcome.NOTHING],
    WorkKind.COMPACT: [WorkOutcome.DONE],
    WorkKind.VACUUM: [WorkOutcome.DONE],
    WorkKind.KILL: [WorkOutcome.DONE],
    WorkKind.DELETE: [WorkOutcome.DONE, WorkOutcome.HELD],
}
NO_GOOD = [WorkOutcome.FAILED, WorkOutcome.UNKNOWN, WorkOutcome.STALE]


class Keeping(RuleBasedStateMachine):
    """One keeper, and a lake that is true to itself and to nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.keeper = LakeKeeper(SETTINGS, "lake", "here", 1, begun(WishRecord()))
        self.now = 0
        self.leader: Leadership = NOBODY
        self.tables: dict[TableKey, bool] = {("a", 1): True, ("b", 2): True}
        """Whether each lives."""
        self.tokens: dict[TableKey, Token] = {}
        self.births = 2
        self.asked: list[RecordWish | TakeLake | ReleaseLake] = []
        self.surveys: list[tuple[Survey, LakeSurveyed | None]] = []
        self.works: dict[int, RunWork] = {}
        self.ends: list[WorkEnded] = []
        self.durable = begun(WishRecord())
        self.wished = self.durable
        self.told_dead: set[TableKey] = set()
        self.open: set[str] = set()
        self.requests = 0

    # --- the keeper ---------------------------------------------------------------------------

    def give(self, event: LakeEvent) -> None:
        if isinstance(event, LakeSurveyed):
            self.told_dead |= {seen.key for seen in event.tables if seen.dead}
        for instruction in self.keeper.handle(self.now, event):
            self.take(instruction)

    def take(self, instruction: LakeInstruction) -> None:
        match instruction:
            case RecordWish():
                self.wished = instruction.record
                self.asked.append(instruction)
            case TakeLake():
                assert self.wished == self.durable
                assert self.wished.wish is not Wish.FOLLOW
                self.asked.append(instruction)
            case ReleaseLake():
                assert not self.works
                self.asked.append(instruction)
            case Survey():
                self.surveys.append((instruction, None))
            case RunWork():
                self.begin(instruction)
            case LakeAnswer():
                assert instruction.request in self.open, "answered twice"
                self.open.discard(instruction.request)

    def begin(self, work: RunWork) -> None:
        key = work.table, work.incarnation
        assert self.keeper.stage in BEGINS_WORK
        assert work.token.epoch == self.keeper.epoch > 0
        assert key not in {(one.table, one.incarnation) for one in self.works.values()}
        if work.kind is WorkKind.DELETE:
            assert not self.tables.get(key, False)
        else:
            assert key not in self.told_dead
        self.works[work.work] = work

    # --- a quiet stretch ----------------------------------------------------------------------

    @initialize()
    def begin_well(self) -> None:
        """Most begins as leader: what can go wrong before that does not take long to find."""
        self.give(Tick())
        self.step_up()
        self.calm(12)

    @rule(steps=st.integers(1, 8))
    def calm(self, steps: int) -> None:
        """Everything that is asked is answered, and all goes well."""
        for _ in range(steps):
            for index, (survey, _) in enumerate(self.surveys):
                self.surveys[index] = survey, self.seen(survey, 9)
            while self.surveys:
                found = self.surveys.pop(0)[1]
                assert found is not None
                self.give(found)
            while self.asked:
                self.answer_first(good=True, lands=True, keep=False)
            for number in sorted(self.works):
                self.end(number, ENDS[self.works[number].kind][0], lands=True)

    # --- people and time ----------------------------------------------------------------------

    def ask(self, verb: LakeVerb) -> None:
        self.open.add(verb.request)
        self.give(verb)

    def request(self) -> str:
        self.requests += 1
        return f"r{self.requests}"

    @rule(ms=st.sampled_from([1, 50, 300, 3_000]))
    def tick(self, ms: int) -> None:
        self.now += ms
        self.give(Tick())

    @rule()
    def step_up(self) -> None:
        self.ask(StepUp(self.request()))

    @rule(flush=st.booleans())
    def step_down(self, flush: bool) -> None:
        self.ask(StepDown(self.request(), flush))

    @rule(table=st.one_of(st.none(), NAMES))
    def drain(self, table: str | None) -> None:
        self.ask(DrainTable(self.request(), table))

    @rule(table=NAMES, wait_ms=st.sampled_from([0, 100, 10_000]))
    def drop(self, table: str, wait_ms: int) -> None:
        self.ask(DropTable(self.request(), table, wait_ms=wait_ms))

    # --- the world ----------------------------------------------------------------------------

    @rule(table=NAMES)
    def make(self, table: str) -> None:
        self.births += 1
        self.tables[table, self.births] = True

    @rule()
    def another_leads(self) -> None:
        self.leader = Leadership(self.leader.epoch + 1, "there", 1, 1)

    @precondition(lambda self: self.asked)
    @rule(good=st.sampled_from([True, True, False]), lands=st.booleans(), keep=st.booleans())
    def answer(self, good: bool, lands: bool, keep: bool) -> None:
        """The first question is answered; with `keep` it will be answered again."""
        self.answer_first(good, lands, keep)

    def answer_first(self, good: bool, lands: bool, keep: bool) -> None:
        ask = self.asked[0] if keep else self.asked.pop(0)
        if isinstance(ask, RecordWish):
            if (good or lands) and ask.record.serial >= self.durable.serial:
                self.durable = ask.record
            serial = ask.record.serial
            self.give(WishRecorded(serial) if good else WishNotRecorded(serial))
        elif isinstance(ask, TakeLake):
            new = taken(self.leader, ask.home, ask.keeper, ask.attempt, ask.over)
            if new is None:
                self.give(LakeRefused(ask.attempt, self.leader))
                return
            self.leader = new if good or lands else self.leader
            self.give(LakeTaken(ask.attempt, new.epoch) if good else LakeTakeFailed(ask.attempt))
        else:
            self.leader = released(self.leader, ask.home, ask.epoch) if good else self.leader
            self.give(LakeReleased(ask.epoch) if good else ReleaseFailed(ask.epoch))

    @precondition(lambda self: self.surveys)
    @rule(data=st.data())
    def look(self, data: st.DataObject) -> None:
        """A survey sees the lake as it is now; it is answered some time later."""
        index = data.draw(st.integers(0, len(self.surveys) - 1))
        survey, _ = self.surveys[index]
        self.surveys[index] = survey, self.seen(survey, data.draw(st.sampled_from([0, 9])))

    def seen(self, survey: Survey, rows: int) -> LakeSurveyed:
        tables = tuple(
            TableSeen(*key, not lives, 0, self.tokens.get(key, NO_TOKEN), Figures(ingest_rows=rows))
            for key, lives in self.tables.items()
            if survey.table in {None, key[0]}
        )
        return LakeSurveyed(survey.number, self.leader, tables)

    @precondition(lambda self: self.surveys)
    @rule(data=st.data(), keep=st.sampled_from([False, False, True]))
    def survey_ends(self, data: st.DataObject, keep: bool) -> None:
        index = data.draw(st.integers(0, len(self.surveys) - 1))
        survey, found = self.surveys[index] if keep else self.surveys.pop(index)
        self.give(found or SurveyFailed(survey.number, TROUBLE))

    @precondition(lambda self: self.works)
    @rule(data=st.data(), lands=st.booleans(), again=st.booleans())
    def work_ends(self, data: st.DataObject, lands: bool, again: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.works)))
        good = ENDS[self.works[number].kind]
        ended = self.end(number, data.draw(st.sampled_from([*good, *good, *NO_GOOD])), lands)
        if again:
            self.ends.append(ended)

    def end(self, number: int, outcome: WorkOutcome, lands: bool) -> WorkEnded:
        work = self.works.pop(number)
        key = work.table, work.incarnation
        if work.kind is not WorkKind.DELETE and not self.tables.get(key, False):
            outcome = WorkOutcome.DEAD
        maybe = outcome is WorkOutcome.UNKNOWN and lands
        if outcome is WorkOutcome.DONE or maybe:
            if work.kind is WorkKind.KILL:
                self.tables[key] = False
            elif work.kind is WorkKind.DELETE:
                self.tables.pop(key, None)
            elif work.kind is WorkKind.CLAIM:
                self.tokens[key] = work.token
        ended = WorkEnded(work.work, *key, outcome, TROUBLE)
        if outcome is WorkOutcome.DEAD or (
            work.kind is WorkKind.KILL and outcome is WorkOutcome.DONE
        ):
            self.told_dead.add(key)
        self.give(ended)
        return ended

    @precondition(lambda self: self.ends)
    @rule()
    def an_end_comes_again(self) -> None:
        before = self.keeper.status()
        self.give(self.ends.pop(0))
        assert self.keeper.status() == before

    # --- always -------------------------------------------------------------------------------

    @invariant()
    def the_keeper_knows_what_is_under_way(self) -> None:
        shown = {(t.table, t.incarnation) for t in self.keeper.status().tables if t.active}
        assert shown == {(w.table, w.incarnation) for w in self.works.values()}

    @invariant()
    def what_it_was_told_is_dead_stays_dead(self) -> None:
        for shown in self.keeper.status().tables:
            if (shown.table, shown.incarnation) in self.told_dead:
                assert shown.state.value == "dead"

    def teardown(self) -> None:
        self.give(KeeperOver())
        assert not self.open


Keeping.TestCase.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
TestKeeping = Keeping.TestCase
