"""The cells: what there is to be tried."""

import enum
import random
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from lockgate.core.operators.add import AddState
from lockgate.core.operators.merge import MergeState
from lockgate.core.operators.move import MoveState
from lockgate.core.operators.remove import RemoveState
from lockgate.core.operators.split import SplitState

__all__ = ["ROLES", "STATES", "WHENS", "Cell", "cells"]

STATES: Final[dict[str, type[enum.Enum]]] = {
    "add": AddState,
    "remove": RemoveState,
    "move": MoveState,
    "split": SplitState,
    "merge": MergeState,
}
"""Read from the operators themselves: a state that is new to one of them is in the matrix."""

ROLES: Final[dict[str, tuple[str, ...]]] = {
    "add": ("owner", "destination"),
    "remove": ("owner", "origin"),
    "move": ("owner", "origin", "destination"),
    "split": ("owner", "origin"),
    "merge": ("owner", "origin", "destination"),
}
"""A split stays where it is. A merge goes where its first source is; the other one's is its
origin."""

WHENS: Final = ("before", "after")


class Cell(NamedTuple):
    """One of them."""

    operator: str
    state: str
    when: str
    victim: str

    def __str__(self) -> str:
        return f"{self.operator} {self.when} {self.state}, {self.victim} killed"

    @property
    def name(self) -> str:
        """For the names of tests."""
        return "-".join(self)


def _all() -> Iterator[Cell]:
    for operator, states in STATES.items():
        for state in states:
            for when in WHENS:
                for victim in ROLES[operator]:
                    yield Cell(operator, state.value, when, victim)


def cells(operators: Collection[str], victims: Collection[str], most: int | None) -> list[Cell]:
    """Those that were asked for, in an order that mixes them, always the same one."""
    found = [one for one in _all() if one.operator in operators and one.victim in victims]
    random.Random("matrix").shuffle(found)
    return found[:most]
