"""The plugin's messages inside the data frames, for the two ways of asking a server for them.

- The replication protocol wraps each message into XLogData, with positions of its own, and sends
  keepalives between them.
- `COPY (SELECT data FROM pg_logical_slot_get_binary_changes(…)) TO STDOUT (FORMAT binary)`, and
  the same with `peek`, send a row of one column per message.
"""

from typing import Final, NamedTuple

import numpy as np

from lockgate.endpoints.postgres.pgoutput.loads import Buffer, Bytes, Indexes, everywhere
from lockgate.endpoints.postgres.pgoutput.malformed import Malformed
from lockgate.model.positions import Position

__all__ = ["CopyRows", "Keepalive", "XLog", "xlog"]

_XLOG, _KEEPALIVE = b"wk"
_XLOG_HEAD: Final = 25
_KEEPALIVE_SIZE: Final = 18

_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
_COPY_HEAD: Final = len(_SIGNATURE) + 8
_ROW_HEAD: Final = 6
_TRAILER: Final = 0xFFFF


class Keepalive(NamedTuple):
    """The server lives, and has sent everything of interest up to `wal_end`."""

    wal_end: Position
    reply: bool
    """True when it wants an answer at once."""
    after: int
    """So many messages come before it."""


class XLog(NamedTuple):
    """The messages and keepalives of a replication connection's data frames."""

    starts: Indexes
    ends: Indexes
    wal_end: Position | None
    """The end of the server's log when it sent the last message."""
    keepalives: list[Keepalive]


def xlog(buffer: Buffer, starts: Indexes, ends: Indexes) -> XLog:
    """The messages in the payloads at [starts, ends) of the buffer."""
    data: Bytes = np.frombuffer(buffer, np.uint8)
    if (ends <= starts).any():
        raise Malformed("a data frame is empty", object_="replication connection")
    kinds = data[starts]
    is_message, is_keepalive = kinds == _XLOG, kinds == _KEEPALIVE
    sizes = np.where(is_message, _XLOG_HEAD, _KEEPALIVE_SIZE)
    if not (is_message | is_keepalive).all() or (ends - starts < sizes).any():
        raise Malformed("a data frame is of no known kind", object_="replication connection")
    words = everywhere(data, ">i8")
    keepalives = [
        Keepalive(
            int(words[starts[number] + 1]),
            bool(data[starts[number] + 17]),
            int(np.count_nonzero(is_message[:number])),
        )
        for number in np.flatnonzero(is_keepalive)
    ]
    if keepalives:
        starts, ends = starts[is_message], ends[is_message]
    wal_end = int(words[starts[-1] + 9]) if len(starts) else None
    return XLog(starts + _XLOG_HEAD, ends, wal_end, keepalives)


class CopyRows:
    """The rows of one binary COPY with one column, in any number of buffers."""

    def __init__(self) -> None:
        self._begun = False
        self.ended = False
        """True when the end of the COPY was seen."""

    def messages(self, buffer: Buffer, starts: Indexes, ends: Indexes) -> tuple[Indexes, Indexes]:
        """Where the rows' values are, of the payloads at [starts, ends) of the buffer."""
        data: Bytes = np.frombuffer(buffer, np.uint8)
        if not self._begun and len(starts):
            starts = starts.copy()
            starts[0] += self._head(data[starts[0] : ends[0]].tobytes())
            self._begun = True
            # The head may come in a frame of its own, or with the first row.
            starts, ends = (each[1:] if starts[0] == ends[0] else each for each in (starts, ends))
        if not len(starts):
            return starts, ends
        if self.ended or (ends - starts < 2).any():
            raise _broken("a row has no columns")
        counts = everywhere(data, ">u2")[starts]
        if counts[-1] == _TRAILER and ends[-1] - starts[-1] == 2:
            self.ended = True
            starts, ends, counts = starts[:-1], ends[:-1], counts[:-1]
        if (counts != 1).any() or (ends - starts < _ROW_HEAD).any():
            raise _broken("a row has not one column")
        starts = starts + _ROW_HEAD
        if (everywhere(data, ">u4")[starts - 4] != ends - starts).any():
            raise _broken("a row is not as long as its frame")
        return starts, ends

    def _head(self, frame: bytes) -> int:
        """How long the head of the COPY is."""
        if not frame.startswith(_SIGNATURE) or len(frame) < _COPY_HEAD:
            raise _broken("it does not begin with the signature")
        size = _COPY_HEAD + int.from_bytes(frame[_COPY_HEAD - 4 : _COPY_HEAD], "big")
        if size > len(frame):
            raise _broken("its head is cut off")
        return size


def _broken(what: str) -> Malformed:
    return Malformed(f"the COPY cannot be read: {what}", object_="binary COPY of changes")
