"""What each command is made of, what becomes of a step that does not succeed, what is undone.

    create     check-create ─ forward ─ guard
    switch,    check ─ hook-before ─ block ─ catch-up ─ freeze ─ sequences ─ way-back ─ SEAL ┐
    reverse    └ refused: nothing    └──────── refused, or too late: undone ────────────┘    │
               was changed                   ┌───────────────────────────────────────────────┘
                                             └ flip ─ open ─ hook-after ─ retire
                                               └ whatever happens: forward ────┘
    complete   check-complete ─ run-out ─ end-feed ─ dispose ─ clean
    cancel     check-cancel ─ stop ─ end-feed ─ drop-copies ─ clean

In a complete and a cancel the order is the law of Drain: a feed is stopped with its tokens void,
then removed, and only when nobody can apply at its sink any more is a table renamed or dropped.

What is undone of a flip is undone for people first: the guard goes, then the hook lets the traffic
on. Where one of them cannot be undone yet, the other does not wait for it: a guard ends by itself,
and a hook that holds the traffic would be all that does. Only then are the feeds put right, and the
way back has to be gone before the frozen feed goes on: it would carry back what that one brings.
"""

import enum
from typing import Final

from lockgate.model.moves import Command, Step

__all__ = [
    "CHECKS",
    "HELD_UP",
    "PLANS",
    "TIMED_FROM",
    "UNDO_FOR_PEOPLE",
    "UNDO_ORDER",
    "Refusal",
    "is_before_seal",
    "refusal",
]

_FLIP: Final = (
    Step.CHECK,
    Step.HOOK_BEFORE,
    Step.BLOCK,
    Step.CATCH_UP,
    Step.FREEZE,
    Step.SEQUENCES,
    Step.WAY_BACK,
    Step.SEAL,
    Step.FLIP,
    Step.OPEN,
    Step.HOOK_AFTER,
    Step.RETIRE,
)

PLANS: Final[dict[Command, tuple[Step, ...]]] = {
    Command.CREATE: (Step.CHECK_CREATE, Step.FORWARD, Step.GUARD),
    Command.SWITCH: _FLIP,
    Command.REVERSE: _FLIP,
    Command.COMPLETE: (
        Step.CHECK_COMPLETE,
        Step.RUN_OUT,
        Step.END_FEED,
        Step.DISPOSE,
        Step.CLEAN,
    ),
    Command.CANCEL: (
        Step.CHECK_CANCEL,
        Step.STOP,
        Step.END_FEED,
        Step.DROP_COPIES,
        Step.CLEAN,
    ),
}

CHECKS: Final = frozenset(plan[0] for plan in PLANS.values())
"""They change nothing: a command that is refused by one of them leaves nothing to be undone."""

UNDO_ORDER: Final = (Step.BLOCK, Step.HOOK_BEFORE, Step.WAY_BACK, Step.FREEZE)
"""All that can be undone, in the order in which it is."""

UNDO_FOR_PEOPLE: Final = frozenset(UNDO_ORDER[:2])
"""What lets people's writes go on again."""

TIMED_FROM: Final = Step.HOOK_BEFORE
"""From here on people's writes are held up: the time that a flip may take is counted from here."""

HELD_UP: Final = frozenset(_FLIP[_FLIP.index(TIMED_FROM) : _FLIP.index(Step.RETIRE)])
"""Steps that people's writes wait for."""

_BEFORE_SEAL: Final = frozenset(_FLIP[: _FLIP.index(Step.SEAL)])


class Refusal(enum.Enum):
    """What becomes of a command one of whose steps was refused."""

    LEAVE = "leave"
    """It is over, and nothing was changed."""
    UNDO = "undo"
    """It is put back. Of a seal: the giving side itself has said that it is not on and never will
    be; who could not ask it was not refused."""
    PRESS_ON = "press-on"
    """There is no way back: people are told, and it is tried again and again."""
    WAIT = "wait"
    """It waits for somebody to act and to ask again."""


def refusal(command: Command, step: Step, *, unfinished: bool = False) -> Refusal:
    """What a refused step means for its command. `unfinished`: that has taken the place of another,
    so there is nothing to leave it at."""
    if step in CHECKS and not unfinished:
        return Refusal.LEAVE
    if PLANS[command] is not _FLIP:
        return Refusal.WAIT
    return Refusal.UNDO if is_before_seal(step) or step is Step.SEAL else Refusal.PRESS_ON


def is_before_seal(step: Step) -> bool:
    """The step is one of a flip that can still be put back, whatever became of it."""
    return step in _BEFORE_SEAL
