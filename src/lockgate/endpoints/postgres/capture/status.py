"""How far a capture is, for people and for whoever follows the log."""

import threading
from typing import Any

import msgspec

from lockgate.model.positions import Position
from lockgate.model.value import Value

__all__ = ["CaptureStatus", "Counters"]


class CaptureStatus(Value, frozen=True):
    """One capture at one moment, counted from its start."""

    resolved: Position | None = None
    """Everything up to here is in the change log; None before the log is claimed."""
    received: Position = 0
    """Everything up to here has come from the source."""
    commit_time: int | None = None
    """Of the last transaction in the log: microseconds since 1970, by the source's clock."""
    received_time: int | None = None
    """Of the last transaction that has come from the source."""
    rows: int = 0
    """Changes in the log."""
    bytes: int = 0
    """Of the files that hold them."""
    segments: int = 0
    transactions: int = 0
    """That have come from the source whole."""
    dropped: int = 0
    """Changes that came and were in the log already."""
    buffered_rows: int = 0
    buffered_bytes: int = 0
    """Decoded, and in no file yet."""


class Counters:
    """A status that two threads write and any thread reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._status = CaptureStatus()

    @property
    def status(self) -> CaptureStatus:
        return self._status

    def set(self, **fields: Any) -> None:
        """Change some fields."""
        with self._lock:
            self._status = msgspec.structs.replace(self._status, **fields)

    def add(self, **counts: int) -> None:
        """Count some fields up."""
        with self._lock:
            now = self._status
            sums = {name: getattr(now, name) + count for name, count in counts.items()}
            self._status = msgspec.structs.replace(now, **sums)
