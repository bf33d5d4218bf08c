"""The keeper of a move: one at a time works for it, step by step, and what it does is recorded.

A record says what acts *before* it acts. So whoever comes after a keeper that was lost knows all
that may be half done, and there are three cases only:

    a flip before its seal     undone: the giving side's guard would not have held anyway
    the seal itself            asked once more at the giving side, and gone by what it says
    all the rest               taken up where it was

A keeper has a number, which the metastore and both sides compare with the last one they saw. Told
by any of them that it is not the newest, it is over from that moment, and claims nothing.

Writers are held up from the hook, or the guard, to the end of a flip. The time that this may take
is counted here as well as at the giving side; the side's clock is the one that decides.

See `stages` for the way through, `plans` for the steps, `changes` for the record, `rules` for what
people may ask, `dry` for what is asked without being done, `attempts` for time.
"""

from lockgate.core.machine import StateMachine
from lockgate.core.move import changes, words
from lockgate.core.move.attempts import Attempts
from lockgate.core.move.callers import Callers
from lockgate.core.move.dry import DryRun, look
from lockgate.core.move.plans import Refusal, is_before_seal, refusal
from lockgate.core.move.recorder import MoveRecorder
from lockgate.core.move.requests import outcome
from lockgate.core.move.rules import Meanwhile, judge, meanwhile, no_giving_up
from lockgate.core.move.stages import TABLE, Stage
from lockgate.model.move_events import (
    MoveCommand,
    MoveKeeperOver,
    MoveNotRecorded,
    MoveOutdated,
    MoveRecorded,
    StepEnded,
    StepOutcome,
    Tick,
)
from lockgate.model.move_instructions import MoveAnswer, MoveInstruction, MoveVerdict, StopStep
from lockgate.model.moves import MoveOrder, MoveRecord, MoveSettings, MoveTrouble, Step

__all__ = ["MoveKeeper"]


