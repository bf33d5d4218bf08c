"""All changes of a feed's slot, in order, each once: what a capture reads from.

    far behind ──► backlog ──── at the end of the log, all of it durable ────► stream
                      ▲                                                          │
                      └── behind again, or a transaction as large as a backlog ──┘

The two ways of fetching change places only between transactions, at `received`: where the last
transaction that was handed out ended. That a large transaction is coming can be told from its
Begin, which says where its commit is: so much log was written before it ended.

The slot is confirmed up to what was acknowledged, never up to what was received. During a backlog
nobody reads from it; it is advanced from time to time, and before the stream starts.
"""

import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.source import publication as publications
from lockgate.endpoints.postgres.source import slot as slots
from lockgate.endpoints.postgres.source.backlog import Backlog, NoRoomForBacklog
from lockgate.endpoints.postgres.source.chunks import Chunk, before_leap, marks
from lockgate.endpoints.postgres.source.errors import NoSlotLeft
from lockgate.endpoints.postgres.source.session import open_control
from lockgate.endpoints.postgres.source.stream import Stream
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import LockgateError
from lockgate.model.positions import Position
from lockgate.model.value import Value

__all__ = ["Fetch", "FetchOptions"]

_LOOK_S: Final = 5.0
"""How often a stream is compared with the end of the log."""
_POLL_S: Final = 0.1
"""How often it is asked whether all is durable, before the stream can start."""
_RELIEF_BYTES: Final = 1 << 30
"""During a backlog the slot is advanced when it could free so much log."""


class FetchOptions(Value, frozen=True):
    """How changes are fetched."""

    backlog_bytes: int = 32 << 20
    """With more log than this in front of us, it is a backlog. 0 for never."""
    decoding_work_mem: str = "512MB"
    """What the server may use to decode a backlog before it spills transactions to disk, which
    makes it three times as slow. Empty for the server's own setting."""
    chunk_work_mem: str = "128MB"
    """The server holds a chunk of a backlog before it sends it: what is more goes into a file."""
    grace_s: float = 10.0
    """How long a former owner's connection may go on reading before it is ended."""


