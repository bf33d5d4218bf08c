"""What the worlds of a seed have in common: a loop, the hash of the run, and its two phases.

    safety phase     faults on; every law, all the time
    liveness phase   no faults any more; within a bounded time nothing is missing

Everything in a world is driven by one loop and one source of chance. Nothing depends on the order
of a set or on the machine's clock, so a seed is a world.
"""

from abc import ABC, abstractmethod
from hashlib import blake2b
from typing import Any, ClassVar, Protocol

import msgspec

from lockgate.model.ids import Millis
from lockgate.sim.hits import Hits
from lockgate.sim.loop import Loop
from lockgate.sim.swarm import Swarm
from lockgate.sim.violation import Law, LawBroken

_encode = msgspec.msgpack.Encoder().encode


class AnyStory(Protocol):
    """Takes notes while a seed is run again."""

    def note(self, when: Millis, who: str, what: str, thing: Any, /) -> None:
        """Something happened."""

    def about(self, entities: tuple[str, ...], /) -> list[str]:
        """The part of it that concerns somebody."""


class AnyWorld(ABC):
    """Built from a seed, and run once. What is in it, a class below this one says."""

    faults_ms: ClassVar[Millis]
    """How long things go wrong."""
    heal_ms_max: ClassVar[Millis]
    heal_step_ms: ClassVar[Millis]
    """How often one looks whether something is missing."""
    faults: Swarm
    probes: Hits[Any]

    def __init__(self, seed: int, story: AnyStory | None) -> None:
        self.story = story
        self.loop = Loop(seed)
        self.healed = False
        self._trace = blake2b(digest_size=16)

    @abstractmethod
    def run(self) -> None:
        """Both phases. Raises `LawBroken`."""

    @property
    @abstractmethod
    def messages(self) -> int:
        """How much was said in it."""

    # --- the liveness phase -------------------------------------------------------------------

    @abstractmethod
    def _settle(self) -> None:
        """After each step of a healed world: what people and nodes see to."""

    @abstractmethod
    def _missing(self) -> str:
        """What is still to be done, or nothing."""

    @abstractmethod
    def _everybody(self) -> tuple[str, ...]:
        """Whose stories explain that it is not done."""

    def _run_until_live(self) -> None:
        why = ""
        for _ in range(self.heal_ms_max // self.heal_step_ms):
            self.loop.run(self.loop.now + self.heal_step_ms)
            self._settle()
            why = self._missing()
            if not why:
                return
        what = f"{self.heal_ms_max} ms after all faults: {why}"
        raise LawBroken(Law.LIVENESS, what, self._everybody())

    # --- what happens -------------------------------------------------------------------------

    def trace(self, who: str, event: object) -> None:
        """Every event that a core takes goes into the hash of the run."""
        self._trace.update(_encode((self.loop.now, who, type(event).__name__, event)))
        self.note(who, "takes", event)

    def note(self, who: str, what: str, thing: Any) -> None:
        """Something that belongs into the story."""
        if self.story is not None:
            self.story.note(self.loop.now, who, what, thing)

    @property
    def trace_hash(self) -> str:
        """Equal for equal runs, whichever process ran them."""
        return self._trace.hexdigest()
