"""The landing of changes: files first, then their rows in the metastore, then the acknowledgement.

Runs on a thread of its own, beside the decoding, one flush after the other:

    flush ──► files written (several at once) ──► held
              held, and the source has said all up to `resolved`
                  ──► folder flushed ──► rows appended, with `resolved` ──► source acknowledged

A transaction that is larger than the buffers comes in several flushes. Its files are held until
the flush with its end: rows come into the log only with the whole transaction.

When it is not known whether an append landed, the log is claimed again, which tells. When it
certainly did not land, it is tried again for a while: to begin anew with the stream may be dear.
What fails for good is told to whoever comes next, and ends the thread.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.postgres.capture.clusters import clustered
from lockgate.endpoints.postgres.capture.status import Counters
from lockgate.model.errors import (
    LockgateError,
    ObjectMissing,
    OutcomeUnknown,
    StaleOwner,
    Transient,
)
from lockgate.model.ids import FeedId, Token
from lockgate.model.positions import Position
from lockgate.model.tables import TableShape
from lockgate.store.changelog import (
    Changelog,
    LogState,
    SchemaChange,
    Segment,
    SegmentFiles,
    sweep,
)
from lockgate.store.changelog.packs import cut, is_small
from lockgate.store.changelog.shapes import shape_of

__all__ = ["Flush", "Landing", "Log"]

_WRITERS: Final = 2
_RETRY_S: Final = (0.05, 2.0)
_CHECK_S: Final = 0.1


class Flush(NamedTuple):
    """What is to be made durable together."""

    tables: Sequence[pa.Table]
    """Changes, each table wholly at or before `resolved`, or wholly beyond it."""
    changes: Sequence[SchemaChange]
    resolved: Position
    """The source has said everything up to here."""
    commit_time: int | None
    shapes: Mapping[int, TableShape] = MappingProxyType({})
    """Tables that look different from `resolved` on, by number."""


class Log(NamedTuple):
    """A change log as its owner holds it."""

    feed: FeedId
    token: Token
    changelog: Changelog
    files: SegmentFiles


class _Held(NamedTuple):
    segment: Segment
    next_seq: int


class _Source(Protocol):
    def acknowledge(self, resolved: Position) -> None: ...


class Landing:
    """Lands flushes in their order. `close` it, whatever happens."""

    def __init__(
        self,
        log: Log,
        state: LogState,
        source: _Source,
        counters: Counters,
        *,
        landed: Callable[[], None],
        patience_s: float,
    ) -> None:
        self._log = log
        self._state = state
        self._source = source
        self._counters = counters
        self._landed = landed
        self._patience_s = patience_s
        self._writer = log.files.writer(log.feed, log.token)
        self._held: list[_Held] = []
        self._unflushed = False
        self._in_doubt = False
        self._turn = threading.Condition()
        self._waiting: Flush | None = None
        self._busy = True
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(_WRITERS, thread_name_prefix=f"segments {log.feed}")
        self._thread = threading.Thread(target=self._run, name=f"landing {log.feed}", daemon=True)
        self._thread.start()

    # --- for the capture's thread ---------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """True when a flush would be begun at once."""
        with self._turn:
            return not self._busy and self._waiting is None

    def check(self) -> None:
        """Raise what has gone wrong."""
        if self._error is not None:
            raise self._error

    def submit(self, flush: Flush, stop: threading.Event) -> bool:
        """Hand a flush over; waits while another one waits. False when `stop` was set meanwhile.

        Raises what has gone wrong.
        """
        with self._turn:
            while self._waiting is not None and not self._error:
                if stop.is_set():
                    return False
                self._turn.wait(_CHECK_S)
            self.check()
            self._waiting = flush
            self._turn.notify_all()
            return True

    def close(self) -> None:
        """End the thread after what it is about, and delete the files that came to nothing."""
        self._ended.set()
        with self._turn:
            self._waiting = None
            self._turn.notify_all()
        self._thread.join()
        self._pool.shutdown()
        if not self._in_doubt:
            # Nobody names them, and nobody will. What cannot be deleted now is swept up later.
            with contextlib.suppress(LockgateError):
                self._log.files.delete(held.segment.path for held in self._held)

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with contextlib.suppress(LockgateError):
                sweep(self._log.changelog, self._log.files, self._log.feed)
            while (flush := self._next()) is not None:
                self._land(flush)
        except BaseException as error:
            with self._turn:
                self._error = error
                self._turn.notify_all()

    def _next(self) -> Flush | None:
        with self._turn:
            self._busy = False
            while self._waiting is None and not self._ended.is_set():
                self._turn.wait()
            flush, self._waiting = self._waiting, None
            self._busy = flush is not None
            self._turn.notify_all()
            return flush

    def _land(self, flush: Flush) -> None:
        self._write(flush.tables, flush.resolved)
        ready = [held for held in self._held if held.segment.high <= flush.resolved]
        if not ready and not flush.changes and flush.resolved == self._state.resolved:
            return
        if self._unflushed:
            self._writer.flush()
            self._unflushed = False
        segments = [held.segment for held in ready]
        next_seq = max([self._state.next_seq, *(held.next_seq for held in ready)])
        state = LogState(flush.resolved, next_seq)
        self._append(segments, flush, state)
        self._state = state
        self._held = [held for held in self._held if held.segment.high > flush.resolved]
        self._counters.add(
            rows=sum(segment.rows for segment in segments),
            bytes=sum(segment.bytes for segment in segments),
            segments=len(segments),
        )
        self._counters.set(resolved=flush.resolved)
        if flush.commit_time is not None:
            self._counters.set(commit_time=flush.commit_time)
        self._landed()
        self._source.acknowledge(flush.resolved)

    # --- files ------------------------------------------------------------------------------------

    def _write(self, tables: Sequence[pa.Table], resolved: Position) -> None:
        if not tables:
            return
        self._unflushed = True
        packs, single = _shared_out(tables, resolved)
        # The largest first, so that no writer is left with it at the end.
        ordered = sorted(single, key=lambda table: table.num_rows, reverse=True)
        try:
            if len(ordered) == 1 and not packs:
                self._hold(ordered[0])
            else:
                writing = [self._pool.submit(self._hold, table) for table in ordered]
                writing += [self._pool.submit(self._hold_pack, pack) for pack in packs]
                for done in writing:
                    done.result()
        except ObjectMissing as error:
            # A newer owner tidies up after us. Or somebody else did, and that is an error.
            naming = self._log.changelog.naming(self._log.feed, [])
            if naming is not None and naming.token > self._log.token:
                raise StaleOwner(
                    "the change log is not this owner's any more",
                    object_=self._log.feed,
                    hint="nothing was written; whoever owns the feed now goes on",
                    cause=error,
                ) from error
            raise

    def _hold(self, table: pa.Table) -> None:
        segment = self._writer.write(*clustered(table, shape_of(table.schema)))
        with self._turn:
            self._held.append(_Held(segment, _next_seq(table)))

    def _hold_pack(self, tables: Sequence[pa.Table]) -> None:
        segments = self._writer.write_pack(tables)
        with self._turn:
            self._held += [
                _Held(segment, _next_seq(table))
                for segment, table in zip(segments, tables, strict=True)
            ]

    # --- rows -------------------------------------------------------------------------------------

    def _append(self, segments: Sequence[Segment], flush: Flush, to: LogState) -> None:
        log = self._log
        deadline = time.monotonic() + self._patience_s
        wait_s = _RETRY_S[0]
        while True:
            try:
                if self._in_doubt:
                    found = log.changelog.claim(log.feed, log.token, self._state.resolved)
                    self._in_doubt = False
                    if found == to:
                        return
                log.changelog.append(
                    log.feed,
                    log.token,
                    segments,
                    flush.changes,
                    to.resolved,
                    to.next_seq,
                    flush.shapes,
                )
                return
            except (Transient, OutcomeUnknown) as error:
                self._in_doubt = self._in_doubt or isinstance(error, OutcomeUnknown)
                if time.monotonic() + wait_s > deadline or self._ended.wait(wait_s):
                    raise
                wait_s = min(2 * wait_s, _RETRY_S[1])


def _shared_out(
    tables: Sequence[pa.Table], resolved: Position
) -> tuple[list[list[pa.Table]], list[pa.Table]]:
    """Which tables share files, and which have their own.

    What is beyond `resolved` waits for the end of its transaction: it is in no pack, for a pack
    comes into the log as a whole.
    """
    small = [
        table
        for table in tables
        if is_small(table) and pc.max(table["position"]).as_py() <= resolved
    ]
    if len(small) < 2:
        return [], list(tables)
    shared = set(map(id, small))
    return list(cut(small)), [table for table in tables if id(table) not in shared]


def _next_seq(table: pa.Table) -> int:
    last: int = pc.max(table["seq"]).as_py()
    return last + 1
