"""Rows from one server to another: the bytes of a COPY TO handed on to a COPY FROM.

A frame of data has the same form in both directions, and one row per frame is what the source
sends. Looking at each would cost more than the rest of the work. So nothing is looked at:

    source ── H d d d d … d c C Z ──►  │ blocks, as they come │  ── d d d d … d c ──► target

Both servers then see the same bytes, cut into the same frames. Only where the stream ends must be
found, without being fooled by values that look like an end. The end is `c C(COPY n) Z`, and the
last bytes received are always held back, so that they are never sent before they were seen. When
what is held back looks like the end, its `c` is sent and both sides are watched:

    the target answers           it read a `c` where a frame begins: that was the end
    the source sends more        it was inside a row; the rest is handed on, and so is what comes

The target is the judge, for it alone cuts frames. An error at the source is found in the same way:
handed on, it is no frame that a target takes in a COPY.

Where a connection is encrypted, libpq reads and writes instead, row by row.
"""

import re
import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.copy.wire import Link, error_of, is_bare, query

__all__ = ["Piped", "SourceError", "pipe"]

_BLOCK: Final = 1 << 20
_HELD: Final = 256
"""More than the frames that end a stream take up."""
_LOW_WATER: Final = 256 << 10
_LULL_MS: Final = 10
"""How long to wait for a block to fill up."""
_RECENT: Final = 16 << 10
"""How much of what was handed on is remembered, to find an error in it."""

_END: Final = re.compile(
    rb"c\0\0\0\x04(?P<behind>C\0\0\0.COPY (?P<rows>\d+)\0Z\0\0\0\x05[IT])\Z", re.DOTALL
)
_READY: Final = re.compile(rb"Z\0\0\0\x05[ITE]\Z")
_HEAD_BYTES: Final = 5
"""Of a frame, before what it carries: a letter and a length."""


class Piped(NamedTuple):
    """What went through."""

    rows_read: int
    rows_written: int
    """Fewer, where something at the target discards rows."""
    bytes: int


class SourceError(Exception):
    """The error is the source's, not the target's."""

    def __init__(self, error: psycopg.Error) -> None:
        super().__init__(str(error))
        self.error = error


def pipe(
    source: psycopg.Connection,
    out: sql.Composed,
    target: psycopg.Connection,
    into: sql.Composed,
) -> Piped:
    """Run `out` (a COPY … TO STDOUT) and `into` (a COPY … FROM STDIN), one feeding the other.

    Both connections are in a transaction, and say nothing below an error (client_min_messages).
    The driver's errors come out: the source's in `SourceError`. Both connections are closed then,
    for something of the stream may still be on its way.
    """
    try:
        if is_bare(source) and is_bare(target):
            return _Forwarding(source, target).run(out.as_string(source), into.as_string(target))
        return _by_row(source, out, target, into)
    except BaseException:
        source.close()
        target.close()
        raise


