"""Steps that are asked what they would do. They go through the same executor as those that act, and
nothing is recorded of them, because nothing is done.

dry runs    the steps of a command one after the other, by the same plan. The first one that would
            not succeed ends it
looks       before a command that is under way goes on without a side, its check is asked once more
            whether that side is gone. Until it has said so, nothing is different: whoever is lost
            in between has given nothing up, and a side that answers is drained as it was to be

A look waits for the step that acts to end. What that has done counts.
"""

from lockgate.core.move.attempts import Attempts
from lockgate.core.move.changes import giving
from lockgate.core.move.plans import PLANS
from lockgate.core.move.words import DRY_DONE, UNKNOWN_TROUBLE, flip_detail
from lockgate.model.ids import Millis
from lockgate.model.move_events import MoveCommand, StepEnded, StepOutcome
from lockgate.model.move_instructions import MoveAnswer, MoveVerdict, RunStep
from lockgate.model.moves import MoveOrder, MoveRecord, MoveTrouble, Step

__all__ = ["DryRun", "look"]


class DryRun:
    """For one person, of a move at rest."""

    def __init__(
        self, asked: MoveCommand, record: MoveRecord, attempts: Attempts, now: Millis
    ) -> None:
        self._asked = asked
        self._record = record
        self._attempts = attempts
        self._late_at: Millis = now + asked.order.check_ms
        self._left = list(PLANS[asked.order.command])
        self._told: list[tuple[Step, str]] = []

    def ask(self, now: Millis) -> RunStep | MoveAnswer:
        """The next step, to be asked. An answer, when all were."""
        number = self._attempts.next()
        # At rest: the steps in the record are of a command that is over.
        side = self._record.traffic
        if self._left and self._left[0] is Step.FLIP:
            self._told.append((self._left.pop(0), flip_detail(side)))
        if not self._left:
            return self.answer(MoveVerdict.DONE, DRY_DONE)
        record, left = self._record, max(1, self._late_at - now)
        order, step = self._asked.order, self._left[0]
        return RunStep(number, step, record.keeper, side, order, record.facts, left, dry=True)

    def is_late(self, now: Millis) -> bool:
        """It is time to have the step stopped, again and again until it ends."""
        if now < self._late_at:
            return False
        self._late_at = now + self._asked.order.check_ms
        return True

    def take(self, ended: StepEnded, now: Millis) -> RunStep | MoveAnswer:
        """What a step would do; then the next one. An answer, when it would not succeed."""
        if ended.outcome is StepOutcome.DONE:
            self._told.append((self._left.pop(0), ended.detail))
            return self.ask(now)
        trouble = ended.trouble or UNKNOWN_TROUBLE
        what = f"{ended.step.value}: {trouble.what}"
        return self.answer(MoveVerdict.REFUSED, MoveTrouble(what, trouble.hint))

    def answer(self, verdict: MoveVerdict, why: MoveTrouble) -> MoveAnswer:
        """What is told, with as many steps as were asked."""
        return MoveAnswer(self._asked.request, verdict, why.what, why.hint, tuple(self._told))


def look(record: MoveRecord, order: MoveOrder, attempts: Attempts) -> RunStep:
    """The check of the command that is wanted, which knows what to look at."""
    number, side = attempts.next(), giving(record)
    step, left = PLANS[order.command][0], order.check_ms
    return RunStep(number, step, record.keeper, side, order, record.facts, left, dry=True)
