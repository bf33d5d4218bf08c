"""Changes as they happen: START_REPLICATION with pgoutput.

    ours                                 the server's
    START_REPLICATION slot from …  ───►
                                   ◄───  messages, and keepalives with the end of its log
    status: durable up to …        ───►  the slot is confirmed, old log may go

The server ends a connection that is silent for `wal_sender_timeout`. A thread of its own sends the
status often enough, so that whoever reads may take any time over a chunk, or stop reading while
the change log has no room.

One write per row is what the server does, and it is the limit: some 80,000 rows a second here,
whoever receives them. `backlog` is for when that is too slow.
"""

import struct
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from psycopg import sql

from lockgate.endpoints.postgres.pgoutput.frames import Frames
from lockgate.endpoints.postgres.pgoutput.sources import xlog
from lockgate.endpoints.postgres.source.chunks import Chunk, marks, told_end
from lockgate.endpoints.postgres.source.errors import SourceLost
from lockgate.endpoints.postgres.source.inbox import Inbox
from lockgate.endpoints.postgres.source.reports import concerning
from lockgate.endpoints.postgres.source.session import open_reader, setting
from lockgate.endpoints.postgres.source.slot import lsn_text
from lockgate.endpoints.postgres.source.wire import copy_data, open_wire, query
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.positions import Position

__all__ = ["Stream"]

_BUFFER_BYTES: Final = 16 << 20
_LINGER_S: Final = 0.02
"""What comes within it is read together: a little delay for a lot less work."""
_STATUS_S: Final = 10.0
_START_S: Final = 60.0
_FAREWELL_S: Final = 1.0
_COPY_DONE: Final = b"c\0\0\0\4"
_EPOCH_S: Final = 946_684_800
"""PostgreSQL counts from the year 2000: so many seconds after 1970."""


class Stream:
    """An open stream. One thread reads and closes; any thread acknowledges."""

    def __init__(
        self,
        url: PostgresUrl,
        slot: str,
        publication: str,
        after: Position,
        *,
        durable: Position = 0,
        purpose: str = "stream",
        settings: dict[str, str] | None = None,
    ) -> None:
        """Send everything that is not before `after`. Up to `durable` it is durable already.

        `settings` are of the server's session (`logical_decoding_work_mem`). Raises SlotBusy
        when somebody reads from the slot, SlotLost when it is of no use any more.
        """
        self._slot, self._publication, self._label = slot, publication, url.label
        self._durable = durable
        self._received = after
        self._open = False
        self._first: Frames | None = None
        """Frames that came together with the server's consent, changes among them."""
        connection = open_reader(url, purpose, replication=True, settings=settings or {})
        try:
            timeout_s = setting(connection, "wal_sender_timeout") / 1000
            self._wire = open_wire(connection, url.label)
        except BaseException:
            connection.close()
            raise
        self._inbox = Inbox(self._wire, _BUFFER_BYTES)
        self._closing = threading.Event()
        self._pulse = threading.Thread(
            target=self._beat,
            args=(min(_STATUS_S, timeout_s / 3) if timeout_s else _STATUS_S,),
            name=f"lockgate status of {slot}",
            daemon=True,
        )
        try:
            self._start(after)
        except BaseException:
            self._wire.close()
            raise
        self._pulse.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def read(self, timeout_s: float) -> Chunk | None:
        """The next chunk; None when nothing came in time.

        Raises SourceLost, SlotLost, PublicationLost.
        """
        frames, self._first = self._first, None
        if frames is None:
            frames = self._inbox.frames(timeout_s, linger_s=_LINGER_S)
            if frames is None:
                return None
            self._heed(frames)
        data = self._inbox.data
        found = xlog(data, frames.starts, frames.ends)
        chunk = Chunk(data, found.starts, found.ends, None)
        chunk = chunk._replace(wal_end=told_end(chunk, found.keepalives, self._open))
        self._open, end = marks(chunk, self._open)
        self._received = max(self._received, end or 0, chunk.wal_end or 0)
        if any(keepalive.reply for keepalive in found.keepalives):
            self._send_status()
        return chunk

    def acknowledge(self, resolved: Position) -> None:
        """Everything up to `resolved` is durable: the source need not send it again."""
        self._durable = max(self._durable, resolved + 1)
        self._send_status()

    def close(self) -> None:
        """End the stream, with a word to the server if it listens."""
        if self._closing.is_set():
            return
        self._closing.set()
        with suppress(SourceLost):
            self._send_status()
            self._wire.send(_COPY_DONE)
            self._await_end()
        self._wire.close()
        self._pulse.join()

    def abandon(self) -> None:
        """End the stream without a word: the server may have a lot left to send."""
        if not self._closing.is_set():
            self._closing.set()
            self._wire.close()
            self._pulse.join()

    # --- inside ---------------------------------------------------------------------------------

    def _start(self, after: Position) -> None:
        statement = sql.SQL(
            "START_REPLICATION SLOT {} LOGICAL {} (proto_version '1', publication_names {})"
        ).format(
            sql.Identifier(self._slot),
            sql.SQL(lsn_text(after)),  # digits and a slash
            sql.Literal(sql.Identifier(self._publication).as_string()),
        )
        self._wire.send(query(statement.as_string()))
        deadline = time.monotonic() + _START_S
        while True:
            frames = self._inbox.frames(max(0.0, deadline - time.monotonic()))
            if frames is None:
                raise self._lost("it does not begin to send")
            if any(other.kind == "W" for other in frames.others):
                self._heed(frames)
                self._first = frames
                self._send_status()
                return
            self._heed(frames)

    def _heed(self, frames: Frames) -> None:
        """Raise what the server has to say, if it is anything."""
        for other in frames.others:
            if other.kind in "EN":
                report = self._inbox.report(other.start, other.end)
                error = concerning(
                    report, slot=self._slot, publication=self._publication, label=self._label
                )
                if error is not None:
                    raise error
            elif other.kind in "cCZ":
                raise self._lost("it has ended the stream")

    def _send_status(self) -> None:
        durable, received = self._durable, max(self._received, self._durable)
        now_us = int((time.time() - _EPOCH_S) * 1e6)
        status = struct.pack("!cqqqqb", b"r", received, durable, durable, now_us, 0)
        self._wire.send(copy_data(status))

    def _beat(self, every_s: float) -> None:
        """Say that we live, for as long as we do. Whoever reads learns of a lost connection."""
        while not self._closing.wait(every_s):
            with suppress(SourceLost):
                self._send_status()

    def _await_end(self) -> None:
        """Let the server finish what it is about to send; it may be a lot, so not for long."""
        deadline = time.monotonic() + _FAREWELL_S
        while (left := deadline - time.monotonic()) > 0:
            frames = self._inbox.frames(left)
            if frames is not None and any(other.kind in "CZE" for other in frames.others):
                return

    def _lost(self, cause: str) -> SourceLost:
        return SourceLost(
            "the source stopped sending",
            object_=f"{self._slot}, {self._label}",
            hint="it is tried again; a server that shuts down ends its streams",
            operation="read changes",
            cause=cause,
        )
