"""The capture's loop: fetch, decode, buffer, flush.

    source ──chunk──► decoder ──batches──► buffers ──flush──► landing (its own thread)
       ▲                                                          │
       └────────────────────── acknowledged ◄─────────────────────┘

What is *complete* is what lies up to the end of the last whole transaction, or up to where the
source has said that there is nothing more. A flush takes what is complete, some time after the
first change of it has come; if the landing is still busy with the one before, later and more.
When the buffers are full, a flush takes everything, also of the transaction that is under way,
and is waited for: so memory stays bounded whatever comes.

A restart goes on from what the log holds. Changes that the source sends again are dropped.

A schema change in the log is a JSON list of the rows of the source's log of DDL, or, where it
keeps none, a JSON object: the step that the stream's new description of a table comes to.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import msgspec
import pyarrow as pa

from lockgate.endpoints.postgres.capture.buffers import Buffers, after
from lockgate.endpoints.postgres.capture.landing import Flush, Landing, Log
from lockgate.endpoints.postgres.capture.status import CaptureStatus, Counters
from lockgate.endpoints.postgres.pgoutput.catalogue import Plan
from lockgate.endpoints.postgres.pgoutput.decoder import Decoded, Decoder, SchemaRow
from lockgate.endpoints.postgres.pgoutput.following import Follow, ShapeChange
from lockgate.endpoints.postgres.source.chunks import Chunk
from lockgate.model.ids import FeedId, Token
from lockgate.model.positions import Position
from lockgate.model.schema_changes import together
from lockgate.model.tables import TableName, TableShape
from lockgate.model.value import Value
from lockgate.store.changelog import Changelog, LogState, SchemaChange, SegmentFiles

__all__ = ["Capture", "CaptureOptions", "Follower", "LoggedDdl", "Source", "Understand"]

LoggedDdl = Mapping[str, str | None]
"""A row of the table in which the source logs its DDL: texts by column."""

Understand = Callable[[Sequence[LoggedDdl]], str | None]
"""Makes of one run of such rows what the change log shall say, as JSON; None for nothing."""

Follower = Callable[[Mapping[int, TableShape]], Follow]
"""Begins to follow tables by their descriptions in the stream, from where the log ends: it is
given the shapes that tables have there, as far as they have changed since the log began."""

_IDLE_S: Final = 0.2
_BUSY_S: Final = 0.01


class CaptureOptions(Value, frozen=True):
    """When changes go from memory into files, and how long trouble is borne."""

    flush_ms: int = 200
    """After the first change that is not in the log. The most that the log lags for nothing."""
    idle_ms: int = 250
    """Between two flushes that move the log's end only."""
    rows_max: int = 250_000
    bytes_max: int = 64 << 20
    """What is buffered when a flush does not wait for its time."""
    patience_s: float = 30.0
    """How long the metastore may be away before the capture ends with an error."""


class Source(Protocol):
    """Where changes come from. One thread reads and closes; any thread acknowledges."""

    def read(self, timeout_s: float) -> Chunk | None:
        """The next chunk, valid until the next call; None when nothing came in time."""

    def acknowledge(self, resolved: Position) -> None:
        """Everything up to `resolved` is durable."""

    def close(self) -> None:
        """Let go of the source."""


