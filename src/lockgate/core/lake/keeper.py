"""The keeper of a lake for one home: whether this home leads it, and on whose word.

What a home wants to be to a lake is recorded before anything is done about it; so a keeper that
dies in the middle has a successor that goes on, and a wish that was given up is not taken up again.
The lake itself says who leads: its epoch is raised for every keeper that begins to lead, and every
stable table is claimed under it before this home counts as leader. Told by any of them that it is
stale, a keeper is a follower from that moment, whatever it was about to do.

See `stages` for the way through. Tables are the tender's business.
"""

from collections.abc import Mapping
from typing import ClassVar

from lockgate.core.lake.asks import Ask, Result, answers
from lockgate.core.lake.recorder import WishRecorder
from lockgate.core.lake.stages import BEGINS_WORK, ROLE_OF, TABLE, TAKES_WORK, Stage
from lockgate.core.lake.status import progress, table_statuses
from lockgate.core.lake.tender import Tender
from lockgate.core.lake.words import ENDED, FLUSH_HINT, LEAVES, NOT_LEADER, OUTDATED, UNFLUSHED
from lockgate.core.machine import StateMachine
from lockgate.model.ids import NO_TOKEN, Epoch, Millis, Token
from lockgate.model.lake import (
    NOBODY,
    HomeId,
    LakeRole,
    LakeSettings,
    LakeTrouble,
    Leadership,
    Wish,
    WishRecord,
    WorkKind,
)
from lockgate.model.lake_events import (
    DrainTable,
    DropTable,
    KeeperOver,
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
    WishOutdated,
    WishRecorded,
    WorkEnded,
)
from lockgate.model.lake_instructions import (
    LakeAnswer,
    LakeInstruction,
    LakeVerdict,
    ReleaseLake,
    TakeLake,
)
from lockgate.model.lake_status import LakeStatus

__all__ = ["LakeKeeper"]


