"""The past of `services.FakeService`: who did what."""

from typing import Final

from lockgate.model.documents import HistoryEntry

_AT: Final = "2026-01-01T00:00:{:02d}Z"


class FakeHistory:
    """Entries with numbers from 1 on."""

    def __init__(self) -> None:
        self._entries: list[HistoryEntry] = []

    def note(self, who: str, verb: str, object_: str, detail: str = "") -> None:
        """Somebody did something, and it went well."""
        id_ = len(self._entries) + 1
        at = _AT.format(id_ % 60)
        self._entries.append(HistoryEntry(id_, at, who, verb, object_, detail, "done"))

    def read(self, object_: str, before: int | None, limit: int) -> list[HistoryEntry]:
        """The newest first."""
        found = [
            entry
            for entry in reversed(self._entries)
            if (not object_ or entry.object == object_) and (before is None or entry.id < before)
        ]
        return found[:limit]
