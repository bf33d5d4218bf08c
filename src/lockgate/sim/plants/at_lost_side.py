"""Bugs of giving up a side of a move: what has to be looked at is not, or not by everybody."""

from lockgate.core.move.keeper import MoveKeeper
from lockgate.model.move_events import MoveCommand
from lockgate.sim.move.losing import LosingVerbs
from lockgate.sim.plants.registry import MOVE, plant
from lockgate.sim.violation import Law


@plant(
    "move-lost-side-answers",
    "the check takes people's word for it that a side is gone",
    Law.DRAIN,
    LosingVerbs,
    "is_gone",
    MOVE,
)
def _lost_side_answers(_self: LosingVerbs) -> bool:
    return True


@plant(
    "move-lost-side-unlooked",
    "a command that is under way goes on without a side, and nobody has looked",
    Law.DRAIN,
    MoveKeeper,
    "_ask_look",
    MOVE,
)
def _lost_side_unlooked(self: MoveKeeper, look: MoveCommand) -> None:
    self._look = None
    self._give_up_side(look, "")
