"""The story of a move that broke a law: what its keepers took, asked for and had recorded."""

from collections import deque
from typing import Any, Final

from lockgate.model.ids import Millis
from lockgate.model.moves import MoveRecord, StepState

__all__ = ["MoveStory"]

LINES_MAX: Final = 120


class MoveStory:
    """Told only when a seed is run again."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LINES_MAX)

    def note(self, now: Millis, who: str, what: str, thing: Any) -> None:
        """Something that belongs into it."""
        if type(thing).__name__ in {"Tick", "MoveRecorded"}:
            return
        told = _brief(thing) if isinstance(thing, MoveRecord) else thing
        if isinstance(record := getattr(thing, "record", None), MoveRecord):
            told = f"{type(thing).__name__} {_brief(record)}"
        self._lines.append(f"{now} ms {who} {what} {told}")

    def about(self, _: tuple[str, ...]) -> list[str]:
        """All of it: there is one move."""
        return list(self._lines)


def _brief(record: MoveRecord) -> str:
    steps = ", ".join(
        f"{one.step.value} {one.state.value}"
        for one in record.steps
        if one.state not in (StepState.PENDING, StepState.DONE)
    )
    ended = " ended" if record.ended else ""
    return (
        f"{record.keeper}.{record.serial} {record.order.command.value}{ended}, traffic at "
        f"{record.traffic.value}, {record.facts.flips} flips: {steps}"
    )
