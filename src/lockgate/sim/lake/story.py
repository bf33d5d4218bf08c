"""The story of a broken law in the lake's world: a seed is run again, and this takes notes."""

from typing import Any

from lockgate.model.ids import Millis
from lockgate.model.lake import TableSeen
from lockgate.model.lake_events import LakeSurveyed, Tick

__all__ = ["LakeStory"]

ENTRIES_MAX = 80


class LakeStory:
    """Everything that happened, and the part of it that concerns somebody."""

    def __init__(self) -> None:
        self._notes: list[tuple[Millis, str, str, Any]] = []

    def note(self, when: Millis, who: str, what: str, thing: Any) -> None:
        """Something happened."""
        self._notes.append((when, who, what, thing))

    def about(self, entities: tuple[str, ...]) -> list[str]:
        """The last entries that concern a keeper (`node:`) or an incarnation (`table:`)."""
        nodes = {name.removeprefix("node:") for name in entities if name.startswith("node:")}
        tables = {name.removeprefix("table:") for name in entities if name.startswith("table:")}
        names = {table.split("/")[0] for table in tables}
        told: list[str] = []
        for when, who, what, thing in reversed(self._notes):
            text = self._tell(thing, names, mine=who in nodes or not nodes)
            if text is not None:
                told.append(f"{when:>6} {who} {what} {text}".rstrip())
                if len(told) >= ENTRIES_MAX:
                    break
        told.reverse()
        return told

    def _tell(self, thing: Any, names: set[str], *, mine: bool) -> str | None:
        if isinstance(thing, Tick):
            return None
        if isinstance(thing, LakeSurveyed):
            if not mine:
                return None
            told = [
                f"{seen.table}/{seen.incarnation}{_how(seen)}"
                for seen in thing.tables
                if not names or seen.table in names
            ]
            return f"LakeSurveyed({thing.number}, {thing.leader}) {told}"
        table = getattr(thing, "table", None)
        if table is not None:
            return repr(thing) if not names or table in names else None
        return repr(thing) if mine else None


def _how(seen: TableSeen) -> str:
    if seen.trouble is not None:
        return " unseen"
    return (" dead" if seen.dead else "") + (" awaits" if seen.awaits else "")
