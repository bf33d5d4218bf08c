"""What people are told by the keeper of a move, and what they can do next."""

from lockgate.model.moves import Command, MoveOrder, MoveRecord, MoveTrouble, Side, Step

__all__ = [
    "CANCELLED",
    "DRY_DONE",
    "DRY_RUN",
    "ENDED",
    "LOST",
    "UNKNOWN_TROUBLE",
    "busy",
    "done",
    "flip_detail",
    "late",
]

ENDED = MoveTrouble("another node keeps this move now", "ask again")
LOST = MoveTrouble(
    "the node that kept the move was lost before the point of no return, so it was put back",
    "ask for it again",
)
CANCELLED = MoveTrouble("the move was cancelled")
DRY_DONE = MoveTrouble("a dry run: nothing was changed")
DRY_RUN = MoveTrouble("a dry run is under way", "ask again in a moment")
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
