"""The bytes of an encrypted connection: libpq decrypts, and hands out payloads one by one.

Frames are put together again from what libpq hands out, so that a reader sees the same bytes as
on a bare socket. It costs a Python step per row: an encrypted source is slower to catch up with.

libpq is not made for two threads at once. A lock is held for each call, and never while waiting.
"""

import select
import struct
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Final

import psycopg
from psycopg import pq

from lockgate.endpoints.postgres.source.errors import SourceLost
from lockgate.endpoints.postgres.waiting import wait_either

__all__ = ["LibpqWire"]

_READY: Final = b"Z\0\0\0\5I"
_ANSWERS: Final[dict[int, bytes]] = {
    pq.ExecStatus.COPY_OUT: b"H\0\0\0\7\1\0\0",
    pq.ExecStatus.COPY_BOTH: b"W\0\0\0\7\0\0\0",
    pq.ExecStatus.COMMAND_OK: b"C\0\0\0\5\0",
}
"""What says that a statement has come so far, with as little in it as the reader looks at."""

_FIELDS: Final = {
    b"S": pq.DiagnosticField.SEVERITY,
    b"V": pq.DiagnosticField.SEVERITY_NONLOCALIZED,
    b"C": pq.DiagnosticField.SQLSTATE,
    b"M": pq.DiagnosticField.MESSAGE_PRIMARY,
    b"D": pq.DiagnosticField.MESSAGE_DETAIL,
}


class LibpqWire:
    """See `wire.Wire`."""

    def __init__(self, connection: psycopg.Connection, label: str) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._label = label
        self._lock = threading.Lock()
        self._ready: deque[memoryview] = deque()
        """Frames that libpq has handed out and the reader has not taken."""
        self._copying = False
        self._asked = 0
        """Statements whose end is to come."""
        self._pgconn.notice_handler = self._notice
        self._poll = select.poll()
        self._poll.register(self._pgconn.socket, select.POLLIN)

    def send(self, frames: bytes) -> None:
        with self._lock:
            at = 0
            try:
                while at < len(frames):
                    end = at + 1 + int.from_bytes(frames[at + 1 : at + 5], "big")
                    self._send(frames[at : at + 1], frames[at + 5 : end])
                    at = end
                self._flush()
            except psycopg.Error as error:
                raise self._lost(error) from error

    def _send(self, kind: bytes, payload: bytes) -> None:
        if kind == b"Q":
            if self._asked:
                # libpq knows one statement at a time: the next waits until this one has ended.
                raise ValueError("a statement is under way")
            self._pgconn.send_query(payload[:-1])
            self._asked = 1
        elif kind == b"d":
            self._pgconn.put_copy_data(payload)
        elif kind == b"c":
            self._pgconn.put_copy_end()
        else:
            raise ValueError(f"a frame of kind {kind!r} is not sent")

    def _flush(self) -> None:
        deadline = time.monotonic() + 30.0
        while self._pgconn.flush():
            if time.monotonic() > deadline:
                raise psycopg.OperationalError("it takes no bytes any more")
            if wait_either(self._pgconn.socket, 1.0):
                self._pgconn.consume_input()

    def receive(self, into: memoryview, timeout_s: float, low_water: int = 1) -> int:
        deadline = time.monotonic() + timeout_s
        filled = 0
        try:
            while True:
                with self._lock:
                    filled += self._take(into[filled:])
                left = deadline - time.monotonic()
                if filled == len(into) or filled >= low_water or left <= 0:
                    return filled
                if self._poll.poll(round(left * 1000)):
                    with self._lock:
                        self._pgconn.consume_input()
        except (psycopg.Error, OSError, ValueError) as error:
            raise self._lost(error) from error

    def _take(self, into: memoryview) -> int:
        """What is there of frames, as much as fits."""
        filled = 0
        while filled < len(into):
            if not self._ready and not self._next():
                break
            frame = self._ready.popleft()
            part = frame[: len(into) - filled]
            into[filled : filled + len(part)] = part
            filled += len(part)
            if len(part) < len(frame):
                self._ready.appendleft(frame[len(part) :])
        return filled

    def _next(self) -> bool:
        """Have libpq hand out one more frame. False when there is none yet."""
        if self._copying:
            size, payload = self._pgconn.get_copy_data(1)
            if size > 0 and payload is not None:
                self._put(b"d" + struct.pack("!i", size + 4))
                self._ready.append(memoryview(payload))
                return True
            if size == 0:
                return bool(self._ready)  # a notice may have come instead
            self._copying = False  # how it ended, the result tells
        if not self._asked or self._pgconn.is_busy():
            return bool(self._ready)
        result = self._pgconn.get_result()
        if result is None:
            self._asked = 0
            self._put(_READY)
        elif result.status in _ANSWERS:
            self._copying = result.status != pq.ExecStatus.COMMAND_OK
            self._put(_ANSWERS[result.status])
        else:
            if result.error_field(pq.DiagnosticField.SQLSTATE) is None:
                raise psycopg.OperationalError(result.get_error_message())
            self._put(_report(b"E", result))
        return True

    def _notice(self, result: pq.abc.PGresult) -> None:
        self._put(_report(b"N", result))

    def _put(self, frame: bytes) -> None:
        self._ready.append(memoryview(frame))

    def close(self) -> None:
        with self._lock, suppress(psycopg.Error):
            self._connection.close()

    def _lost(self, cause: BaseException) -> SourceLost:
        return SourceLost(
            "the connection to the source was lost",
            object_=self._label,
            hint="it is tried again; see that the server runs and is reached under this address",
            operation="read changes",
            cause=cause,
        )


def _report(kind: bytes, result: pq.abc.PGresult) -> bytes:
    """An error or a notice as the server sent it, as far as anybody reads it."""
    body = b""
    for letter, field in _FIELDS.items():
        value = result.error_field(field)
        if value is not None:
            body += letter + value + b"\0"
    body += b"\0"
    return kind + struct.pack("!i", len(body) + 4) + body
