"""Whether a command may begin, by what the record says.

                    traffic at source                traffic at target       completed   cancelled
    switch          begins                           nothing to do           refused     refused
    reverse         nothing to do                    begins                  refused     refused
    complete        refused: switch first            begins                  nothing     refused
    cancel          begins                           refused: reverse first  refused     nothing
    create          only if it failed before, else nothing to do             refused     refused

While a command is under way another one is told busy. The same command again is taken for a wish
to be told its end, and to try at once what waits; unless something else is to become of the tables:
then it is told busy, too. A create can be cancelled in the middle.

A complete or a cancel may give the side up that does not have the traffic, if that is gone; also
one that is under way already, and waits for it.
"""

import enum
from typing import Final, NamedTuple

from lockgate.core.move.changes import is_disposed_of
from lockgate.core.move.requests import has_room
from lockgate.core.move.words import busy, disposed_of, disposing, done, lost_traffic, lost_without
from lockgate.model.move_instructions import MoveVerdict
from lockgate.model.moves import Command, MoveOrder, MoveRecord, MoveTrouble, Side

__all__ = ["Judgement", "Meanwhile", "judge", "meanwhile", "no_giving_up"]

_FINAL: Final = frozenset({Command.COMPLETE, Command.CANCEL})


class Judgement(NamedTuple):
    """Why a command does not begin."""

    verdict: MoveVerdict
    why: MoveTrouble


def judge(record: MoveRecord, order: MoveOrder) -> Judgement | None:
    """What becomes of a command when none is under way. None: it begins."""
    command, last = order.command, record.order.command
    if last in _FINAL and not record.undoing:
        if command is last:
            return Judgement(MoveVerdict.NOTHING, MoveTrouble(done(last)))
        return Judgement(MoveVerdict.REFUSED, MoveTrouble(done(last), "create a new move"))
    if (why := no_giving_up(record, order)) is not None:
        return Judgement(MoveVerdict.REFUSED, why)
    if not record.facts.feed:
        return None if command in {Command.CREATE, Command.CANCEL} else _not_created(record)
    switched = record.traffic is Side.TARGET
    nothing = Judgement(MoveVerdict.NOTHING, MoveTrouble(done(command)))
    match command:
        case Command.CREATE:
            return nothing
        case Command.SWITCH:
            return nothing if switched else None
        case Command.REVERSE:
            return None if switched else nothing
        case Command.COMPLETE:
            why = MoveTrouble("traffic is still at the source", "switch first")
            return None if switched else Judgement(MoveVerdict.REFUSED, why)
        case Command.CANCEL:
            why = MoveTrouble(
                "traffic is at the target: what was written there would be lost",
                "complete the move; or reverse it, then cancel",
            )
            return Judgement(MoveVerdict.REFUSED, why) if switched else None


def no_giving_up(record: MoveRecord, order: MoveOrder) -> MoveTrouble | None:
    """Why the side that is said to be lost cannot be given up; None: it can, or none is."""
    if order.lost is None:
        return None
    if order.lost is record.traffic:
        return lost_traffic(order.lost)
    ends = Command.COMPLETE if record.traffic is Side.TARGET else Command.CANCEL
    return None if order.command is ends else lost_without(record.move, order.command, order.lost)


def _not_created(record: MoveRecord) -> Judgement:
    why = f": {record.trouble.what}" if record.trouble is not None else ""
    trouble = MoveTrouble(f"the move was not created{why}", "cancel it and create it anew")
    return Judgement(MoveVerdict.REFUSED, trouble)


class Meanwhile(enum.Enum):
    """What becomes of a command while one is under way."""

    JOIN = "join"
    """It is the same one."""
    ANEW = "anew"
    """It is the same one with something else to become of the tables, which nothing has become of
    yet, and it waits for somebody."""
    SUPERSEDE = "supersede"
    """It takes the place of the one that is under way."""
    GIVE_UP = "give-up"
    """One of the two, without a side that is lost: first it is looked whether that is gone."""
    BUSY = "busy"


def meanwhile(
    record: MoveRecord, order: MoveOrder, follows: MoveOrder | None = None
) -> tuple[Meanwhile, MoveTrouble]:
    """What becomes of a command when one is under way, and what is said to busy ones. `follows` is
    the cancel that begins when the create's step has ended: only who wants the same has it, too."""
    why = busy(record)
    under_way = record.order
    if under_way.command is Command.CREATE and order.command is Command.CANCEL:
        if follows is not None and order.disposal is not follows.disposal:
            return Meanwhile.BUSY, disposing(follows)
        return Meanwhile.SUPERSEDE if order.lost is None else Meanwhile.GIVE_UP, why
    if order.command is not under_way.command or record.undoing or not has_room(record):
        return Meanwhile.BUSY, why
    if order.lost is not None and under_way.lost is None:
        return Meanwhile.GIVE_UP, why
    # Of a side that is given up no table is touched, whatever was to become of them.
    if (
        order.disposal is under_way.disposal
        or order.command not in _FINAL
        or under_way.lost is not None
    ):
        return Meanwhile.JOIN, why
    if is_disposed_of(record):
        return Meanwhile.BUSY, disposed_of(under_way)
    if record.stuck:
        return Meanwhile.ANEW, why
    return Meanwhile.BUSY, disposing(under_way)
