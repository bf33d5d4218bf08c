"""What comes in to the keeper of a move. `now` is handed in beside each event.

Everything that the keeper asked for is answered at least once; a repeated answer changes nothing.
"""

import enum
from typing import get_args

from lockgate.model.events import Tick
from lockgate.model.moves import MoveFacts, MoveOrder, MoveTrouble, Step
from lockgate.model.value import Value

__all__ = [
    "MoveCommand",
    "MoveEvent",
    "MoveKeeperOver",
    "MoveNotRecorded",
    "MoveOutdated",
    "MoveRecorded",
    "StepEnded",
    "StepOutcome",
    "Tick",
]


class MoveCommand(Value, frozen=True, tag=True):
    """A person's command. `dry`: go through the same plan and change nothing."""

    request: str
    order: MoveOrder
    dry: bool = False


class MoveRecorded(Value, frozen=True):
    """The record of this serial is durable."""

    serial: int


class MoveNotRecorded(Value, frozen=True):
    """It is not durable, or nobody knows; it is recorded again."""

    serial: int
    why: str = ""


class MoveOutdated(Value, frozen=True):
    """A later keeper has been there: this one is over."""

    serial: int


class MoveKeeperOver(Value, frozen=True):
    """From the node: this keeper is to end; the lease is lost, or the move is kept elsewhere."""


class StepOutcome(enum.Enum):
    """How a step, or its undoing, ended."""

    DONE = "done"
    """It is so. Asked again, it would be DONE once more and change nothing."""
    REFUSED = "refused"
    """It is not so, and trying again changes nothing until somebody acts. A refused seal is not
    sealed, and never will be by this attempt."""
    FAILED = "failed"
    """It may work the next time: a server that is away, a lock that is held. It has no effect, or
    one that the next attempt or the undoing takes in."""
    STALE = "stale"
    """An endpoint knows of a later keeper: this one is over."""


class StepEnded(Value, frozen=True):
    """Nothing of the attempt runs any more."""

    number: int
    """Of the `RunStep`."""
    step: Step
    outcome: StepOutcome
    facts: MoveFacts | None = None
    """With DONE: the facts as they are now, if the step has found some out."""
    detail: str = ""
    """For people: what was done, or with a dry run what would be."""
    trouble: MoveTrouble | None = None


MoveEvent = (
    Tick | MoveCommand | MoveRecorded | MoveNotRecorded | MoveOutdated | MoveKeeperOver | StepEnded
)

MOVE_EVENTS: tuple[type, ...] = get_args(MoveEvent)
