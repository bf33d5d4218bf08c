"""Changes that wait: fetched in bulk through a temporary slot, four times as fast as the stream.

The stream costs the server a system call per row. The same changes as the result of a query do
not: the server decodes a chunk, and a binary COPY carries it over. But whatever *gets* changes from
a slot confirms them, and they are not durable with us yet. So they are got from a copy:

    the feed's slot ──── confirmed only when the change log is durable ─────────────►
          └─ copy ─ temporary slot ── chunk ── chunk ── chunk ──┤ dropped with the session

Nothing is lost when anybody dies: the temporary slot goes with its session, the feed's slot has not
moved. The next chunk is asked for as soon as one has come in whole, so the server decodes it
while we decode this one.

Each call makes the server read its log again from the temporary slot's restart position, which
lags behind by up to some seconds' worth of log. So chunks are as large as the buffer allows, and
not smaller: with 10,000 changes a chunk, four fifths of the time went into reading again.

A chunk ends with a transaction, so a huge one comes as one chunk, through a temporary file of the
server's if need be, and is handed out in pieces: memory here stays bounded.
"""

from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import psycopg
from psycopg import errors as pg
from psycopg import sql

from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.pgoutput.frames import Frames
from lockgate.endpoints.postgres.pgoutput.sources import CopyRows
from lockgate.endpoints.postgres.source import slot as slots
from lockgate.endpoints.postgres.source.chunks import Chunk
from lockgate.endpoints.postgres.source.errors import NoSlotLeft
from lockgate.endpoints.postgres.source.inbox import Inbox
from lockgate.endpoints.postgres.source.names import temporary_slot_name
from lockgate.endpoints.postgres.source.reports import concerning
from lockgate.endpoints.postgres.source.session import open_reader
from lockgate.endpoints.postgres.source.wire import open_wire, query
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import EndpointRefused, LockgateError
from lockgate.model.positions import Position

__all__ = ["Backlog", "NoRoomForBacklog"]

_BUFFER_BYTES: Final = 64 << 20
_CHANGES_FIRST: Final = 50_000
_CHANGES_MAX: Final = 500_000
_GROWTH: Final = 4
_CANCEL_S: Final = 5.0
_NO_ROOM: Final = frozenset({"53100", "53200", "53400"})
"""Disk, memory, temp_file_limit: the server cannot hold a whole chunk."""


class NoRoomForBacklog(EndpointRefused):
    """The server cannot hold what waits all at once. The stream does not ask that of it."""

    code = "no-room-for-backlog"


