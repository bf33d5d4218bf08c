"""What the keeper of a move wants done: by the node for real, by the simulator in a fake world."""

from lockgate.model.ids import Millis
from lockgate.model.moves import MoveFacts, MoveOrder, MoveRecord, MoveVerdict, Side, Step
from lockgate.model.value import Value

__all__ = ["MoveAnswer", "MoveInstruction", "MoveVerdict", "RecordMove", "RunStep", "StopStep"]


class RecordMove(Value, frozen=True):
    """Metastore: have this durable, unless a later keeper was there (`model.moves.accepted`).

    Traffic is part of it, and with traffic the routes: they change in the same transaction.
    Answered by `MoveRecorded`, `MoveNotRecorded` or `MoveOutdated`."""

    record: MoveRecord


class RunStep(Value, frozen=True):
    """Executor: do this step, or undo it, under this keeper's number. Answered by `StepEnded` when
    nothing of it runs any more, whatever became of it."""

    number: int
    """Of this attempt."""
    step: Step
    keeper: int
    giving: Side
    """Who had the traffic when the command began."""
    order: MoveOrder
    facts: MoveFacts
    left_ms: Millis
    """How long it may take; 0: as long as it takes."""
    undo: bool = False
    dry: bool = False


class StopStep(Value, frozen=True):
    """Executor: nobody waits for this attempt any more. It ends early if it can; `StepEnded` comes
    as ever."""

    number: int


class MoveAnswer(Value, frozen=True):
    """To the person who asked: once when the command is recorded or refused (BEGUN, or any other
    verdict, which is then the last), and once more when a command that was BEGUN is over."""

    request: str
    verdict: MoveVerdict
    what: str = ""
    hint: str = ""
    steps: tuple[tuple[Step, str], ...] = ()
    """Of a dry run: each step and what it would do."""


MoveInstruction = RecordMove | RunStep | StopStep | MoveAnswer