class LakeKeeper(StateMachine[LakeInstruction]):
    """One life of the one that decides for a home about a lake."""

    TABLE = TABLE
    BULKY: ClassVar[Mapping[type, str]] = {LakeSurveyed: "tables"}

    def __init__(
        self,
        settings: LakeSettings,
        lake: str,
        home: HomeId,
        participant: int,
        record: WishRecord,
    ) -> None:
        """`record` is what former keepers left, made this one's own (`model.lake.begun`).
        `participant` tells the home's tokens from others'."""
        keeper = record.keeper
        resumes = record.wish is not Wish.FOLLOW
        stage = Stage.TAKING if resumes else Stage.FOLLOWER
        super().__init__(f"lake {lake} of home {home}, keeper {keeper}", stage)
        self.home = home
        self.participant = participant
        self.keeper = keeper
        self.leader: Leadership = NOBODY
        """Who led when the lake was last looked at."""
        self.epoch: Epoch = 0
        """Under which this home leads; 0 while it does not."""
        self.tender = Tender(settings, self.emit, lambda: self.now, self._lose)
        self._settings = settings
        self._recorder = WishRecorder(record, settings.retry_ms, self.emit)
        self._attempt = 1 if resumes else 0
        self._again_at: Millis = 0
        self._look = 0
        """The survey that the next step waits for; 0: none."""
        self._claims = Ask(self._gathered)
        self._up = Ask(self._drained)
        self._down = Ask()
        self._flush = record.flush

    # --- for others ---------------------------------------------------------------------------

    @property
    def stage(self) -> Stage:
        assert isinstance(self.state, Stage)
        return self.state

    @property
    def role(self) -> LakeRole:
        return ROLE_OF[self.stage]

    def status(self) -> LakeStatus:
        """All that is known of the lake, tables in the order of their names."""
        tables = table_statuses(self.tender.book, self.tender.works)
        waits = self._up if self.role is LakeRole.STEPPING_UP else self._down
        done, total = progress(waits)
        stage = self.stage.value
        trouble = self.tender.blind
        return LakeStatus(self.role, stage, self.epoch, self.leader, tables, done, total, trouble)

    def settle(self) -> None:
        """After every event: begin what can be begun, and see whether a flush is over."""
        if self.stage in BEGINS_WORK:
            self.tender.start()
        if self.stage is Stage.FLUSHING and self.tender.quiet:
            self._flushed()

    def _to(self, stage: Stage) -> None:
        self.state = stage

    def _tell(self, ask: Ask, verdict: LakeVerdict, what: str = "", hint: str = "") -> None:
        for answer in answers(ask, verdict, what, hint):
            self.emit(answer)
        ask.close()

    # --- stepping up --------------------------------------------------------------------------

    def _begin_step_up(self, asked: StepUp) -> None:
        self._up = Ask(self._drained, asked.request)
        self._look = self.tender.surveys.ask(self.now, None)
        self._to(Stage.ASKING)

    def _join_step_up(self, asked: StepUp) -> None:
        leaves = self._recorder.record.wish is Wish.LEAVE
        if self.role is LakeRole.STEPPING_UP and not leaves:
            self._up.requests.append(asked.request)
        else:
            what, hint = LEAVES.what, "ask again when it is over"
            self.emit(LakeAnswer(asked.request, LakeVerdict.REFUSED, what, hint))

    def _ask_whether_so(self, asked: StepUp) -> None:
        """It leads, as far as it knows."""
        self.tender.surveys.ask_for(self.now, asked)

    def _is_so_already(self, asked: StepUp | StepDown) -> None:
        what = f"this home is {self.role.value} of the lake already"
        self.emit(LakeAnswer(asked.request, LakeVerdict.NOTHING, what))

    def _surveyed_asking(self, surveyed: LakeSurveyed) -> None:
        self._surveyed(surveyed)
        if self.tender.book.applied(None) >= self._look:
            self._look = 0
            self._wish(Stage.WISHING, Wish.LEAD, over=self.leader.epoch)

    def _survey_failed_asking(self, failed: SurveyFailed) -> None:
        self._survey_failed(failed)
        if failed.number >= self._look:
            self._look = 0
            self._tell(self._up, LakeVerdict.FAILED, failed.trouble.what, failed.trouble.hint)
            self._to(Stage.FOLLOWER)

    def _wished(self, recorded: WishRecorded) -> None:
        if self._recorder.landed(recorded.serial):
            self._attempt += 1
            self._take()

    def _take(self) -> None:
        """Ask for the lake. Asked again, it is the same attempt: it may have been heard before."""
        self._to(Stage.TAKING)
        self._again_at = self.now + self._settings.survey_wait_ms
        self.emit(TakeLake(self.home, self.keeper, self._attempt, self._recorder.record.over))

    def _tick_asking_lake(self, tick: Tick) -> None:
        if self.now >= self._again_at:
            (self._take if self.stage is Stage.TAKING else self._release)()
        self._tick(tick)

    def _ask_lake_later(self, _: LakeTakeFailed | ReleaseFailed) -> None:
        self._again_at = self.now + self._settings.retry_ms

    def _refused(self, refused: LakeRefused) -> None:
        if refused.attempt == self._attempt:
            self._see_leader(refused.leader)
            self._lose()

    def _taken(self, taken: LakeTaken) -> None:
        if taken.attempt != self._attempt:
            return
        self.epoch = taken.epoch
        self._see_leader(Leadership(taken.epoch, self.home, self.keeper, self._attempt))
        self.tender.lead(Token(taken.epoch, 0, self.participant))
        self._to(Stage.GATHERING)
        self._look = self.tender.surveys.ask(self.now, None)

    def _surveyed_gathering(self, surveyed: LakeSurveyed) -> None:
        """Claim what lives. Only a look that was begun after the lake was taken knows all of it:
        who led before may have made tables until then."""
        self._surveyed(surveyed)
        wanted = self._look and self.tender.book.applied(None) >= self._look
        if wanted and self.stage is Stage.GATHERING:
            self._look = 0
            self._claims = Ask(self._gathered)
            self.tender.claim(self._claims)

    def _gathered(self, claims: Ask) -> None:
        """Every table was claimed, or fails alone."""
        if self._recorder.record.wish is Wish.LEAVE:
            self._flush_or_not()
            return
        self._to(Stage.DRAINING)
        self._up.results.update(claims.troubled)
        unknown = self.tender.book.unknown().items()
        self._up.results.update({key: Result(LakeVerdict.FAILED, why) for key, why in unknown})
        ours = [one for one in self.tender.book.current() if one.token == self.tender.token]
        self.tender.drain(self._up, ours)

    def _drained(self, ask: Ask) -> None:
        """Every table was drained, or failed alone and is tried again later."""
        self._to(Stage.LEADER)
        failed = f"; {len(ask.failed)} could not be drained yet" if ask.failed else ""
        what = f"this home leads the lake under epoch {self.epoch}{failed}"
        self._tell(ask, LakeVerdict.DONE, what)

    # --- stepping down ------------------------------------------------------------------------

    def _begin_step_down(self, asked: StepDown) -> None:
        if self._look:
            self._down.requests.append(asked.request)
            return
        self._down = Ask(None, asked.request)
        self._flush = asked.flush
        self._look = self.tender.surveys.ask(self.now, None)

    def _join_step_down(self, asked: StepDown) -> None:
        if self.role is LakeRole.STEPPING_UP:
            what, hint = "this home is stepping up", "ask again when it leads"
            self.emit(LakeAnswer(asked.request, LakeVerdict.BUSY, what, hint))
        else:
            self._down.requests.append(asked.request)

    def _surveyed_leading(self, surveyed: LakeSurveyed) -> None:
        self._surveyed(surveyed)
        asked = self.stage is Stage.LEADER and self._look
        if asked and self.tender.book.applied(None) >= asked:
            self._look = 0
            self._leave_if_durable(asked)

    def _survey_failed_leading(self, failed: SurveyFailed) -> None:
        self._survey_failed(failed)
        if self._look and failed.number >= self._look:
            self._look = 0
            self._tell(self._down, LakeVerdict.FAILED, failed.trouble.what, failed.trouble.hint)

    def _leave_if_durable(self, look: int) -> None:
        undrained = self.tender.book.undrained(look)
        if undrained and not self._flush:
            what = f"{len(undrained)} {UNFLUSHED}, as {undrained[0]}"
            self._tell(self._down, LakeVerdict.REFUSED, what, FLUSH_HINT)
        else:
            self._wish(Stage.LEAVING, Wish.LEAVE, self._recorder.record.over, flush=self._flush)

    def _leaves(self, recorded: WishRecorded) -> None:
        if self._recorder.landed(recorded.serial):
            self._flush_or_not()

    def _flush_or_not(self) -> None:
        """Queue nothing new but what is to be flushed; what is under way is waited for."""
        self._to(Stage.FLUSHING)
        keep = (WorkKind.CLAIM, WorkKind.DRAIN) if self._flush else ()
        self.tender.works.cancel(Result(LakeVerdict.REFUSED, LEAVES), keep=keep)
        if self._flush:
            self.tender.flush(self._down)

    def _flushed(self) -> None:
        if self._down.failed:
            self._wish(Stage.RETURNING, Wish.LEAD, self._recorder.record.over)
        else:
            self._to(Stage.RELEASING)
            self._release()

    def _returned(self, recorded: WishRecorded) -> None:
        if self._recorder.landed(recorded.serial):
            self._to(Stage.LEADER)
            first = self._down.failed[0]
            what = f"{len(self._down.failed)} {UNFLUSHED}, as {first.table}: {first.trouble.what}"
            self._tell(self._down, LakeVerdict.REFUSED, what, first.trouble.hint or FLUSH_HINT)

    def _release(self) -> None:
        self._again_at = self.now + self._settings.survey_wait_ms
        self.emit(ReleaseLake(self.home, self.epoch))

    def _released(self, released: LakeReleased) -> None:
        if released.epoch == self.epoch:
            self._forget(LEAVES)

    # --- following ----------------------------------------------------------------------------

    def _see_leader(self, leader: Leadership) -> None:
        if leader.epoch >= self.leader.epoch:
            self.leader = leader

    def _lose(self) -> None:
        """Another leads: be a follower at once, then have it durable that this is not wished for
        any more. A successor that starts before finds out as this one did."""
        who = f"home {self.leader.home}" if self.leader.home else "another home"
        what = f"{who} took the lake, under epoch {self.leader.epoch}"
        self._tell(self._up, LakeVerdict.REFUSED, what, OUTDATED.hint)
        self._tell(self._down, LakeVerdict.SUPERSEDED, what)
        self._forget(OUTDATED)

    def _forget(self, why: LakeTrouble) -> None:
        self.epoch = 0
        self._look = 0
        self._claims.close()
        self.tender.lose(why)
        self._wish(Stage.FORGETTING, Wish.FOLLOW)

    def _follows(self, recorded: WishRecorded) -> None:
        if self._recorder.landed(recorded.serial):
            self._to(Stage.FOLLOWER)
            self._tell(self._down, LakeVerdict.DONE, "this home follows")

    # --- the record ---------------------------------------------------------------------------

    def _wish(self, stage: Stage, wish: Wish, over: Epoch = 0, *, flush: bool = False) -> None:
        self._to(stage)
        self._recorder.wish(self.now, wish, over, flush=flush)

    def _tick_recording(self, tick: Tick) -> None:
        self._recorder.tick(self.now)
        self._tick(tick)

    def _record_later(self, failed: WishNotRecorded) -> None:
        self._recorder.failed(self.now, failed.serial)

    def _outdated(self, _: WishOutdated) -> None:
        self._end(KeeperOver())

    def _end(self, _: KeeperOver) -> None:
        self._claims.close()
        self._tell(self._up, LakeVerdict.UNKNOWN, ENDED.what, ENDED.hint)
        self._tell(self._down, LakeVerdict.UNKNOWN, ENDED.what, ENDED.hint)
        self.tender.end(ENDED)
        self.epoch = 0
        self._to(Stage.ENDED)

    def _answer_ended(self, verb: LakeVerb) -> None:
        self.emit(LakeAnswer(verb.request, LakeVerdict.REFUSED, ENDED.what, ENDED.hint))

    # --- tables -------------------------------------------------------------------------------

    def _tick(self, _: Tick) -> None:
        self.tender.surveys.tick(self.now)
        self.tender.tick(by_policy=False)

    def _tick_leading(self, _: Tick) -> None:
        self.tender.surveys.tick(self.now)
        self.tender.tick(by_policy=True)

    def _ask_for_work(self, verb: DrainTable | DropTable) -> None:
        if self.stage in TAKES_WORK:
            self.tender.surveys.ask_for(self.now, verb)
        else:
            why = NOT_LEADER[self.role]
            self.emit(LakeAnswer(verb.request, LakeVerdict.REFUSED, why.what, why.hint))

    def _surveyed(self, surveyed: LakeSurveyed) -> None:
        asked = self.tender.surveys.answered(surveyed.number)
        self._see_leader(surveyed.leader)
        if self.tender.token != NO_TOKEN and self.leader.epoch > self.epoch:
            self._lose()
        for verb in self.tender.look(asked, surveyed):
            if isinstance(verb, StepUp):
                (self._is_so_already if self.stage is Stage.LEADER else self._join_step_up)(verb)
            elif self.stage in TAKES_WORK:
                self.tender.decide(verb)
            else:
                self._ask_for_work(verb)

    def _survey_failed(self, failed: SurveyFailed) -> None:
        asked = self.tender.surveys.answered(failed.number)
        if asked is None:
            return
        self.tender.cannot_look(asked, failed)

    def _work_ended(self, ended: WorkEnded) -> None:
        self.tender.ended(ended)