class Backlog:
    """What waits in a slot. For one thread."""

    def __init__(
        self,
        url: PostgresUrl,
        slot: str,
        publication: str,
        after: Position,
        *,
        purpose: str = "backlog",
        settings: dict[str, str] | None = None,
        buffer_bytes: int = _BUFFER_BYTES,
        changes: int = _CHANGES_FIRST,
        near_bytes: int = 0,
    ) -> None:
        """Fetch everything that is not before `after`, about so many `changes` at first, until
        no more than `near_bytes` of log are left.

        Raises NoSlotLeft when the server has no slot to spare, SlotLost when the slot is of no
        use any more.
        """
        self._slot, self._publication, self._label = slot, publication, url.label
        self._connection = open_reader(url, purpose, replication=False, settings=settings or {})
        try:
            self.temporary = temporary_slot_name(slot, self._connection.info.backend_pid)
            slots.check(self._connection, slot)
            self._copy_slot()
            slots.advance(self._connection, self.temporary, after)
            self._wire = open_wire(self._connection, url.label)
        except BaseException:
            self._connection.close()
            raise
        self._buffer_bytes = buffer_bytes
        self._near_bytes = near_bytes
        self._inbox = Inbox(self._wire, buffer_bytes)
        self._rows = CopyRows()
        self._wanted = changes
        self._changes = self._bytes = 0
        """Of the chunk that is coming in."""
        self._busy = False
        self.caught_up = False
        """True when the last chunk went to the end of the log, or near it. Then nothing comes
        until `more` asks for it."""
        self.more()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def more(self) -> None:
        """Ask the server for the next chunk."""
        statement = sql.SQL(
            "COPY (SELECT data FROM pg_logical_slot_get_binary_changes({}, NULL, {}, "
            "'proto_version', '1', 'publication_names', {})) TO STDOUT (FORMAT binary)"
        ).format(
            sql.Literal(self.temporary),
            sql.Literal(self._wanted),
            sql.Literal(sql.Identifier(self._publication).as_string()),
        )
        self._rows = CopyRows()
        self._changes = self._bytes = 0
        self.caught_up = False
        self._wire.send(query(statement.as_string()))
        self._busy = True

    def read(self, timeout_s: float, control: psycopg.Connection) -> Chunk | None:
        """The next changes; None when nothing came in time, or nothing was asked for.

        How far a whole chunk reaches is read over `control`. Raises SourceLost, SlotLost,
        PublicationLost, NoRoomForBacklog.
        """
        if not self._busy:
            return None
        frames = self._inbox.answer(timeout_s)
        if frames is None:
            return None
        done = self._heed(frames)
        data = self._inbox.data
        starts, ends = self._rows.messages(data, frames.starts, frames.ends)
        self._changes += len(starts)
        self._bytes += frames.consumed
        wal_end = None
        if done:
            self._busy = False
            wal_end = slots.check(control, self.temporary).confirmed
            # Another look at the log's end costs the server all that it has decoded since its
            # restart position, a giant transaction among it: not for the little that is left.
            self.caught_up = (
                self._changes < self._wanted or slots.log_end(control) - wal_end <= self._near_bytes
            )
            self._wanted = self._next_size()
            if not self.caught_up:
                self.more()
        return Chunk(data, starts, ends, wal_end)

    def close(self) -> None:
        """End the session, and the temporary slot with it, also in the middle of a chunk."""
        if self._busy:
            # A server that is decoding notices only when it has something to send.
            self._busy = False
            with suppress(psycopg.Error):
                self._connection.cancel_safe(timeout=_CANCEL_S)
        self._wire.close()

    # --- inside ---------------------------------------------------------------------------------

    def _copy_slot(self) -> None:
        try:
            with faults(object_=self._slot, operation="copy a slot"):
                self._connection.execute(
                    "SELECT pg_copy_logical_replication_slot(%s, %s, true)",
                    (self._slot, self.temporary),
                )
        except LockgateError as error:
            if not isinstance(error.__cause__, pg.ConfigurationLimitExceeded):
                raise
            raise NoSlotLeft(
                "the server has no replication slot to spare",
                object_=self._slot,
                hint="one more than there are feeds lets a feed catch up several times as fast: "
                "raise max_replication_slots (needs a restart)",
                operation="copy a slot",
                cause=error.__cause__,
            ) from error

    def _heed(self, frames: Frames) -> bool:
        """True when the chunk is complete. Raises what the server has to say otherwise."""
        done = False
        for other in frames.others:
            if other.kind in "EN":
                report = self._inbox.report(other.start, other.end)
                error = concerning(
                    report,
                    slot=self.temporary,
                    publication=self._publication,
                    label=self._label,
                )
                if error is not None and report.state in _NO_ROOM:
                    raise NoRoomForBacklog(
                        "the server has no room for a chunk of changes",
                        object_=self._slot,
                        hint="the slower stream is used; see temp_file_limit and the disk",
                        operation="read changes",
                        cause=report.as_error(),
                    )
                if error is not None:
                    raise error
            done = done or other.kind == "Z"
        return done

    def _next_size(self) -> int:
        """So many changes that a chunk just fits into the buffer: then it comes in at once."""
        fits = self._buffer_bytes * self._changes // max(1, self._bytes) * 9 // 10
        room = min(fits, _CHANGES_MAX) if self._changes else self._wanted
        return max(1, min(self._wanted * _GROWTH, room))
