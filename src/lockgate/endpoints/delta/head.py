"""Who takes part in a lake, and who leads it, kept in the lake itself.

Installations of Lockgate that share a lake have a number each, which is part of their tokens. One
of them leads, under an epoch that rises with every take-over: whoever led before finds a newer
token in the tables, however long it slept.
"""

import threading
from collections.abc import Callable
from typing import Final

import msgspec

from lockgate.endpoints.delta.document import Document
from lockgate.endpoints.delta.place import Place
from lockgate.model.ids import Epoch, Token
from lockgate.model.lake import NOBODY, Leadership, released, taken
from lockgate.model.value import Value

__all__ = ["CONTROL", "Head", "LakeHead"]

CONTROL: Final = "_lockgate"
"""Below a lake: what is no table of anybody's."""


class Head(Value, frozen=True):
    """One moment of it."""

    version: int = 1
    """Of this document's form."""
    leadership: Leadership = NOBODY
    homes: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def leader(self) -> str:
        """The home that leads; empty when none does."""
        return self.leadership.home

    @property
    def epoch(self) -> Epoch:
        return self.leadership.epoch

    def token(self, home: str) -> Token | None:
        """What the home commits to stable tables with; None when it does not lead."""
        return Token(self.epoch, 0, self.homes[home]) if home and home == self.leader else None


class LakeHead:
    """The head of one lake, as one home sees it. Any thread may ask."""

    def __init__(self, lake: Place, home: str) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._document: Document[Head] = Document(
            lake.child(CONTROL).child("head"),
            Head,
            Head(),
            "begin a lake anew in another directory; which epochs were taken in this one, "
            "nothing else tells for certain",
        )

    def read(self) -> Head:
        with self._lock:
            return self._document.read()

    def _change(self, step: Callable[[Head], Head]) -> Head:
        with self._lock:
            return self._document.change(step)

    def token(self) -> Token | None:
        """The token to lead with, while this home leads."""
        return self.read().token(self._home)

    def join(self) -> Head:
        """Take part; and lead, if nobody ever has. One whose leader has stepped down stays without:
        who is to lead it then, a person says."""

        def step(head: Head) -> Head:
            joined = _joined(head, self._home)
            if joined.epoch:
                return joined
            led = Leadership(1, self._home)
            return msgspec.structs.replace(joined, leadership=led)

        return self._change(step)

    def take(self, keeper: int, attempt: int, over: Epoch) -> Head | None:
        """Lead under a new epoch, if `model.lake.taken` allows it; None: it does not."""
        allowed = True

        def step(head: Head) -> Head:
            nonlocal allowed
            joined = _joined(head, self._home)
            led = taken(joined.leadership, self._home, keeper, attempt, over)
            allowed = led is not None
            if led is None or led == head.leadership:
                return head
            return msgspec.structs.replace(joined, leadership=led)

        head = self._change(step)
        return head if allowed else None

    def give_up(self, epoch: Epoch) -> Head:
        """Lead no more, if it is still this epoch."""

        def step(head: Head) -> Head:
            left = released(head.leadership, self._home, epoch)
            if left == head.leadership:
                return head
            return msgspec.structs.replace(head, leadership=left)

        return self._change(step)


def _joined(head: Head, home: str) -> Head:
    if home in head.homes:
        return head
    number = max(head.homes.values(), default=0) + 1
    return msgspec.structs.replace(head, homes={**head.homes, home: number})
