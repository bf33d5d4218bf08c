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
people may ask, `asides` for what is asked without being done.
"""

from collections.abc import Callable

from lockgate.core.move.asides import Asides
from lockgate.core.move.callers import Callers
from lockgate.core.move.changes import (
    called_off,
    closed,
    current,
    finished,
    giving,
    is_acting,
    opened,
    other_first,
    troubled,
    turned,
    undone,
)
from lockgate.core.move.plans import HELD_UP, Refusal, is_before_seal, refusal
from lockgate.core.move.requests import joined, outcome, request_of
from lockgate.core.move.rules import Meanwhile, judge, meanwhile, no_giving_up
from lockgate.core.move.stages import TABLE, Stage
from lockgate.core.move.words import (
    CANCELLED,
    ENDED,
    LOOKED_AT,
    LOST,
    UNKNOWN_TROUBLE,
    late,
)
from lockgate.core.recorder import Recorder
from lockgate.model.ids import Millis
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
from lockgate.model.move_instructions import MoveVerdict, RecordMove, RunStep, StopStep
from lockgate.model.moves import MoveOrder, MoveRecord, MoveSettings, MoveTrouble, Step

__all__ = ["MoveKeeper"]

BACKOFF_DOUBLINGS_MAX = 20


class MoveKeeper(Asides):
    """One life of the one that works for a move.

    `now` is the metastore's time as the node reckons it, going on evenly: steps are shown with it.
    """

    TABLE = TABLE

    def __init__(self, settings: MoveSettings, record: MoveRecord) -> None:
        """`record` is what former keepers left, made this one's own (`model.moves.begun`)."""
        stage = Stage.RESTING if record.ended else Stage.RESUMING
        super().__init__(f"move {record.move}, keeper {record.keeper}", stage)
        self._settings = settings
        self._recorder = Recorder(
            record, record.serial, settings.retry_ms, lambda new: self.emit(RecordMove(new))
        )
        self._then: Callable[[], None] | None = None
        """What goes on when the last record is durable."""
        self._number = 0
        """Of the last attempt at a step."""
        self._failures = 0
        """Of the step that acts, one after the other."""
        self._again_at: Millis = 0
        self._late_at: Millis | None = None
        """When a flip is given up. None: never, because there is none, or its seal may be on."""
        self._callers = Callers(self.emit)
        self._next: MoveOrder | None = None
        """Begins when the step that acts has ended."""

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
        if self._is_known(asked):
            return
        judgement = judge(self.record, asked.order)
        if judgement is not None:
            self._callers.answer(asked.request, judgement.verdict, judgement.why)
        elif asked.dry:
            self._begin_dry(asked)
        else:
            self._callers.add(asked.request)
            self._begin(self.record, asked.order)

    def _begin(self, record: MoveRecord, order: MoveOrder) -> None:
        """Have it recorded that this command is under way; then go."""
        record = joined(opened(record, order, self.now), self._callers.unbegun)
        # The check has its time, too: nobody waits for ever to be told that it cannot begin.
        flips = is_before_seal(current(record).step)
        self._late_at = self.now + order.check_ms if flips else None
        self._note(record, self._go)

    def _is_known(self, asked: MoveCommand) -> bool:
        """True: it was asked before under this name, and is told what came of it."""
        known = request_of(self.record, asked.request)
        if known is None:
            return False
        if known.verdict is MoveVerdict.BEGUN:
            self._callers.again(asked.request)
        else:
            self._callers.answer(asked.request, known.verdict, known.why)
        return True

    def _command_meanwhile(self, asked: MoveCommand) -> None:
        if self._is_known(asked):
            return
        what, why = meanwhile(self.record, asked.order)
        rests = self.stage in {Stage.STUCK, Stage.RESUMING}
        if asked.dry or what is Meanwhile.BUSY:
            self._callers.answer(asked.request, MoveVerdict.BUSY, why)
        elif (no := no_giving_up(self.record, asked.order)) is not None:
            self._callers.answer(asked.request, MoveVerdict.REFUSED, no)
        elif self._look is not None and what is not Meanwhile.JOIN:
            self._callers.answer(asked.request, MoveVerdict.BUSY, LOOKED_AT)
        elif what is Meanwhile.SUPERSEDE:
            self._supersede(asked)
        elif self._next is not None:
            self._callers.answer(asked.request, MoveVerdict.BUSY, CANCELLED)
        elif what is Meanwhile.GIVE_UP:
            self._give_up_when_gone(asked)
        elif what is Meanwhile.JOIN:
            self._put(self._joined(asked, self.record))
            self._try_at_once()
        elif rests:
            record = self.record.changed(order=asked.order, stuck=False)
            self._note(self._joined(asked, record), self._go)
        else:
            self._callers.answer(asked.request, MoveVerdict.BUSY, why)

    def _joined(self, asked: MoveCommand, record: MoveRecord) -> MoveRecord:
        """The record with their name: once it is durable, they are told that it has begun."""
        self._callers.add(asked.request)
        return joined(record, self._callers.unbegun)

    def _try_at_once(self) -> None:
        """Somebody has acted, or thinks so."""
        if self.stage is Stage.STUCK:
            self._note(self.record.changed(stuck=False), self._go)
        elif self.stage is Stage.WAITING:
            self._run()

    def _supersede(self, asked: MoveCommand) -> None:
        """This command instead of the one that is under way, whose step is waited for."""
        if self._next is not None:
            self._callers.add(asked.request)
            return
        self._callers.tell(MoveVerdict.REFUSED, CANCELLED)
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
        elif record.undoing:
            self._undo()
        elif is_before_seal(current(record).step):
            self._turn(LOST)
        else:
            self._run()

    def _go(self) -> None:
        """What the record says is about to act, acts."""
        self._failures = 0
        if not is_acting(self.record):
            self._close()
        elif self.record.undoing:
            self._undo()
        else:
            self._run()

    def _run(self) -> None:
        if self._look is not None:
            self._ask_look(self._look)
            return
        step = current(self.record).step
        self._emit_step(step, undo=False)
        if step is Step.SEAL:
            self._late_at = None  # from now on the giving side alone knows whether it is too late
        self._to(Stage.RUNNING)

    def _emit_step(self, step: Step, *, undo: bool) -> None:
        self._number += 1
        left = 0 if self._late_at is None else max(1, self._late_at - self.now)
        record = self.record
        self.emit(
            RunStep(
                self._number,
                step,
                record.keeper,
                giving(record),
                record.order,
                record.facts,
                left,
                undo=undo,
            )
        )

    def _step_ended(self, ended: StepEnded) -> None:
        if ended.number != self._number:
            return
        match ended.outcome:
            case StepOutcome.DONE:
                self._step_done(ended)
            case StepOutcome.FAILED:
                self._wait(Stage.WAITING, ended.trouble, stuck=False)
            case StepOutcome.REFUSED:
                self._refused(ended)
            case StepOutcome.STALE:
                self._end(MoveKeeperOver())

    def _step_done(self, ended: StepEnded) -> None:
        record, timed = finished(self.record, ended.facts, ended.detail, self.now)
        if timed:
            self._late_at = self.now + record.order.timeout_ms
        self._note(record, self._go)

    def _refused(self, ended: StepEnded) -> None:
        trouble = ended.trouble or UNKNOWN_TROUBLE
        match refusal(self.record.order.command, ended.step):
            case Refusal.LEAVE:
                self._late_at = None
                self._note(closed(self.record.changed(trouble=trouble), self.now), self._go)
            case Refusal.UNDO:
                self._turn(trouble)
            case Refusal.PRESS_ON:
                self._wait(Stage.WAITING, trouble, stuck=True)
            case Refusal.WAIT:
                self._wait(Stage.STUCK, trouble, stuck=True)

    def _wait(self, stage: Stage, trouble: MoveTrouble | None, *, stuck: bool) -> None:
        """It is tried again after a while. People see why; nobody waits for that to be durable."""
        record = troubled(self.record, trouble or UNKNOWN_TROUBLE, stuck=stuck)
        if record != self.record:
            self._note(record, None)
        settings = self._settings
        held_up = current(record).step in HELD_UP
        longest = settings.backoff_ms_held_up if held_up else settings.backoff_ms_max
        doublings = min(self._failures, BACKOFF_DOUBLINGS_MAX)
        self._again_at = self.now + min(longest, settings.backoff_ms_min << doublings)
        self._failures += 1
        self._to(stage)

    def _close(self) -> None:
        """The command is over, durably."""
        self._to(Stage.RESTING)
        self._callers.tell(*outcome(self.record))
        if self._look is not None:
            asked, self._look = self._look, None
            self._command(asked)

    # --- back ---------------------------------------------------------------------------------

    def _is_late(self) -> bool:
        return self._late_at is not None and self.now >= self._late_at

    def _give_up(self) -> None:
        record = self.record
        step = current(record).step
        self._turn(late(record.order, step, record.trouble))

    def _turn(self, trouble: MoveTrouble) -> None:
        """Put the flip back. The seal is not on, and by this keeper it never will be."""
        self._late_at = None
        self._note(turned(self.record, trouble, self.now), self._go)

    def _undo(self) -> None:
        self._emit_step(current(self.record).step, undo=True)
        self._to(Stage.UNDOING)

    def _undo_ended(self, ended: StepEnded) -> None:
        if ended.number != self._number:
            return
        match ended.outcome:
            case StepOutcome.DONE:
                self._note(undone(self.record, ended.detail, self.now), self._go)
            case StepOutcome.STALE:
                self._end(MoveKeeperOver())
            case _:
                stuck = ended.outcome is StepOutcome.REFUSED
                self._wait(Stage.UNDO_WAITING, ended.trouble, stuck=stuck)

    def _stop(self) -> None:
        self.emit(StopStep(self._number))
        self._to(Stage.STOPPING)

    def _stopped(self, ended: StepEnded) -> None:
        if ended.number != self._number:
            return
        if ended.outcome is StepOutcome.STALE:
            self._end(MoveKeeperOver())
            return
        if self._look is not None:
            done = ended.outcome is StepOutcome.DONE
            self._step_done(ended) if done else self._run()
            return
        record = called_off(self.record, ended.facts)
        if self._next is not None:
            order, self._next = self._next, None
            self._begin(record, order)
            return
        trouble = late(record.order, current(record).step, ended.trouble or record.trouble)
        self._note(turned(record, trouble, self.now), self._go)

    # --- the record ---------------------------------------------------------------------------

    def _note(self, record: MoveRecord, then: Callable[[], None] | None) -> None:
        """Have this durable, and only then go on."""
        self._then = then
        if then is not None:
            self._to(Stage.NOTING)
        self._put(record)

    def _go_on_with(self, record: MoveRecord) -> None:
        self._note(record, self._go)

    def _put(self, record: MoveRecord) -> None:
        self._recorder.put(self.now, lambda serial: record.changed(serial=serial))

    def _recorded(self, recorded: MoveRecorded) -> None:
        if not self._recorder.landed(recorded.serial):
            return
        self._callers.tell_begun(self.record)
        then, self._then = self._then, None
        assert then is not None, "a record that is waited for leads to something"
        then()

    def _told_recorded(self, recorded: MoveRecorded) -> None:
        if self._recorder.landed(recorded.serial):
            self._callers.tell_begun(self.record)

    def _record_later(self, failed: MoveNotRecorded) -> None:
        self._recorder.failed(self.now, failed.serial)

    # --- time ---------------------------------------------------------------------------------

    def _tick(self, _: Tick) -> None:
        self._recorder.tick(self.now)

    def _tick_noting(self, _: Tick) -> None:
        if self._is_late():
            self._give_up()
        else:
            self._recorder.tick(self.now)

    def _tick_running(self, _: Tick) -> None:
        self._recorder.tick(self.now)
        if self._is_late():
            self._late_at = None
            self._stop()

    def _tick_waiting(self, _: Tick) -> None:
        self._recorder.tick(self.now)
        if self._is_late():
            self._give_up()
        elif self.now >= self._again_at:
            self._run()

    def _tick_undo_waiting(self, _: Tick) -> None:
        self._recorder.tick(self.now)
        if self.now < self._again_at:
            return
        record = other_first(self.record)
        if record != self.record:
            self._note(record, self._go)
        else:
            self._undo()

    # --- the end ------------------------------------------------------------------------------

    def _outdated(self, _: MoveOutdated) -> None:
        self._end(MoveKeeperOver())

    def _end(self, _: MoveKeeperOver) -> None:
        """Another keeper works for the move, or will. What acts is told that nobody waits."""
        if self.stage in {Stage.RUNNING, Stage.UNDOING, Stage.DRYING, Stage.LOOKING}:
            self.emit(StopStep(self._number))
        self._callers.tell(MoveVerdict.UNKNOWN, ENDED)
        self._end_asides()
        self._then = self._next = None
        self._to(Stage.ENDED)

    def _answer_ended(self, asked: MoveCommand) -> None:
        self._callers.answer(asked.request, MoveVerdict.REFUSED, ENDED)
