"""A dry run: the steps of a command one after the other, each asked what it would do.

It goes by the same plan and through the same executor, and nothing is recorded, because nothing
is done. The first step that would not succeed ends it.
"""

from lockgate.core.move.plans import PLANS
from lockgate.core.move.words import UNKNOWN_TROUBLE, flip_detail
from lockgate.model.ids import Millis
from lockgate.model.move_events import MoveCommand, StepEnded, StepOutcome
from lockgate.model.move_instructions import MoveAnswer, MoveVerdict, RunStep
from lockgate.model.moves import MoveRecord, MoveTrouble, Step

__all__ = ["DryRun"]


class DryRun:
    """One, for one person, of a move at rest."""

    def __init__(self, asked: MoveCommand, record: MoveRecord, now: Millis) -> None:
        self._asked = asked
        self._record = record
        self._late_at: Millis = now + asked.order.check_ms
        self._left = list(PLANS[asked.order.command])
        self._told: list[tuple[Step, str]] = []

    def ask(self, number: int, now: Millis) -> RunStep | None:
        """The next step, to be asked as this attempt; None: all were."""
        # At rest: the steps in the record are of a command that is over.
        side = self._record.traffic
        if self._left and self._left[0] is Step.FLIP:
            self._told.append((self._left.pop(0), flip_detail(side)))
        if not self._left:
            return None
        record, left = self._record, max(1, self._late_at - now)
        order, step = self._asked.order, self._left[0]
        return RunStep(number, step, record.keeper, side, order, record.facts, left, dry=True)

    def is_late(self, now: Millis) -> bool:
        """It is time to have the step stopped, again and again until it ends."""
        if now < self._late_at:
            return False
        self._late_at = now + self._asked.order.check_ms
        return True

    def take(self, ended: StepEnded) -> MoveAnswer | None:
        """What a step would do. An answer, when it would not succeed."""
        if ended.outcome is StepOutcome.DONE:
            self._told.append((self._left.pop(0), ended.detail))
            return None
        trouble = ended.trouble or UNKNOWN_TROUBLE
        what = f"{ended.step.value}: {trouble.what}"
        return self.answer(MoveVerdict.REFUSED, MoveTrouble(what, trouble.hint))

    def answer(self, verdict: MoveVerdict, why: MoveTrouble) -> MoveAnswer:
        """What is told, with as many steps as were asked."""
        return MoveAnswer(self._asked.request, verdict, why.what, why.hint, tuple(self._told))
