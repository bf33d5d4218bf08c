"""What people are told by the keeper of a move, and what they can do next."""

from lockgate.model.moves import Command, MoveOrder, MoveRecord, MoveTrouble, Side, Step

__all__ = [
    "CANCELLED",
    "DRY_DONE",
    "DRY_RUN",
    "ENDED",
    "LOOKED_AT",
    "LOST",
    "UNKNOWN_TROUBLE",
    "busy",
    "disposed_of",
    "disposing",
    "done",
    "flip_detail",
    "late",
    "lost_traffic",
    "lost_without",
]

ENDED = MoveTrouble("another node keeps this move now", "ask again")
LOST = MoveTrouble(
    "the node that kept the move was lost before the point of no return, so it was put back",
    "ask for it again",
)
CANCELLED = MoveTrouble("the move was cancelled")
DRY_DONE = MoveTrouble("a dry run: nothing was changed")
DRY_RUN = MoveTrouble("a dry run is under way", "ask again in a moment")
LOOKED_AT = MoveTrouble("it is being looked whether a side is gone", "ask again in a moment")
UNKNOWN_TROUBLE = MoveTrouble("it did not succeed, and nobody said why", "see the node's log")


def late(order: MoveOrder, step: Step, trouble: MoveTrouble | None) -> MoveTrouble:
    """A flip took longer than it may."""
    why = f": {trouble.what}" if trouble is not None else ""
    hint = trouble.hint if trouble is not None else ""
    may_take_ms = order.check_ms if step is Step.CHECK else order.timeout_ms
    return MoveTrouble(
        f"{step.value} was not done within {may_take_ms / 1000:g} s{why}",
        hint or "ask again with a greater --timeout, or when less is written",
    )


def busy(record: MoveRecord) -> MoveTrouble:
    """Another command is under way."""
    command = record.order.command.value
    if record.undoing:
        return MoveTrouble(f"the last {command} is being put back", "ask again when it is over")
    if record.stuck:
        return MoveTrouble(
            f"{command} waits for somebody to act", f"act, and ask for {command} again"
        )
    return MoveTrouble(f"{command} is under way", "ask again when it is over")


def disposing(order: MoveOrder) -> MoveTrouble:
    """The command is under way, and something else is to become of the tables."""
    command, becomes = order.command.value, order.disposal.value
    return MoveTrouble(
        f"{command} is under way, to {becomes} the tables", "ask again when it is over"
    )


def disposed_of(order: MoveOrder) -> MoveTrouble:
    """It is too late for something else to become of the tables."""
    command, became = order.command.value, order.disposal.value
    return MoveTrouble(
        f"the tables were disposed of already, as {command} was asked to: {became}",
        f"ask for {command} as before",
    )


def lost_traffic(lost: Side) -> MoveTrouble:
    """What only the lost side has would be given up."""
    return MoveTrouble(
        f"the {lost.value} has the traffic: what was written there is nowhere else for sure",
        f"put the {lost.value}'s database back, or restore it under the same URL, and ask again; "
        "only a side without the traffic can be given up",
    )


def lost_without(move: str, command: Command, lost: Side) -> MoveTrouble:
    """The side may be given up, but not by this command."""
    if command not in (Command.CANCEL, Command.COMPLETE):
        what = f"{command.value} needs both sides"
    else:
        what = f"traffic is at the {lost.other.value}: {command.value} does not end the move"
    way = "cancel" if lost is Side.TARGET else "complete"
    flag = "" if lost is Side.TARGET else " --keep"
    return MoveTrouble(what, f"lockgate move {way} {move}{flag} --lost {lost.value}")


def flip_detail(giving: Side) -> str:
    """What the step that is nothing but a record would do."""
    return f"traffic and routes go from the {giving.value} to the {giving.other.value}"


_DONE = {
    Command.CREATE: "the move is created: its feed runs",
    Command.SWITCH: "traffic is at the target",
    Command.REVERSE: "traffic is at the source again",
    Command.COMPLETE: "the move is completed",
    Command.CANCEL: "the move is cancelled",
}


def done(command: Command) -> str:
    """What holds when a command is over."""
    return _DONE[command]
