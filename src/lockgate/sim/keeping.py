"""Keepers in their worlds: each a core, and hands that carry out what it asks for, through faults.

    events ──► core ──► instructions ──► asked of a store: lands, fails, or nobody knows
      ▲                      └── it may die between any two of them
      └── answers: late, and some of them twice

Paused, it does nothing and everything waits. Of a home's lake or of a move there is one keeper at a
time, unless a successor begins while the former one lives on.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar

from lockgate.model.errors import IllegalTransition
from lockgate.model.ids import Millis
from lockgate.sim.any_world import AnyWorld
from lockgate.sim.loop import Action
from lockgate.sim.swarm import Swarm
from lockgate.sim.violation import Law, LawBroken

CRASH_BETWEEN: Final = 0.01
"""Of all instructions, in a world with crashes."""

Event = TypeVar("Event")
Instruction = TypeVar("Instruction")


class KeeperFaults(Swarm):
    """What goes wrong with any keeper."""

    # What is asked of a store, per question.
    failed: float
    unknown_landed: float
    unknown_lost: float
    unknown_later: float
    slow: float
    repeat: float
    # Its life.
    zombie: float
    """What is under way outlives its keeper."""
    crash_ms: int
    twin_ms: int
    """A successor begins while the former keeper is still there."""
    pause_ms: int


class KeeperWorld(AnyWorld):
    """A world of keepers."""

    faults: KeeperFaults
    tick_ms: Millis
    messages = 0
    """Events taken, and instructions carried out."""

    def every(self, mean_ms: Millis, action: Callable[[], None]) -> None:
        """Have it happen again and again, until the world heals."""
        if not mean_ms:
            return

        def again() -> None:
            if not self.healed:
                action()
                self.loop.after(self.loop.between(mean_ms // 2, mean_ms * 3 // 2), again)

        self.loop.after(self.loop.between(0, mean_ms), again)

    def goes_wrong(self, rate: float) -> bool:
        """Whether it does this time; then it is counted."""
        wrong = self.loop.chance(rate)
        self.faults.count += wrong
        return wrong

    def trace(self, who: str, event: object) -> None:
        """It counts as a message, too."""
        self.messages += 1
        super().trace(who, event)


class KeeperLife(ABC, Generic[Event, Instruction]):
    """One life of one keeper."""

    ask_ms: ClassVar[tuple[Millis, Millis]]
    slow_ms: ClassVar[tuple[Millis, Millis]]
    later_ms: ClassVar[tuple[Millis, Millis]]
    """When what was given up lands all the same, and when an answer comes again."""
    world: KeeperWorld

    def __init__(self, name: str, about: tuple[str, ...], tick: Event) -> None:
        """`about`: whose story explains what it does; `tick` comes from time to time."""
        self.name = name
        self.up = True
        self.paused_until: Millis = 0
        self._about = about
        self._tick = tick

    def tick(self) -> None:
        """For as long as it lives."""
        if self.up:
            self.take(self._tick)
            self.world.loop.after(self.world.tick_ms, self.tick)

    def take(self, event: Event) -> None:
        """Hand an event to the core, and do what it says; a paused one does so later."""
        world = self.world
        if not self.up:
            return
        if world.loop.now < self.paused_until:
            world.loop.after(self.paused_until - world.loop.now, self.take, event)
            return
        world.trace(self.name, event)
        try:
            out = self._handle(event)
        except IllegalTransition as error:
            raise LawBroken(Law.CONTRACT, error.what, self._about, tuple(error.story)) from error
        for instruction in out:
            if world.faults.crash_ms and world.goes_wrong(CRASH_BETWEEN):
                self._die()
                return
            world.note(self.name, "asks", instruction)
            world.messages += 1
            self._carry_out(instruction)

    @abstractmethod
    def _handle(self, event: Event) -> Sequence[Instruction]:
        """Have the core take it, and look at what became of that."""

    @abstractmethod
    def _carry_out(self, instruction: Instruction) -> None:
        """Begin it."""

    @abstractmethod
    def _die(self) -> None:
        """The world sees to what follows."""

    # --- hands --------------------------------------------------------------------------------

    def _later(self, action: Action, *args: Any) -> None:
        loop = self.world.loop
        slow = self.world.goes_wrong(self.world.faults.slow)
        loop.after(loop.between(*(self.slow_ms if slow else self.ask_ms)), action, *args)

    def _much_later(self, action: Action, *args: Any) -> None:
        loop = self.world.loop
        loop.after(loop.between(*self.later_ms), action, *args)

    def _reply(self, event: Event) -> None:
        self._later(self.take, event)
        if self.world.goes_wrong(self.world.faults.repeat):
            self._much_later(self.take, event)

    def _arrives(self, ask: Any, late: Action, unheard: Event) -> bool:
        """Whether what is asked of a store lands now. If not, the core is told that nobody knows,
        and it never lands, or `late`."""
        faults, goes_wrong = self.world.faults, self.world.goes_wrong
        if goes_wrong(faults.failed) or goes_wrong(faults.unknown_lost):
            self._reply(unheard)
            return False
        if goes_wrong(faults.unknown_later):
            self._much_later(late, ask)
            self._reply(unheard)
            return False
        return True
