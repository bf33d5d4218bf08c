"""What a Delta table's log says about its owner, its progress and its end.

Delta keeps the last number that each *application* wrote with a commit. Ours are one application
per number, so that a commit, its owner and its position land together or not at all.
"""

from typing import Final

from deltalake import DeltaTable, Transaction

from lockgate.model.ids import NO_TOKEN, Token
from lockgate.model.positions import Position
from lockgate.model.value import Value

__all__ = ["Marks", "marks_of", "transactions"]

_EPOCH: Final = "lockgate.epoch"
_SEQ: Final = "lockgate.seq"
_INCARNATION: Final = "lockgate.incarnation"
_POSITION: Final = "lockgate.position"
_DEAD: Final = "lockgate.dead"


class Marks(Value, frozen=True):
    """One moment of a table."""

    version: int
    token: Token = NO_TOKEN
    position: Position = 0
    """Everything up to here is in the table."""
    dead: bool = False
    """It was dropped: nothing is committed to it any more."""


def marks_of(table: DeltaTable) -> Marks:
    """As the handle sees it; the log may have gone on."""

    def number(app: str) -> int:
        return table.transaction_version(app) or 0

    return Marks(
        version=table.version(),
        token=Token(number(_EPOCH), number(_SEQ), number(_INCARNATION)),
        position=number(_POSITION),
        dead=bool(number(_DEAD)),
    )


def transactions(token: Token, position: Position, *, dead: bool) -> list[Transaction]:
    """What every commit carries. All of it each time: two commits at once then always clash."""
    numbers = {
        _EPOCH: token.epoch,
        _SEQ: token.seq,
        _INCARNATION: token.incarnation,
        _POSITION: position,
    }
    if dead:
        numbers[_DEAD] = 1
    return [Transaction(app, number) for app, number in numbers.items()]
