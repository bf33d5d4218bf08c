"""The attempts at the steps of a command: which is the last one, and what time there is.

Each has a number: the end of an earlier one says nothing any more. After one that has failed there
is a pause, twice as long each time, and never long while people's writes are held up. A flip has a
time for all of its attempts together.
"""

from typing import Final

from lockgate.core.move.changes import current, giving
from lockgate.core.move.plans import HELD_UP
from lockgate.model.ids import Millis
from lockgate.model.move_instructions import RunStep
from lockgate.model.moves import MoveRecord, MoveSettings

__all__ = ["Attempts"]

BACKOFF_DOUBLINGS_MAX: Final = 20


class Attempts:
    """Of one keeper."""

    def __init__(self, settings: MoveSettings) -> None:
        self._settings = settings
        self.number = 0
        """Of the last one."""
        self.late_at: Millis | None = None
        """When a flip is given up. None: never, because there is none, or its seal may be on."""
        self._failures = 0
        """Of the step that acts, one after the other."""
        self._again_at: Millis = 0

    def next(self) -> int:
        """The number of one more."""
        self.number += 1
        return self.number

    def begin(self, record: MoveRecord, now: Millis, *, undo: bool = False) -> RunStep:
        """One more, at the step that acts by the record."""
        left = 0 if self.late_at is None else max(1, self.late_at - now)
        return RunStep(
            self.next(),
            current(record).step,
            record.keeper,
            giving(record),
            record.order,
            record.facts,
            left,
            undo=undo,
        )

    def afresh(self) -> None:
        """Another step acts: of that none has failed."""
        self._failures = 0

    def failed(self, record: MoveRecord, now: Millis) -> None:
        """It is time for the next one after a while."""
        settings = self._settings
        held_up = current(record).step in HELD_UP
        longest = settings.backoff_ms_held_up if held_up else settings.backoff_ms_max
        doublings = min(self._failures, BACKOFF_DOUBLINGS_MAX)
        self._again_at = now + min(longest, settings.backoff_ms_min << doublings)
        self._failures += 1

    def is_due(self, now: Millis) -> bool:
        """It is time for the next one."""
        return now >= self._again_at

    def is_late(self, now: Millis) -> bool:
        """The flip has taken longer than it may."""
        return self.late_at is not None and now >= self.late_at
