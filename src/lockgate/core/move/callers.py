"""Who asked for the command that is under way, and what each of them was told.

Everybody is told twice: that it has begun, once that is durable, and what came of it. A keeper
that ends before tells them that it does not know.
"""

from collections.abc import Callable

from lockgate.model.move_instructions import MoveAnswer, MoveVerdict
from lockgate.model.moves import MoveTrouble

__all__ = ["Callers"]


class Callers:
    """Of one keeper."""

    def __init__(self, emit: Callable[[MoveAnswer], None]) -> None:
        self._emit = emit
        self._unbegun: list[str] = []
        """Their command is not durable yet."""
        self._waiting: list[str] = []

    def answer(self, request: str, verdict: MoveVerdict, why: MoveTrouble) -> None:
        """Tell one what comes of it."""
        self._emit(MoveAnswer(request, verdict, why.what, why.hint))

    def add(self, request: str) -> None:
        """The command is theirs, and is about to be recorded."""
        self._unbegun.append(request)
        self._waiting.append(request)

    def join(self, request: str) -> None:
        """They want to be told the end of a command of others."""
        if self._unbegun:
            self.add(request)
        else:
            self._waiting.append(request)
            self.answer(request, MoveVerdict.BEGUN, MoveTrouble(""))

    def tell_begun(self) -> None:
        """The command is durable."""
        for request in self._unbegun:
            self.answer(request, MoveVerdict.BEGUN, MoveTrouble(""))
        self._unbegun.clear()

    def tell(self, verdict: MoveVerdict, why: MoveTrouble) -> None:
        """The command is over, for them."""
        for request in self._waiting:
            self.answer(request, verdict, why)
        self._waiting.clear()
        self._unbegun.clear()
