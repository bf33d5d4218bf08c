"""What people ask of a lake, and what they are told."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from lockgate.model.lake_events import DropTable, LakeVerb
from lockgate.model.lake_instructions import LakeAnswer
from soak.lake.actor import Actor, ActorGone, CallFailed

__all__ = ["Asked", "People"]

_ASK_S: Final = 5.0
_AGAIN_S: Final = 0.05


@dataclass
class Asked:
    """A request, and what came of it."""

    verb: LakeVerb
    home: str
    answer: LakeAnswer | None = None
    doubt: bool = False
    """Somebody heard it and ended before he could answer: it may have been done."""
    known: tuple[int, ...] = ()
    """Of a drop: the incarnations of the table that were there when it was asked."""
    failure: str = ""
    """A trace, when asking broke."""
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def verdict(self) -> str:
        """For the tally."""
        return "lost" if self.answer is None else self.answer.verdict.value


class People:
    """Asks on until there is an answer, as `lockgate lake` does."""

    def __init__(self, keeper: Callable[[str], Actor]) -> None:
        self._keeper = keeper
        self._leave = threading.Event()
        self.asked: list[Asked] = []

    def ask(self, home: str, verb: LakeVerb, known: tuple[int, ...] = ()) -> Asked:
        """Begin to ask."""
        asked = Asked(verb, home, known=known)
        self.asked.append(asked)
        threading.Thread(target=self._pursue, args=(asked,), daemon=True).start()
        return asked

    def wait(self, deadline_s: float) -> list[Asked]:
        """Until all have their answers; those who have none."""
        for one in self.asked:
            one.over.wait(max(0.0, deadline_s - time.monotonic()))
        return [one for one in self.asked if not one.over.is_set()]

    def leave(self) -> None:
        """Nobody asks on."""
        self._leave.set()
        for one in self.asked:
            one.over.wait(2 * _ASK_S)

    def _pursue(self, asked: Asked) -> None:
        while not self._leave.is_set():
            try:
                told = self._keeper(asked.home).begin("ask", asked.verb, _ASK_S).result()
            except ActorGone:
                # Killed. A drop is not asked again: what it did is not known.
                asked.doubt = True
                if isinstance(asked.verb, DropTable):
                    break
                time.sleep(_AGAIN_S)
                continue
            except CallFailed as error:
                asked.failure = str(error)
                break
            if isinstance(told, LakeAnswer):
                asked.answer = told
                break
            asked.doubt |= told == "later"
            time.sleep(_AGAIN_S)
        asked.over.set()
