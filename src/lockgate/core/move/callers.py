"""Who asked for the command that is under way, and what each of them was told.

Everybody is told twice: that it has begun, once that is durable, and what came of it. A keeper
that ends before tells them that it does not know.
"""

from collections.abc import Callable

from lockgate.core.move.requests import joined, request_of
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

    def know(self, request: str, record: MoveRecord) -> bool:
        """True: it was asked before under this name, and is told what came of it."""
        known = request_of(record, request)
        if known is None:
            return False
        if known.verdict is not MoveVerdict.BEGUN:
            self.answer(request, known.verdict, known.why)
        elif request not in self._unbegun:
            self._waiting.append(request)
            self.answer(request, MoveVerdict.BEGUN, MoveTrouble(""))
        return True

    def add(self, request: str) -> None:
        """The command is theirs, and is about to be recorded with their name."""
        self._unbegun.append(request)
        self._waiting.append(request)

    def join(self, request: str, record: MoveRecord) -> MoveRecord:
        """The command is theirs, too: the record with their name."""
        self.add(request)
        return self.named(record)

    def named(self, record: MoveRecord) -> MoveRecord:
        """The record with the names of all who are told that it has begun once this is durable."""
        return joined(record, self._unbegun)

    def tell_begun(self, record: MoveRecord) -> None:
        """The record is durable, and with it the command of those whom it names."""
        for request in tuple(self._unbegun):
            if request_of(record, request) is not None:
                self._unbegun.remove(request)
                self.answer(request, MoveVerdict.BEGUN, MoveTrouble(""))

    def tell(self, verdict: MoveVerdict, why: MoveTrouble) -> None:
        """The command is over, for them."""
        for request in self._waiting:
            self.answer(request, verdict, why)
        self._waiting.clear()
        self._unbegun.clear()