class _Forwarding:
    """One stream of blocks."""

    def __init__(self, source: psycopg.Connection, target: psycopg.Connection) -> None:
        self._source = Link(source)
        self._target = Link(target)
        self._both = select.poll()
        self._both.register(self._source.socket, select.POLLIN)
        self._both.register(self._target.socket, select.POLLIN)
        self._buffer = bytearray(_HELD + _BLOCK)
        self._held = 0
        """How many bytes at the front of the buffer were received and not sent."""
        self._recent = b""
        self._sent = 0

    def run(self, out: str, into: str) -> Piped:
        try:
            self._target.send(query(into))
            _answer(self._target, b"G")
            self._open(out)
            read = self._stream()
            written = _answer(self._target, b"C").removeprefix(b"COPY ").rstrip(b"\0")
            return Piped(read, int(written), self._sent - read * _HEAD_BYTES)
        finally:
            self._source.close()
            self._target.close()

    def _open(self, out: str) -> None:
        try:
            self._source.send(query(out))
            _answer(self._source, b"H")
        except psycopg.Error as error:
            raise SourceError(error) from error
        rest = self._source.take_rest()
        self._buffer[: len(rest)] = rest
        self._held = len(rest)

    def _stream(self) -> int:
        """Hand on blocks until the target has read the end; how many rows the source has sent."""
        while True:
            tail = bytes(self._buffer[max(0, self._held - _HELD) : self._held])
            if end := _END.search(tail):
                self._send(self._held - len(end["behind"]))
                if self._target_speaks():
                    return int(end["rows"])
            elif _READY.search(tail):  # so ends an error, too
                self._send(self._held)
                if self._target_speaks():
                    self._complain()
            else:
                self._send(self._held - _HELD)
            self._receive()

    def _target_speaks(self) -> bool:
        """Wait until the target says something, or (False) the source has more."""
        ready = {descriptor for descriptor, _ in self._both.poll()}
        return self._target.socket.fileno() in ready

    def _receive(self) -> None:
        if self._sent > _LOW_WATER:
            # One waking per block, instead of one for each of the server's small ones.
            self._source.low_water(_LOW_WATER)
            if not self._source.readable(_LULL_MS):
                self._source.low_water(1)
        if self._target_speaks():
            self._complain()
        try:
            with memoryview(self._buffer) as view:
                self._held += self._source.receive(view[self._held :])
        except psycopg.Error as error:
            raise SourceError(self._source_error() or error) from error

    def _send(self, count: int) -> None:
        if count <= 0:
            return
        try:
            with memoryview(self._buffer) as view:
                self._target.send(view[:count])
        except psycopg.Error:
            self._complain()
            raise
        self._sent += count
        self._recent = (self._recent + self._buffer[max(0, count - _RECENT) : count])[-_RECENT:]
        rest = self._held - count
        self._buffer[:rest] = self._buffer[count : self._held]
        self._held = rest

    def _complain(self) -> None:
        """The target speaks in the middle of the stream: it has an error, or was handed one."""
        found = self._source_error()
        if found is not None:
            raise SourceError(found)
        _answer(self._target, b"")

    def _source_error(self) -> psycopg.Error | None:
        """The error that the source's stream ends with, if it does."""
        tail = self._recent + self._buffer[: self._held]
        ready = _READY.search(tail)
        end = ready.start() if ready else len(tail)
        at = end
        while (at := tail.rfind(b"E", 0, at)) >= 0:
            length = int.from_bytes(tail[at + 1 : at + 5], "big")
            if at + 1 + length == end and tail[at + 5 : at + 6] == b"S":
                return error_of(bytes(tail[at + 5 : end]))
        return None


def _answer(link: Link, wanted: bytes) -> bytes:
    """The payload of the frame that a server is to answer with; its error if it has one.

    What it answers with when a statement is over (`C`) is followed by its being ready.
    """
    frames = link.frames(b"Z" if wanted == b"C" else wanted + b"Z")
    for letter, payload in frames:
        if letter == b"E":
            raise error_of(payload)
    for letter, payload in frames:
        if letter == wanted:
            return payload
    raise psycopg.InterfaceError(f"the server answered {[letter for letter, _ in frames]}")


def _by_row(
    source: psycopg.Connection,
    out: sql.Composed,
    target: psycopg.Connection,
    into: sql.Composed,
) -> Piped:
    """Through libpq, which hands out one row per call; they are written in blocks."""
    sent = 0
    with target.cursor() as writing, source.cursor() as reading:
        with writing.copy(into) as writer, _errors_of_source(), reading.copy(out) as reader:
            rows: list[bytes] = []
            size = 0
            while row := reader.read():
                rows.append(bytes(row))
                size += len(row)
                if size >= _LOW_WATER:
                    _write(writer, rows)
                    sent += size
                    rows, size = [], 0
            _write(writer, rows)
            sent += size
        return Piped(reading.rowcount, writing.rowcount, sent)


class _TargetError(Exception):
    """Marks what is not the source's fault."""

    def __init__(self, error: psycopg.Error) -> None:
        super().__init__(str(error))
        self.error = error


def _write(writer: psycopg.Copy, rows: list[bytes]) -> None:
    try:
        writer.write(b"".join(rows))
    except psycopg.Error as error:
        raise _TargetError(error) from error


@contextmanager
def _errors_of_source() -> Iterator[None]:
    try:
        yield
    except _TargetError as error:
        raise error.error from None
    except psycopg.Error as error:
        raise SourceError(error) from error
