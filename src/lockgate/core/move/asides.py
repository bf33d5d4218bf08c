"""What a keeper asks beside its plan: steps that change nothing, and of which nothing is recorded.

dry runs    every step of a plan is asked what it would do (`dry`)
looks       before a command that is under way goes on without a side, its check is asked once more
            whether that side is gone. Until it has said so, nothing is different: whoever is lost
            in between has given nothing up, and a side that answers is drained as it was to be

A look waits for the step that acts to end. What that has done counts.
"""

from lockgate.core.machine import StateMachine
from lockgate.core.move.callers import Callers
from lockgate.core.move.changes import finished, giving, opened
from lockgate.core.move.dry import DryRun
from lockgate.core.move.plans import PLANS
from lockgate.core.move.requests import joined
from lockgate.core.move.stages import Stage
from lockgate.core.move.words import CANCELLED, DRY_DONE, DRY_RUN, ENDED, UNKNOWN_TROUBLE
from lockgate.model.move_events import MoveCommand, MoveKeeperOver, StepEnded, StepOutcome, Tick
from lockgate.model.move_instructions import (
    MoveAnswer,
    MoveInstruction,
    MoveVerdict,
    RunStep,
    StopStep,
)
from lockgate.model.moves import MoveRecord

__all__ = ["Asides"]


class Asides(StateMachine[MoveInstruction]):
    """The part of a keeper that asks them."""

    _number: int
    """Of the last attempt at a step."""
    _callers: Callers
    _dry: DryRun | None = None
    _look: MoveCommand | None = None
    """Somebody wants the command that is under way to go on without a side."""

    # --- the keeper's -------------------------------------------------------------------------

    @property
    def record(self) -> MoveRecord:
        raise NotImplementedError

    def _to(self, stage: Stage) -> None:
        raise NotImplementedError

    def _go_on_with(self, record: MoveRecord) -> None:
        """Have it durable, then do what it says acts."""
        raise NotImplementedError

    def _run(self) -> None:
        raise NotImplementedError

    def _end(self, over: MoveKeeperOver) -> None:
        raise NotImplementedError

    # --- dry runs -----------------------------------------------------------------------------

    def _begin_dry(self, asked: MoveCommand) -> None:
        self._dry = DryRun(asked, self.record, self.now)
        self._ask_dry(self._dry)

    def _ask_dry(self, dry: DryRun) -> None:
        self._number += 1
        step = dry.ask(self._number, self.now)
        if step is not None:
            self._to(Stage.DRYING)
            self.emit(step)
        else:
            self._end_dry(dry.answer(MoveVerdict.DONE, DRY_DONE))

    def _dry_ended(self, ended: StepEnded) -> None:
        dry = self._dry
        if dry is None or ended.number != self._number:
            return
        if ended.outcome is StepOutcome.STALE:
            self._end(MoveKeeperOver())
        elif (answer := dry.take(ended)) is not None:
            self._end_dry(answer)
        else:
            self._ask_dry(dry)

    def _end_dry(self, answer: MoveAnswer) -> None:
        self._dry = None
        self._to(Stage.RESTING)
        self.emit(answer)

    def _tick_drying(self, _: Tick) -> None:
        if self._dry is not None and self._dry.is_late(self.now):
            self.emit(StopStep(self._number))

    def _busy_drying(self, asked: MoveCommand) -> None:
        self._callers.answer(asked.request, MoveVerdict.BUSY, DRY_RUN)

    # --- looks --------------------------------------------------------------------------------

    def _ask_look(self, look: MoveCommand) -> None:
        """As the check of the command that is wanted, which knows what to look at."""
        self._number += 1
        record, order = self.record, look.order
        step, left = PLANS[order.command][0], order.check_ms
        self._to(Stage.LOOKING)
        self.emit(
            RunStep(
                self._number,
                step,
                record.keeper,
                giving(record),
                order,
                record.facts,
                left,
                dry=True,
            )
        )

    def _look_ended(self, ended: StepEnded) -> None:
        look = self._look
        if look is None or ended.number != self._number:
            return
        if ended.outcome is StepOutcome.STALE:
            self._end(MoveKeeperOver())
            return
        self._look = None
        if ended.outcome is StepOutcome.DONE:
            self._give_up_side(look, ended.detail)
        else:
            trouble = ended.trouble or UNKNOWN_TROUBLE
            self._callers.answer(look.request, MoveVerdict.REFUSED, trouble)
            self._run()

    def _give_up_side(self, look: MoveCommand, found: str) -> None:
        """The side is gone: that it is given up is recorded before anything goes by it."""
        record, order = self.record, look.order
        if record.order.command is order.command:
            record = record.changed(order=order, trouble=None, stuck=False)
        else:
            # Its check is the look: asked again it might refuse, and nobody would be left who
            # works for the command that was under way.
            self._callers.tell(MoveVerdict.REFUSED, CANCELLED)
            record, _ = finished(opened(record, order, self.now), None, found, self.now)
        self._callers.add(look.request)
        self._go_on_with(joined(record, self._callers.unbegun))

    # --- the end ------------------------------------------------------------------------------

    def _end_asides(self) -> None:
        """Whoever waits for one is told that nobody knows."""
        if self._dry is not None:
            self.emit(self._dry.answer(MoveVerdict.UNKNOWN, ENDED))
        if self._look is not None:
            self._callers.answer(self._look.request, MoveVerdict.UNKNOWN, ENDED)
        self._dry = self._look = None
