"""Who asked for a command, and what came of it: kept in the record, under the name of the request.

Whoever asked asks again under the same name, of any node, until there is a verdict; meanwhile the
keeper may have been lost, and others may have had their own commands carried out. A name that is
known here begins nothing: it is told what came of it. That holds for those as well who joined a
command of others.

The record stays small: it knows the last `REQUESTS_MAX` of them, and none that is under way makes
room for another.
"""

from collections.abc import Iterable
from typing import Final

from lockgate.core.move.plans import HELD_UP
from lockgate.core.move.words import UNKNOWN_TROUBLE, done
from lockgate.model.moves import MoveRecord, MoveRequest, MoveTrouble, MoveVerdict, StepState

__all__ = ["REQUESTS_MAX", "answered", "has_room", "joined", "outcome", "request_of"]

REQUESTS_MAX: Final = 32


def request_of(record: MoveRecord, name: str) -> MoveRequest | None:
    """The request of this name; None when none is known."""
    return next((one for one in record.requests if one.name == name), None)


def has_room(record: MoveRecord) -> bool:
    """One more may join the command that is under way."""
    under_way = [one for one in record.requests if one.verdict is MoveVerdict.BEGUN]
    return len(under_way) < REQUESTS_MAX


def joined(record: MoveRecord, names: Iterable[str]) -> MoveRecord:
    """The command that is under way is theirs, too."""
    new = tuple(MoveRequest(name) for name in names if request_of(record, name) is None)
    return record.changed(requests=(*record.requests, *new)[-REQUESTS_MAX:])


def answered(record: MoveRecord, verdict: MoveVerdict, why: MoveTrouble) -> MoveRecord:
    """That is what came of the command, for everybody who has asked for it."""
    return record.changed(
        requests=tuple(
            MoveRequest(one.name, verdict, why) if one.verdict is MoveVerdict.BEGUN else one
            for one in record.requests
        )
    )


def outcome(record: MoveRecord) -> tuple[MoveVerdict, MoveTrouble]:
    """What came of a command that is over."""
    if not record.undoing:
        return MoveVerdict.DONE, MoveTrouble(done(record.order.command))
    held_up = any(one.step in HELD_UP for one in record.steps if one.state is StepState.UNDONE)
    verdict = MoveVerdict.ROLLED_BACK if held_up else MoveVerdict.REFUSED
    return verdict, record.trouble or UNKNOWN_TROUBLE
