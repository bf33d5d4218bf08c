"""A connection to a PostgreSQL server as bytes: frames of the protocol, whole buffers at a time.

libpq hands out one row per call. At a million rows that is seconds of the client's time, and it
wakes the client for each of them, which slows down the server too. So libpq connects and
authenticates, and then, when the connection is not encrypted, its socket is read directly:

    RawWire      the socket itself; the kernel wakes us only when a lot is there (SO_RCVLOWAT)
    LibpqWire    TLS or GSSAPI: through libpq, with the same frames put together again

Both promise the same: bytes of whole or broken-off frames, in order, in which only the letter, the
length and the payload are told apart. What they mean is for the reader.
"""

import os
import select
import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Final, Protocol

import psycopg
from psycopg import pq

from lockgate.endpoints.postgres.source.errors import SourceLost
from lockgate.endpoints.postgres.source.wire_libpq import LibpqWire
from lockgate.endpoints.postgres.waiting import wait_writable

__all__ = ["LOW_WATER", "RawWire", "Wire", "copy_data", "open_wire", "query"]

LOW_WATER: Final = 256 << 10
"""In a busy stream we are woken when this much has come: a thousand rows instead of one."""

_RECEIVE_BUFFER: Final = 4 << 20
_NAP_S: Final = 0.0005
_SEND_MAX_S: Final = 30.0


class Wire(Protocol):
    """Bytes in both directions. One thread receives; any thread sends."""

    def send(self, frames: bytes) -> None:
        """Send whole frames; SourceLost when the server is gone."""

    def receive(self, into: memoryview, timeout_s: float, low_water: int = 1) -> int:
        """Wait for bytes, put as many as there are into `into`: how many. 0 when none came.

        With a low water mark, to be worth waking for there must be so many; when the time is
        up, fewer are taken too. SourceLost when the server is gone.
        """

    def close(self) -> None:
        """End the connection, at once."""


def query(statement: str) -> bytes:
    """The frame that asks the server for one statement."""
    body = statement.encode() + b"\0"
    return b"Q" + struct.pack("!i", len(body) + 4) + body


def copy_data(payload: bytes) -> bytes:
    """The frame that carries data to the server."""
    return b"d" + struct.pack("!i", len(payload) + 4) + payload


def open_wire(connection: psycopg.Connection, label: str) -> Wire:
    """The bytes of a connection on which nothing is under way. It belongs to the wire from now."""
    if connection.pgconn.transaction_status != pq.TransactionStatus.IDLE:
        raise ValueError("the connection is in use")
    if connection.pgconn.ssl_in_use or _gss_encrypted(connection.pgconn):
        return LibpqWire(connection, label)
    return RawWire(connection, label)


def _gss_encrypted(pgconn: pq.abc.PGconn) -> bool:
    """Only the server can tell. Asked in the one protocol that a replication connection has."""
    answer = pgconn.exec_(
        b"SELECT 1 FROM pg_stat_gssapi WHERE pid = pg_backend_pid() AND encrypted"
    )
    return answer.status != pq.ExecStatus.TUPLES_OK or answer.ntuples > 0


class RawWire:
    """The socket of a connection that libpq has opened and does not touch meanwhile."""

    def __init__(self, connection: psycopg.Connection, label: str) -> None:
        self._connection = connection
        self._label = label
        self._lock = threading.Lock()
        # A second descriptor of the same socket, so that each side closes its own.
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        self._socket.setblocking(False)
        self._tcp = self._socket.family != socket.AF_UNIX
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        self._low_water = 1
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def send(self, frames: bytes) -> None:
        left = memoryview(frames)
        deadline = time.monotonic() + _SEND_MAX_S
        with self._lock:  # Frames of two threads must not mix.
            while left:
                try:
                    left = left[self._socket.send(left) :]
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise self._lost("it takes no bytes any more") from None
                    wait_writable(self._socket, 1.0)
                except OSError as error:
                    raise self._lost(error) from error

    def receive(self, into: memoryview, timeout_s: float, low_water: int = 1) -> int:
        try:
            self._set_low_water(low_water)
            self._poll.poll(max(0, round(timeout_s * 1000)))
            if low_water > 1 and not self._tcp:
                # A Unix socket wakes us for every row. A nap collects some; a long one would
                # stop the server, for little fits into the socket.
                time.sleep(_NAP_S)
            count = self._socket.recv_into(into)
        except BlockingIOError:
            return 0
        except (OSError, ValueError) as error:  # ValueError: closed by another thread
            raise self._lost(error) from error
        if count == 0:
            raise self._lost("it closed the connection")
        return count

    def close(self) -> None:
        # The server learns by the end of the stream, not by libpq's farewell, which would
        # stand in the middle of whatever is going on.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._connection.close()

    def _set_low_water(self, low_water: int) -> None:
        if low_water != self._low_water and self._tcp:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_water)
            self._low_water = low_water

    def _lost(self, cause: BaseException | str) -> SourceLost:
        return SourceLost(
            "the connection to the source was lost",
            object_=self._label,
            hint="it is tried again; see that the server runs and is reached under this address",
            operation="read changes",
            cause=cause,
        )
