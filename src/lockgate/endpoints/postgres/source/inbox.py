"""Frames out of a wire, a whole buffer at a time, and what the server says beside data.

One large buffer is filled from the wire, and all whole frames in it are found at once. What is cut
off at its end moves to the front when the next filling begins: until then everything that was
handed out stays as it is. A frame that is larger than the buffer makes the buffer larger, for
as long as that frame is there.
"""

import time
from typing import Final, NamedTuple

import numpy as np
import psycopg
from psycopg import errors as pg

from lockgate.endpoints.postgres.pgoutput.frames import Frames, find_frames
from lockgate.endpoints.postgres.pgoutput.loads import SPARE, Bytes
from lockgate.endpoints.postgres.source.wire import LOW_WATER, Wire

__all__ = ["Inbox", "Report"]

_HEAD: Final = 5
_READY: Final = b"Z\0\0\0\5"
_PLENTY: Final = 8 * LOW_WATER
_LINGERS_MAX: Final = 5
_ANSWER_S: Final = 1.0


class Report(NamedTuple):
    """An error or a notice of the server's."""

    severity: str
    state: str
    message: str
    detail: str

    def as_error(self) -> psycopg.Error:
        """The driver's error for it, as if the driver had read it."""
        text = f"{self.message}\nDETAIL:  {self.detail}" if self.detail else self.message
        try:
            return pg.lookup(self.state)(text)
        except KeyError:
            return psycopg.DatabaseError(text)


class Inbox:
    """The receiving end of a wire. For one thread."""

    def __init__(self, wire: Wire, size: int) -> None:
        self._wire = wire
        self._size = size
        self._buffer: Bytes = np.empty(size + SPARE, np.uint8)
        self._filled = 0
        self._consumed = 0

    @property
    def data(self) -> Bytes:
        """What the frames that were handed out lie in, with `SPARE` bytes after them."""
        return self._buffer[: self._filled + SPARE]

    def frames(self, timeout_s: float, *, linger_s: float = 0.0) -> Frames | None:
        """Wait for frames: all whole ones that are there, None when there is none in time.

        Once something is there, more is waited for until a lot is there, or nothing has come
        for `linger_s`, or a few times as long have passed: to decode much at once is quicker.
        """
        self._make_room()
        deadline = time.monotonic() + timeout_s
        if not self._fill(max(0.0, deadline - time.monotonic()), 1):
            return None
        over = time.monotonic() + _LINGERS_MAX * linger_s
        while linger_s and self._filled < _PLENTY and time.monotonic() < over:
            if not self._fill(linger_s, LOW_WATER):
                break
        while not self._whole():
            self._make_room()
            left = deadline - time.monotonic()
            missing = max(1, self._need() - self._filled)
            if not self._fill(max(0.0, left), min(missing, LOW_WATER)) and left <= 0:
                return None
        return self._found()

    def answer(self, timeout_s: float) -> Frames | None:
        """Wait for a statement's answer: all whole frames of it that are there.

        None when nothing has come in time. Once something has come, the rest is waited for, up
        to what the buffer holds, if only it keeps coming: the sooner the server is rid of it,
        the sooner it works on the next statement.
        """
        self._make_room()
        deadline = time.monotonic() + timeout_s
        while not (self._whole() and (self._is_full or self._seems_ready())):
            self._make_room()
            left = deadline - time.monotonic()
            # A result comes in large pieces by itself, and its end is not to be waited for.
            came = self._fill(max(0.0, left), 1)
            if came and self._filled == came:
                deadline = max(deadline, time.monotonic() + _ANSWER_S)
            if not came and left <= 0:
                if not self._whole():
                    return None
                break
        return self._found()

    def report(self, start: int, end: int) -> Report:
        """The error or notice in the payload at [start, end)."""
        fields: dict[str, str] = {}
        for field in self._buffer[start:end].tobytes().split(b"\0"):
            if field:
                fields[chr(field[0])] = field[1:].decode("utf-8", "replace")
        severity = fields.get("V") or fields.get("S", "")
        return Report(severity, fields.get("C", ""), fields.get("M", ""), fields.get("D", ""))

    @property
    def _is_full(self) -> bool:
        return self._filled >= len(self._buffer) - SPARE

    def _found(self) -> Frames:
        frames = find_frames(self._buffer[: self._filled])
        self._consumed = frames.consumed
        return frames

    def _fill(self, timeout_s: float, low_water: int) -> int:
        room = len(self._buffer) - SPARE - self._filled
        if not room:
            return 0
        into = self._buffer.data[self._filled : self._filled + room]
        count = self._wire.receive(into, timeout_s, min(low_water, room))
        self._filled += count
        return count

    def _whole(self) -> bool:
        """True when the first frame is there to its end. Only its head is looked at."""
        return 0 < self._need() <= self._filled

    def _need(self) -> int:
        """How long the first frame is; 0 when that is not known yet."""
        if self._filled < _HEAD:
            return 0
        return 1 + int.from_bytes(self._buffer[1:_HEAD].tobytes(), "big")

    def _seems_ready(self) -> bool:
        """True when the bytes end as the answer to a statement does."""
        return self._buffer[max(0, self._filled - 6) : self._filled - 1].tobytes() == _READY

    def _make_room(self) -> None:
        """Move what is left over to the front of a buffer into which its first frame fits."""
        rest = self._buffer[self._consumed : self._filled]
        size = self._size
        if len(rest) >= _HEAD:
            size = max(size, 1 + int.from_bytes(rest[1:_HEAD].tobytes(), "big"))
        if size + SPARE != len(self._buffer):
            self._buffer = np.empty(size + SPARE, np.uint8)
        elif not self._consumed:
            return
        self._buffer[: len(rest)] = rest
        self._filled, self._consumed = len(rest), 0
