"""What the steps of a flip ask of a hook.

    check ──► before ──► … writes blocked, caught up, sealed, traffic flipped … ──► after
                 └──────────► undo, when the flip is put back before its seal

`before` holds the traffic, `after` sends it to the side that has taken it and lets it go on, `undo`
lets it go on as it was. Each may be asked again by a successor that does not know how far the one
before had come, so each is idempotent; each ends in time, or is ended.

Errors say what becomes of the flip. Before the seal all of them put it back; afterwards a Transient
is tried again, and a Terminal waits for somebody to act.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from lockgate.model.errors import Terminal, Transient
from lockgate.model.moves import MoveId, Side
from lockgate.model.value import Value

__all__ = ["FindHook", "Hook", "HookContext", "HookEnd", "HookFailed", "HookUnfit", "Keeping"]


class HookFailed(Transient):
    """It was run, and did not do what it was to do. It may the next time."""

    code = "hook-failed"


class HookUnfit(Terminal):
    """It cannot be run as it is configured."""

    code = "hook-unfit"


class HookEnd(Value, frozen=True):
    """One end of a flip: which side of the move it is, and how people call it."""

    side: Side
    endpoint: str


class HookContext(Value, frozen=True):
    """Which flip a hook is run for."""

    move: MoveId
    giving: HookEnd
    taking: HookEnd
    tables: tuple[str, ...]
    """As at the source: `public.orders`."""
    attempt: int
    """The keeper's number: who was there before has a lower one."""
    left_s: float
    """It ends within this, whatever its own timeout is."""
    birth: int = 0
    """The move's: no other move has had this number, whatever it was called."""

    @property
    def fence(self) -> str:
        """Rises with every keeper of the move, and with a later move of its name. It is compared as
        text, as any shell can: as one number it would not be exact everywhere."""
        return f"{self.birth:015d}.{self.attempt:08d}"


class Keeping(NamedTuple):
    """What this node knows of whether it still keeps moves."""

    check: Callable[[HookContext], None]
    """Raises StaleOwner when a later keeper works for the move. Asks the metastore."""
    until_s: Callable[[], float]
    """Until when nobody else does, by this machine's clock; what is over, if it is not so now."""


class Hook(Protocol):
    """Each verb returns what it has done, in words. All of them raise LockgateErrors only."""

    def check(self, ctx: HookContext) -> str:
        """Whether it could be run. Changes nothing."""
        ...

    def before(self, ctx: HookContext) -> str:
        """Hold the traffic."""
        ...

    def after(self, ctx: HookContext) -> str:
        """Send it to the taking side, and let it go on."""
        ...

    def undo(self, ctx: HookContext) -> str:
        """Let it go on as before."""
        ...


class FindHook(Protocol):
    """From a hook's name to the hook."""

    def __call__(self, name: str, is_stopped: Callable[[], bool] = ...) -> Hook:
        """`is_stopped` tells that nobody waits for its verbs any more: they end."""
        ...
