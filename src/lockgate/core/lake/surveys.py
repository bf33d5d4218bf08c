"""Looks at the lake: when they are due, which are under way, and who waits for one.

A request waits for a look that was begun after it, at the table that it names, or at all. Only that
can tell that there is no such table, that it is dead, or that another has its name by now; and only
that whether this home still leads: another one may have taken the lake since it was looked at.
"""

from collections.abc import Callable
from typing import NamedTuple

from lockgate.core.lake.book import Book
from lockgate.model.ids import Millis, TableId
from lockgate.model.lake import LakeSettings
from lockgate.model.lake_events import DrainTable, DropTable, StepUp
from lockgate.model.lake_instructions import LakeInstruction, Survey

__all__ = ["Asked", "Surveys", "Verb", "Waiting"]

Verb = DrainTable | DropTable | StepUp


class Asked(NamedTuple):
    """A survey under way."""

    table: TableId | None
    at: Millis


class Waiting(NamedTuple):
    """A request, and the first survey that can answer it."""

    number: int
    verb: Verb

    @property
    def table(self) -> TableId | None:
        """What is to be looked at."""
        return None if isinstance(self.verb, StepUp) else self.verb.table


class Surveys:
    """Numbers them, and repeats those that are not answered."""

    def __init__(self, settings: LakeSettings, emit: Callable[[LakeInstruction], None]) -> None:
        self._settings = settings
        self._emit = emit
        self.number = 0
        """Of the last one that was begun."""
        self._open: dict[int, Asked] = {}
        self._due_at: Millis | None = None
        """When all tables are looked at next; None: at once."""
        self._waiting: list[Waiting] = []

    def ask(self, now: Millis, table: TableId | None) -> int:
        """Have a table, or with None all of them, looked at from now on; the survey's number."""
        self.number += 1
        self._open[self.number] = Asked(table, now)
        if table is None:
            self._due_at = now + self._settings.survey_ms
        self._emit(Survey(self.number, table))
        return self.number

    def ask_for(self, now: Millis, verb: Verb) -> None:
        """Have looked at what a request is about, which waits for it."""
        asked = Waiting(self.number + 1, verb)
        self.ask(now, asked.table)
        self._waiting.append(asked)

    def tick(self, now: Millis) -> None:
        """Look again when it is time, or when a look took so long that it must be lost."""
        lost = [n for n, one in self._open.items() if now >= one.at + self._settings.survey_wait_ms]
        for table in dict.fromkeys([self._open.pop(number).table for number in lost]):
            self.ask(now, table)
        under_way = any(asked.table is None for asked in self._open.values())
        if not under_way and (self._due_at is None or now >= self._due_at):
            self.ask(now, None)

    def soon(self, now: Millis) -> None:
        """The last look at all tables failed: not at once, but sooner than usual."""
        self._due_at = now + self._settings.retry_ms

    def answered(self, number: int) -> Asked | None:
        """What was asked; None when it was answered before, or taken for lost."""
        return self._open.pop(number, None)

    def ready(self, book: Book) -> list[Verb]:
        """The requests that can be decided by what is known now. They wait no longer."""
        ready = [one.verb for one in self._waiting if book.applied(one.table) >= one.number]
        self._waiting = [one for one in self._waiting if one.verb not in ready]
        return ready

    def failed(self, number: int) -> list[Verb]:
        """The requests that waited for this survey. They wait no longer."""
        failed = [one.verb for one in self._waiting if one.number == number]
        self._waiting = [one for one in self._waiting if one.number != number]
        return failed

    def give_up(self) -> list[Verb]:
        """All requests that wait."""
        waiting, self._waiting = self._waiting, []
        return [one.verb for one in waiting]