class Capture:
    """One attempt at capturing one feed, under one token."""

    def __init__(
        self,
        feed: FeedId,
        token: Token,
        *,
        changelog: Changelog,
        files: SegmentFiles,
        open_source: Callable[[Position], Source],
        ddl_table: TableName,
        plan: Plan,
        start: Position,
        understand: Understand | None = None,
        follower: Follower | None = None,
        options: CaptureOptions | None = None,
        landed: Callable[[], None] = lambda: None,
    ) -> None:
        """`open_source` gives everything after a position; `start` is where a new log begins.

        `follower` is for sources that keep no log of their DDL.
        `landed` is called from another thread, each time that the log has moved on.
        """
        self._log = Log(feed, token, changelog, files)
        self._open_source = open_source
        self._ddl_table = ddl_table
        self._plan = plan
        self._start = start
        self._understand = understand or _as_they_are
        self._follower = follower
        self._options = options or CaptureOptions()
        self._landed = landed
        self._stop = threading.Event()
        self._counters = Counters()
        self._buffers = Buffers()
        self._schema: list[SchemaRow | ShapeChange] = []
        self._known: Position = 0
        """What the log held when it was claimed."""
        self._resending = True
        """True as long as what comes may be in the log already."""
        self._complete: Position = 0
        self._commit_time: int | None = None
        self._flushed: Position = 0
        self._first_at: float | None = None
        """When the first change came that is in no flush."""
        self._flushed_at = 0.0

    @property
    def status(self) -> CaptureStatus:
        """How far it is."""
        return self._counters.status

    @property
    def resolved(self) -> Position | None:
        """Up to where the log is complete; None before it is claimed."""
        return self._counters.status.resolved

    def stop(self) -> None:
        """End soon. From any thread."""
        self._stop.set()

    def run(self) -> None:
        """Capture until `stop`.

        Raises StaleOwner when somebody else owns the log now: then this one is over for good and
        nobody need be told. Other errors say themselves whether trying again can help.
        """
        log = self._log
        state = log.changelog.claim(log.feed, log.token, self._start)
        self._known = self._complete = self._flushed = state.resolved
        self._counters.set(resolved=state.resolved, received=state.resolved)
        source = self._open_source(state.resolved)
        try:
            landing = Landing(
                log,
                state,
                source,
                self._counters,
                landed=self._landed,
                patience_s=self._options.patience_s,
            )
            try:
                self._loop(source, self._decoder(state), landing)
            finally:
                landing.close()
        finally:
            source.close()

    def _decoder(self, state: LogState) -> Decoder:
        follow = None
        if self._follower is not None:
            follow = self._follower(self._log.changelog.shapes(self._log.feed))
        return Decoder(
            self._ddl_table, self._plan, state.next_seq, follow=follow, resolved=state.resolved
        )

    # --- the loop -------------------------------------------------------------------------------

    def _loop(self, source: Source, decoder: Decoder, landing: Landing) -> None:
        while not self._stop.is_set():
            landing.check()
            chunk = source.read(self._wait_s(landing))
            if chunk is not None:
                if len(chunk.starts):
                    self._take(decoder.decode(chunk.buffer, chunk.starts, chunk.ends))
                if chunk.wal_end is not None:
                    self._complete = max(self._complete, chunk.wal_end - 1)
            if self._flush(landing) or chunk is not None:
                self._counters.set(
                    received=self._complete,
                    buffered_rows=self._buffers.rows,
                    buffered_bytes=self._buffers.bytes,
                )

    def _take(self, decoded: Decoded) -> None:
        """Buffer what was decoded, without what the log holds already."""
        if decoded.commit is not None:
            self._complete = max(self._complete, decoded.commit.end_lsn - 1)
            self._commit_time = decoded.commit.time
            self._counters.set(received_time=decoded.commit.time)
            self._counters.add(transactions=decoded.transactions)
        if self._resending:
            decoded = self._without_known(decoded)
        for shape, batch in decoded.batches:
            self._buffers.add(shape, batch)
        self._schema += decoded.schema_rows
        self._schema += decoded.shape_changes
        if self._first_at is None and (self._buffers.rows or self._schema):
            self._first_at = time.monotonic()

    def _without_known(self, decoded: Decoded) -> Decoded:
        """Positions rise, so once something new has come nothing old will."""
        batches = [(shape, after(batch, self._known)) for shape, batch in decoded.batches]
        schema_rows = [row for row in decoded.schema_rows if row.position > self._known]
        kept = sum(batch.num_rows for _, batch in batches)
        self._counters.add(dropped=decoded.rows - kept)
        # No shape changes in what the log holds: the decoder does not look for them there.
        self._resending = not kept and not schema_rows and not decoded.shape_changes
        return decoded._replace(batches=batches, schema_rows=schema_rows)

    # --- flushing -------------------------------------------------------------------------------

    @property
    def _is_full(self) -> bool:
        return (
            self._buffers.rows >= self._options.rows_max
            or self._buffers.bytes >= self._options.bytes_max
        )

    def _due_s(self) -> float | None:
        """When there is something to flush, on the monotonic clock; None when there is nothing."""
        low = self._buffers.low
        whole = low is not None and low <= self._complete
        if whole or any(one.position <= self._complete for one in self._schema):
            assert self._first_at is not None
            return self._first_at + self._options.flush_ms / 1000
        if self._complete > self._flushed:
            return self._flushed_at + self._options.idle_ms / 1000
        return None

    def _wait_s(self, landing: Landing) -> float:
        """How long to wait for the source. Not long: to be stopped takes as much."""
        due_s = self._due_s()
        if due_s is None:
            return _IDLE_S
        left_s = due_s - time.monotonic()
        if left_s <= 0:
            return 0.0 if landing.idle else _BUSY_S
        return min(left_s, _IDLE_S)

    def _flush(self, landing: Landing) -> bool:
        """Flush if it is time to. True when it was."""
        if self._is_full:
            whole, rest = self._buffers.take(self._complete), self._buffers.take()
            self._hand_over(landing, [*whole, *rest])
            return True
        due_s = self._due_s()
        if due_s is not None and due_s <= time.monotonic() and landing.idle:
            self._hand_over(landing, self._buffers.take(self._complete))
            return True
        return False

    def _hand_over(self, landing: Landing, tables: list[pa.Table]) -> None:
        complete = [one for one in self._schema if one.position <= self._complete]
        self._schema = [one for one in self._schema if one.position > self._complete]
        changes = self._schema_changes(complete)
        shapes = {one.number: one.shape for one in complete if isinstance(one, ShapeChange)}
        flush = Flush(tables, changes, self._complete, self._commit_time, shapes)
        landing.submit(flush, self._stop)
        self._flushed = self._complete
        self._flushed_at = time.monotonic()
        left = self._buffers.rows or self._schema
        self._first_at = self._flushed_at if left else None

    def _schema_changes(self, found: Sequence[SchemaRow | ShapeChange]) -> list[SchemaChange]:
        """What was said of schemas, as one change per position."""
        runs: dict[Position, list[SchemaRow | ShapeChange]] = {}
        for one in found:
            runs.setdefault(one.position, []).append(one)
        bodies = ((position, self._body(run)) for position, run in runs.items())
        return [SchemaChange(position, body) for position, body in bodies if body is not None]

    def _body(self, run: Sequence[SchemaRow | ShapeChange]) -> str | None:
        """A source that logs its DDL is not followed by descriptions: a run is all of one kind."""
        if steps := [one.step for one in run if isinstance(one, ShapeChange)]:
            return together(steps).to_json()
        return self._understand([one.values for one in run if isinstance(one, SchemaRow)])


def _as_they_are(rows: Sequence[LoggedDdl]) -> str:
    return msgspec.json.encode(rows).decode()
