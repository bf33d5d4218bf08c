"""The cells: every step of every command, before and after it acts, and who is killed."""

import itertools
import random
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from lockgate.core.move.plans import PLANS, UNDO_ORDER, is_before_seal
from lockgate.model.moves import Command, Step

__all__ = ["COMMANDS", "VICTIMS", "MoveCell", "cells"]

FLIPS: Final = (Command.SWITCH, Command.REVERSE)
COMMANDS: Final = tuple(command.value for command in PLANS)
WHENS: Final = ("before", "after")
VICTIMS: Final = ("keeper", "all")
"""The node that keeps the move, while another one is there; or every node there is."""

_ONLY_RECORDED: Final = frozenset({Step.FLIP})
"""Nothing acts: it is part of the record that says that the seal is on."""


class MoveCell(NamedTuple):
    """One of them."""

    command: str
    step: str
    when: str
    victim: str
    undo: bool = False

    def __str__(self) -> str:
        what = f"the undoing of {self.step}" if self.undo else self.step
        who = "its keeper" if self.victim == "keeper" else "all nodes"
        return f"{self.command}: {self.when} {what}, {who} killed"

    @property
    def name(self) -> str:
        """For the names of tests."""
        undo = ("undo",) if self.undo else ()
        return "-".join((self.command, *undo, self.step, self.when, self.victim))

    @property
    def flips(self) -> bool:
        return Command(self.command) in FLIPS

    @property
    def outcomes(self) -> frozenset[bool]:
        """Whether the traffic may have changed hands in the end. Only of a seal that was about to
        be asked for does nobody know before."""
        step = Step(self.step)
        if self.undo or is_before_seal(step):
            return frozenset({False})
        if step is Step.SEAL and self.when == "before":
            return frozenset({False, True})
        return frozenset({True})


def _all() -> Iterator[MoveCell]:
    """Read from the plans themselves: a step that is new to one of them is in the matrix."""
    for command, plan in PLANS.items():
        for victim in VICTIMS:
            for when in WHENS:
                for step in plan:
                    if step not in _ONLY_RECORDED:
                        yield MoveCell(command.value, step.value, when, victim)
                for step in UNDO_ORDER if command in FLIPS else ():
                    yield MoveCell(command.value, step.value, when, victim, undo=True)


def cells(commands: Collection[str], victims: Collection[str], most: int | None) -> list[MoveCell]:
    """Those that were asked for, in an order that is always the same. Flips come first, so that
    few are needed in between: switches that are put back, then there and back by turns, then
    reverses that are put back."""
    found = [one for one in _all() if one.command in commands and one.victim in victims]
    random.Random("moves").shuffle(found)
    switches = [one for one in found if one.command == Command.SWITCH.value]
    reverses = [one for one in found if one.command == Command.REVERSE.value]
    turns = itertools.zip_longest(
        (one for one in switches if True in one.outcomes),
        (one for one in reverses if True in one.outcomes),
    )
    ordered = [
        *(one for one in switches if True not in one.outcomes),
        *(one for pair in turns for one in pair if one is not None),
        *(one for one in reverses if True not in one.outcomes),
        *(one for one in found if not one.flips),
    ]
    return ordered[:most]
