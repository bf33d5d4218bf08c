"""Who asked for the command that is under way, and what each of them was told.

Everybody is told twice: that it has begun, once that is durable, and what came of it. A keeper
that ends before tells them that it does not know.
"""

from collections.abc import Callable

from lockgate.core.move.requests import request_of
from lockgate.model.move_instructions import MoveAnswer, MoveVerdict
from lockgate.model.moves import MoveRecord, MoveTrouble

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

    @property
    def unbegun(self) -> tuple[str, ...]:
        """Who is told that it has begun once a record that names them is durable."""
        return tuple(self._unbegun)

    def add(self, request: str) -> None:
        """The command is theirs, and is about to be recorded with their name."""
        self._unbegun.append(request)
        self._waiting.append(request)

    def again(self, request: str) -> None:
        """They ask once more for what the record has as theirs."""
        if request not in self._unbegun:
            self._waiting.append(request)
            self.answer(request, MoveVerdict.BEGUN, MoveTrouble(""))

    def tell_begun(self, record: MoveRecord) -> None:
        """The record is durable, and with it the command of those whom it names."""
        for request in self.unbegun:
            if request_of(record, request) is not None:
                self._unbegun.remove(request)
                self.answer(request, MoveVerdict.BEGUN, MoveTrouble(""))

    def tell(self, verdict: MoveVerdict, why: MoveTrouble) -> None:
        """The command is over, for them."""
        for request in self._waiting:
            self.answer(request, verdict, why)
        self._waiting.clear()
        self._unbegun.clear()
