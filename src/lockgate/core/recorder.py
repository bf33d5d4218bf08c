"""Has the newest of one's records durable: one at a time, repeated until it is.

    put ──► on its way ──► landed      the next effect may begin
              ▲    │
              └────┘ not known to be durable: the same again, under the same serial

A record that is put while another is on its way takes its place. The store takes a serial only
after lower ones, so what arrives late does not undo what was put since.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from lockgate.model.ids import Millis

__all__ = ["Recorder"]

R = TypeVar("R")

PATIENCE = 10
"""An answer that never comes is not in the contract; it costs little to ask again."""


class Recorder(Generic[R]):
    """The last record of one writer, and whether it is durable."""

    def __init__(self, record: R, serial: int, retry_ms: int, write: Callable[[R], None]) -> None:
        """`record` is what is durable now, under `serial`."""
        self.record = record
        """What was put last, durable or not."""
        self.durable = True
        self._serial = serial
        self._retry_ms = retry_ms
        self._write = write
        self._again_at: Millis | None = None

    def put(self, now: Millis, record: Callable[[int], R]) -> None:
        """Have this durable instead of whatever was put before; it is made for its serial."""
        self._serial += 1
        self.record = record(self._serial)
        self.durable = False
        self._send(now)

    def _send(self, now: Millis) -> None:
        self._again_at = now + PATIENCE * self._retry_ms
        self._write(self.record)

    def landed(self, serial: int) -> bool:
        """True when that makes the last record durable, for the first time."""
        if serial != self._serial or self.durable:
            return False
        self.durable = True
        self._again_at = None
        return True

    def failed(self, now: Millis, serial: int) -> None:
        """Write it again after a while."""
        if serial == self._serial and not self.durable:
            self._again_at = now + self._retry_ms

    def tick(self, now: Millis) -> None:
        """Write it again if it is time."""
        if self._again_at is not None and now >= self._again_at:
            self._send(now)