class Fetch:
    """An open source. One thread reads and closes; any thread acknowledges."""

    def __init__(
        self,
        url: PostgresUrl,
        slot: str,
        publication: str,
        resolved: Position,
        *,
        options: FetchOptions | None = None,
        purpose: str = "capture",
    ) -> None:
        """Everything after `resolved`, up to which everything is durable.

        Takes the slot over from a former owner. Raises SlotLost, PublicationLost, SlotBusy, or
        what keeps us from connecting.
        """
        self._url, self._slot, self._publication = url, slot, publication
        self._options = options or FetchOptions()
        self._purpose = purpose
        self._durable = self.received = resolved + 1
        """`received`: where the last whole transaction that was handed out ended."""
        self._open = False
        self._lock = threading.Lock()
        self._stream: Stream | None = None
        self._backlog: Backlog | None = None
        self._may_backlog = self._options.backlog_bytes > 0
        self._near_bytes = self._options.backlog_bytes // 4
        self._turn = False
        """True when the next read is to begin in the other way."""
        self._look_at = 0.0
        self._control = open_control(url, f"{purpose} control")
        try:
            state = slots.check(self._control, slot)
            if state.confirmed > resolved + 1:
                raise slots.slot_lost(
                    f"the slot stands at {slots.lsn_text(state.confirmed)}, beyond what was "
                    f"fetched from it ({slots.lsn_text(resolved + 1)}): somebody else moved it",
                    slot,
                )
            self._advanced = state.confirmed
            publications.check(self._control, publication)
            slots.release(self._control, slot, self._options.grace_s)
            if self._may_backlog and self._behind() > self._options.backlog_bytes:
                self._begin_backlog()
            if self._backlog is None:
                self._begin_stream()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def way(self) -> str:
        """`stream` or `backlog`: what changes come by at the moment."""
        return "stream" if self._backlog is None else "backlog"

    def read(self, timeout_s: float) -> Chunk | None:
        """The next chunk, valid until the next call; None when nothing came in time.

        Raises SourceLost, SlotLost, PublicationLost. After an error only `close` is of use:
        a new Fetch goes on from what is durable.
        """
        if self._turn:
            self._turn = False
            (self._begin_backlog if self._backlog is None else self._begin_stream)()
        if self._backlog is not None:
            chunk = self._read_backlog(self._backlog, timeout_s)
        else:
            chunk = self._read_stream(timeout_s)
        if chunk is not None:
            self._open, end = marks(chunk, self._open)
            self.received = max(self.received, end or 0, chunk.wal_end or 0)
        return chunk

    def acknowledge(self, resolved: Position) -> None:
        """Everything up to `resolved` is durable: the source need not keep it."""
        with self._lock:
            self._durable = max(self._durable, resolved + 1)
            if self._stream is not None:
                self._stream.acknowledge(resolved)

    def close(self) -> None:
        """Let go of the slot. What is durable is confirmed, as far as the server is there."""
        with self._lock:
            stream, self._stream = self._stream, None
            backlog, self._backlog = self._backlog, None
        if stream is not None:
            stream.close()
        if backlog is not None:
            backlog.close()
            with suppress(LockgateError):
                self._confirm()
        self._control.close()

    # --- the two ways ---------------------------------------------------------------------------

    def _read_stream(self, timeout_s: float) -> Chunk | None:
        assert self._stream is not None
        chunk = self._stream.read(timeout_s)
        if chunk is None or not self._may_backlog:
            return chunk
        leap = before_leap(chunk, self.received, 2 * self._options.backlog_bytes)
        if leap is not None:
            # What follows is received again, by the other way.
            self._turn = True
            return chunk._replace(starts=chunk.starts[:leap], ends=chunk.ends[:leap], wal_end=None)
        now = time.monotonic()
        if now >= self._look_at and not marks(chunk, self._open).open:
            self._look_at = now + _LOOK_S
            self._turn = self._behind() > self._options.backlog_bytes
        return chunk

    def _read_backlog(self, backlog: Backlog, timeout_s: float) -> Chunk | None:
        if backlog.caught_up:
            if self._behind() > self._near_bytes:
                backlog.more()
            elif self._durable >= self.received:
                self._begin_stream()
                return self._read_stream(timeout_s)
            else:
                time.sleep(min(timeout_s, _POLL_S))
                return None
        if self._durable - self._advanced >= _RELIEF_BYTES:
            self._confirm()
        try:
            return backlog.read(timeout_s, self._control)
        except NoRoomForBacklog:
            if self._open:
                raise
            self._may_backlog = False
            self._begin_stream()
            return None

    def _begin_backlog(self) -> None:
        self._end_reader()
        settings = {"work_mem": self._options.chunk_work_mem}
        if self._options.decoding_work_mem:
            settings["logical_decoding_work_mem"] = self._options.decoding_work_mem
        try:
            backlog = Backlog(
                self._url,
                self._slot,
                self._publication,
                self.received,
                purpose=f"{self._purpose} backlog",
                settings=settings,
                near_bytes=self._near_bytes,
            )
        except NoSlotLeft:
            self._may_backlog = False
            self._begin_stream()
            return
        with self._lock:
            self._backlog = backlog

    def _begin_stream(self) -> None:
        was_backlog = self._backlog is not None
        self._end_reader()
        slots.release(self._control, self._slot, self._options.grace_s)
        if was_backlog:
            self._confirm()
        stream = Stream(
            self._url,
            self._slot,
            self._publication,
            self.received,
            durable=self._durable,
            purpose=self._purpose,
        )
        self._look_at = time.monotonic() + _LOOK_S
        with self._lock:
            self._stream = stream

    def _end_reader(self) -> None:
        with self._lock:
            stream, self._stream = self._stream, None
            backlog, self._backlog = self._backlog, None
        if stream is not None:
            stream.abandon()
        if backlog is not None:
            backlog.close()

    # --- the slot -------------------------------------------------------------------------------

    def _confirm(self) -> None:
        """Advance the slot, which nobody reads from, to what is durable."""
        durable = self._durable
        slots.release(self._control, self._slot, self._options.grace_s)
        slots.advance(self._control, self._slot, durable)
        self._advanced = durable

    def _behind(self) -> int:
        """How much log the source has written since what was received."""
        with faults(object_=self._url.label, operation="read the end of the log"):
            return max(0, slots.log_end(self._control) - self.received)
