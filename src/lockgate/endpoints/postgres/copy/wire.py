"""The protocol's frames on the socket of a connection that libpq has opened.

Both ends of a copy speak in frames of one form: a letter, four bytes of length, the rest. Here
is what is needed of them to hand a copy through: statements out, answers and errors in.
"""

import contextlib
import os
import select
import socket
import struct
from typing import Final

import psycopg
from psycopg import errors, pq

from lockgate.endpoints.postgres.waiting import wait_writable

__all__ = ["Frames", "Link", "error_of", "is_bare", "query"]

_HEAD: Final = struct.Struct("!ci")
_BLOCK: Final = 64 << 10
_RECEIVE_BUFFER: Final = 4 << 20

Frames = list[tuple[bytes, bytes]]
"""Letters and payloads."""

_FIELDS: Final = {bytes([field]): field for field in pq.DiagnosticField}


def query(statement: str) -> bytes:
    """The frame that asks the server for one statement."""
    body = statement.encode() + b"\0"
    return _HEAD.pack(b"Q", len(body) + 4) + body


def is_bare(connection: psycopg.Connection) -> bool:
    """True when the bytes on the socket are the protocol's own: neither TLS nor GSSAPI."""
    if connection.pgconn.ssl_in_use:
        return False
    found = connection.execute(
        "SELECT FROM pg_stat_gssapi WHERE pid = pg_backend_pid() AND encrypted"
    ).fetchone()
    return found is None


def error_of(payload: bytes) -> psycopg.Error:
    """The driver's exception for the payload of an ErrorResponse."""
    info: dict[int, bytes | None] = {}
    for field in payload.split(b"\0"):
        if field[:1] in _FIELDS:
            info[_FIELDS[field[:1]]] = field[1:]
    state = (info.get(pq.DiagnosticField.SQLSTATE) or b"XX000").decode()
    words = (info.get(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode("utf-8", "replace")
    try:
        kind: type[psycopg.Error] = errors.lookup(state)
    except KeyError:
        kind = psycopg.DatabaseError
    error = kind(words, info=info)
    error.sqlstate = state
    return error


class Link:
    """One end. While it is open libpq does not touch the connection; afterwards it goes on.

    The socket does not block, as libpq wants it; waiting is done here.
    """

    def __init__(self, connection: psycopg.Connection) -> None:
        # A descriptor of our own for the same socket, so that each side closes its own.
        self.socket = socket.socket(fileno=os.dup(connection.fileno()))
        self._tcp = self.socket.family != socket.AF_UNIX
        self._rest = b""
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)
        with contextlib.suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)

    def close(self) -> None:
        self.low_water(1)
        self.socket.close()

    def low_water(self, count: int) -> None:
        """Be woken only when so many bytes are there; libpq expects 1."""
        if self._tcp:
            with contextlib.suppress(OSError):
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

    def readable(self, timeout_ms: int | None) -> bool:
        """True when something is there to receive, an end of the connection included."""
        return bool(self._poll.poll(timeout_ms))

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """All of it, however long the other side takes. A dead one is the kernel's to notice."""
        left = memoryview(data)
        while left:
            try:
                left = left[self.socket.send(left) :]
            except BlockingIOError:
                wait_writable(self.socket, None)
            except OSError as error:
                raise psycopg.OperationalError(f"sending failed: {error}") from error

    def receive(self, into: memoryview) -> int:
        """What is there, at least one byte; 0 when there is nothing to take just now."""
        try:
            count = self.socket.recv_into(into)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise psycopg.OperationalError(f"receiving failed: {error}") from error
        if count == 0:
            raise psycopg.OperationalError("the server closed the connection unexpectedly")
        return count

    def frames(self, until: bytes) -> Frames:
        """Wait for frames up to one with a letter of `until`. For answers, not for data.

        What follows it is kept for the next call, or for `take_rest`. A frame that says that the
        server is about to close (FATAL) raises at once.
        """
        found: Frames = []
        buffer = memoryview(bytearray(_BLOCK))
        while True:
            while len(self._rest) >= _HEAD.size:
                letter, length = _HEAD.unpack_from(self._rest)
                if len(self._rest) < length + 1:
                    break
                found.append((letter, self._rest[_HEAD.size : length + 1]))
                self._rest = self._rest[length + 1 :]
                if letter == b"E" and b"\0VFATAL\0" in b"\0" + found[-1][1]:
                    raise error_of(found[-1][1])
                if letter in until:
                    return found
            self.readable(None)
            count = self.receive(buffer)
            self._rest += bytes(buffer[:count])

    def take_rest(self) -> bytes:
        """What was received behind the frames that were asked for."""
        rest, self._rest = self._rest, b""
        return rest