class MoveKeeper(StateMachine[MoveInstruction]):
    """One life of the one that works for a move.

    `now` is the metastore's time as the node reckons it, going on evenly: steps are shown with it.
    """

    TABLE = TABLE

    def __init__(self, settings: MoveSettings, record: MoveRecord) -> None:
        """`record` is what former keepers left, made this one's own (`model.moves.begun`)."""
        stage = Stage.RESTING if record.ended else Stage.RESUMING
        super().__init__(f"move {record.move}, keeper {record.keeper}", stage)
        self._recorder = MoveRecorder(record, settings.retry_ms, self.emit)
        self._attempts = Attempts(settings)
        self._callers = Callers(self.emit)
        self._next: MoveOrder | None = None
        """Begins when the step that acts has ended."""
        self._dry: DryRun | None = None
        self._look: MoveCommand | None = None
        """Somebody wants the command that is under way to go on without a side."""

    # --- for others ---------------------------------------------------------------------------

    @property
    def stage(self) -> Stage:
        assert isinstance(self.state, Stage)
        return self.state

    @property
    def record(self) -> MoveRecord:
        """What is so, or is about to be recorded."""
        return self._recorder.record

    def _to(self, stage: Stage) -> None:
        self.state = stage

    # --- people -------------------------------------------------------------------------------

    def _command(self, asked: MoveCommand) -> None:
        if self._callers.know(asked.request, self.record):
            return
        if (no := judge(self.record, asked.order)) is not None:
            self._callers.answer(asked.request, no.verdict, no.why)
        elif asked.dry:
            self._begin_dry(asked)
        else:
            self._callers.add(asked.request)
            self._begin(self.record, asked.order)

    def _begin(self, record: MoveRecord, order: MoveOrder) -> None:
        """Have it recorded that this command is under way; then go."""
        record = self._callers.named(changes.opened(record, order, self.now))
        # The check has its time, too: nobody waits for ever to be told that it cannot begin.
        flips = is_before_seal(changes.current(record).step)
        self._attempts.late_at = self.now + order.check_ms if flips else None
        self._note(record)

    def _command_meanwhile(self, asked: MoveCommand) -> None:
        if self._callers.know(asked.request, self.record):
            return
        what, why = meanwhile(self.record, asked.order, self._next)
        if asked.dry or what is Meanwhile.BUSY:
            self._callers.answer(asked.request, MoveVerdict.BUSY, why)
        elif (no := no_giving_up(self.record, asked.order)) is not None:
            self._callers.answer(asked.request, MoveVerdict.REFUSED, no)
        elif self._look is not None and what is not Meanwhile.JOIN:
            self._callers.answer(asked.request, MoveVerdict.BUSY, words.LOOKED_AT)
        elif what is Meanwhile.SUPERSEDE and self._next is None:
            self._supersede(asked)
        elif what is Meanwhile.SUPERSEDE:
            self._callers.add(asked.request)
        elif self._next is not None:
            self._callers.answer(asked.request, MoveVerdict.BUSY, words.CANCELLED)
        elif what is Meanwhile.GIVE_UP:
            self._give_up_when_gone(asked)
        elif what is Meanwhile.JOIN:
            self._join(asked)
        elif self.stage in {Stage.STUCK, Stage.RESUMING}:
            record = self.record.changed(order=asked.order, stuck=False)
            self._note(self._callers.join(asked.request, record))
        else:
            self._callers.answer(asked.request, MoveVerdict.BUSY, why)

    def _join(self, asked: MoveCommand) -> None:
        """The command is theirs, too. It is tried at once: they have acted, or think so."""
        self._recorder.note(self.now, self._callers.join(asked.request, self.record))
        if self.stage is Stage.STUCK:
            self._note(self.record.changed(stuck=False))
        elif self.stage is Stage.WAITING:
            self._run()

    def _supersede(self, asked: MoveCommand) -> None:
        """This command instead of the one that is under way, whose step is waited for."""
        self._callers.tell(MoveVerdict.REFUSED, words.CANCELLED)
        self._callers.add(asked.request)
        if self.stage is Stage.RUNNING:
            self._next = asked.order
            self._stop()
        else:
            self._begin(self.record, asked.order)

    def _give_up_when_gone(self, asked: MoveCommand) -> None:
        """Look at the side as soon as nothing acts."""
        self._look = asked
        if self.stage in {Stage.STUCK, Stage.WAITING}:
            self._run()
        elif self.stage is Stage.RUNNING:
            self._stop()

    # --- forward ------------------------------------------------------------------------------

    def _resume(self, _: Tick) -> None:
        """Go on from what the one before has left."""
        record = self.record
        if not record.steps:
            self._begin(record, record.order)
        elif not record.undoing and is_before_seal(changes.current(record).step):
            self._turn(record, words.LOST)
        else:
            self._go()

    def _go(self) -> None:
        """What the record says is about to act, acts."""
        self._attempts.afresh()
        if not changes.is_acting(self.record):
            self._close()
        elif self.record.undoing:
            self._undo()
        else:
            self._run()

    def _run(self) -> None:
        if self._look is not None:
            self._ask_look(self._look)
            return
        begun = self._attempts.begin(self.record, self.now)
        self.emit(begun)
        if begun.step is Step.SEAL:
            # From now on the giving side alone knows whether it is too late.
            self._attempts.late_at = None
        self._to(Stage.RUNNING)

    def _hears(self, ended: StepEnded) -> bool:
        """It is the end of the last attempt. False also when a side told that of a later keeper:
        then this one is over."""
        if ended.number != self._attempts.number:
            return False
        if ended.outcome is StepOutcome.STALE:
            self._end(ended)
            return False
        return True

    def _step_ended(self, ended: StepEnded) -> None:
        if not self._hears(ended):
            return
        match ended.outcome:
            case StepOutcome.DONE:
                self._step_done(ended)
            case StepOutcome.FAILED:
                self._wait(Stage.WAITING, ended.trouble, stuck=False)
            case StepOutcome.REFUSED:
                self._refused(ended)

    def _step_done(self, ended: StepEnded) -> None:
        record, timed = changes.finished(self.record, ended.facts, ended.detail, self.now)
        if timed:
            self._attempts.late_at = self.now + record.order.timeout_ms
        self._note(record)

    def _refused(self, ended: StepEnded) -> None:
        trouble = ended.trouble or words.UNKNOWN_TROUBLE
        unfinished = self.record.facts.unfinished
        match refusal(self.record.order.command, ended.step, unfinished=unfinished):
            case Refusal.LEAVE:
                self._attempts.late_at = None
                self._note(changes.closed(self.record.changed(trouble=trouble), self.now))
            case Refusal.UNDO:
                self._turn(self.record, trouble)
            case Refusal.PRESS_ON:
                self._wait(Stage.WAITING, trouble, stuck=True)
            case Refusal.WAIT:
                self._wait(Stage.STUCK, trouble, stuck=True)

    def _wait(self, stage: Stage, trouble: MoveTrouble | None, *, stuck: bool) -> None:
        """It is tried again after a while. People see why; nobody waits for that to be durable."""
        record = changes.troubled(self.record, trouble or words.UNKNOWN_TROUBLE, stuck=stuck)
        if record != self.record:
            self._recorder.note(self.now, record)
        self._attempts.failed(record, self.now)
        self._to(stage)

    def _close(self) -> None:
        """The command is over, durably."""
        self._to(Stage.RESTING)
        self._callers.tell(*outcome(self.record))
        asked, self._look = self._look, None
        if asked is not None:
            self._command(asked)

    # --- back ---------------------------------------------------------------------------------

    def _turn(self, record: MoveRecord, trouble: MoveTrouble) -> None:
        """Put the flip back. The seal is not on, and by this keeper it never will be."""
        self._attempts.late_at = None
        self._note(changes.turned(record, trouble, self.now))

    def _turn_late(self, record: MoveRecord, held_up_by: MoveTrouble | None) -> None:
        step = changes.current(record).step
        self._turn(record, words.late(record.order, step, held_up_by))

    def _undo(self) -> None:
        self.emit(self._attempts.begin(self.record, self.now, undo=True))
        self._to(Stage.UNDOING)

    def _undo_ended(self, ended: StepEnded) -> None:
        if not self._hears(ended):
            return
        if ended.outcome is StepOutcome.DONE:
            self._note(changes.undone(self.record, ended.detail, self.now))
        else:
            stuck = ended.outcome is StepOutcome.REFUSED
            self._wait(Stage.UNDO_WAITING, ended.trouble, stuck=stuck)

    def _stop(self) -> None:
        self.emit(StopStep(self._attempts.number))
        self._to(Stage.STOPPING)

    def _stopped(self, ended: StepEnded) -> None:
        if not self._hears(ended):
            return
        record = changes.called_off(self.record, ended.facts)
        if self._look is not None:
            done = ended.outcome is StepOutcome.DONE
            self._step_done(ended) if done else self._run()
        elif self._next is not None:
            order, self._next = self._next, None
            self._begin(record, order)
        else:
            self._turn_late(record, ended.trouble or record.trouble)

    # --- dry runs -----------------------------------------------------------------------------

    def _begin_dry(self, asked: MoveCommand) -> None:
        self._dry = DryRun(asked, self.record, self._attempts, self.now)
        self._go_on_dry(self._dry.ask(self.now))

    def _dry_ended(self, ended: StepEnded) -> None:
        if self._dry is not None and self._hears(ended):
            self._go_on_dry(self._dry.take(ended, self.now))

    def _go_on_dry(self, what: MoveInstruction) -> None:
        if isinstance(what, MoveAnswer):
            self._dry = None
        self._to(Stage.RESTING if self._dry is None else Stage.DRYING)
        self.emit(what)

    def _tick_drying(self, _: Tick) -> None:
        if self._dry is not None and self._dry.is_late(self.now):
            self.emit(StopStep(self._attempts.number))

    def _busy_drying(self, asked: MoveCommand) -> None:
        self._callers.answer(asked.request, MoveVerdict.BUSY, words.DRY_RUN)

    # --- looks --------------------------------------------------------------------------------

    def _ask_look(self, asked: MoveCommand) -> None:
        self._to(Stage.LOOKING)
        self.emit(look(self.record, asked.order, self._attempts))

    def _look_ended(self, ended: StepEnded) -> None:
        if self._look is None or not self._hears(ended):
            return
        asked, self._look = self._look, None
        if ended.outcome is StepOutcome.DONE:
            self._give_up_side(asked, ended.detail)
        else:
            trouble = ended.trouble or words.UNKNOWN_TROUBLE
            self._callers.answer(asked.request, MoveVerdict.REFUSED, trouble)
            self._run()

    def _give_up_side(self, asked: MoveCommand, found: str) -> None:
        """The side is gone: that it is given up is recorded before anything goes by it."""
        if asked.order.command is not self.record.order.command:
            self._callers.tell(MoveVerdict.REFUSED, words.CANCELLED)
        record = changes.without(self.record, asked.order, found, self.now)
        self._note(self._callers.join(asked.request, record))

    # --- the record ---------------------------------------------------------------------------

    def _note(self, record: MoveRecord) -> None:
        """Have this durable, and only then do what it says acts."""
        self._to(Stage.NOTING)
        self._recorder.note(self.now, record)

    def _recorded(self, recorded: MoveRecorded) -> None:
        if self._recorder.landed(recorded.serial):
            self._callers.tell_begun(self.record)
            self._go()

    def _told_recorded(self, recorded: MoveRecorded) -> None:
        if self._recorder.landed(recorded.serial):
            self._callers.tell_begun(self.record)

    def _record_later(self, failed: MoveNotRecorded) -> None:
        self._recorder.failed(self.now, failed.serial)

    # --- time ---------------------------------------------------------------------------------

    def _tick(self, _: Tick) -> None:
        self._recorder.tick(self.now)

    def _tick_noting(self, tick: Tick) -> None:
        if self._attempts.is_late(self.now):
            self._turn_late(self.record, self.record.trouble)
        else:
            self._tick(tick)

    def _tick_running(self, tick: Tick) -> None:
        self._tick(tick)
        if self._attempts.is_late(self.now):
            self._attempts.late_at = None
            self._stop()

    def _tick_waiting(self, tick: Tick) -> None:
        self._tick(tick)
        if self._attempts.is_late(self.now):
            self._turn_late(self.record, self.record.trouble)
        elif self._attempts.is_due(self.now):
            self._run()

    def _tick_undo_waiting(self, tick: Tick) -> None:
        self._tick(tick)
        if not self._attempts.is_due(self.now):
            return
        if (other := changes.other_first(self.record)) is not None:
            self._note(other)
        else:
            self._undo()

    # --- the end ------------------------------------------------------------------------------

    def _end(self, _: MoveKeeperOver | MoveOutdated | StepEnded) -> None:
        """Another keeper works for the move, or will. What acts is told that nobody waits."""
        if self.stage in {Stage.RUNNING, Stage.UNDOING, Stage.DRYING, Stage.LOOKING}:
            self.emit(StopStep(self._attempts.number))
        self._callers.tell(MoveVerdict.UNKNOWN, words.ENDED)
        if self._dry is not None:
            self.emit(self._dry.answer(MoveVerdict.UNKNOWN, words.ENDED))
        if self._look is not None:
            self._callers.answer(self._look.request, MoveVerdict.UNKNOWN, words.ENDED)
        self._dry = self._look = self._next = None
        self._to(Stage.ENDED)

    def _answer_ended(self, asked: MoveCommand) -> None:
        self._callers.answer(asked.request, MoveVerdict.REFUSED, words.ENDED)
