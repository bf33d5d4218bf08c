"""Both sides of a running feed at one position: two snapshots that show the same rows.

    hold the feed where it is          so that it does not run past what comes next
    snapshot of the source at R        (source/export); R lies behind where the feed is held
    hold the feed at R                 every span comes to stand at exactly R
    a sign of life at the source       so that an idle log goes on behind R, and capture knows
    snapshot of the target             in which every row of the fence stands at R
    release                            the feed goes on; both snapshots stay

What proves the alignment is the target's own snapshot: rows and positions are committed together,
so if all positions that it shows are R, the rows that it shows are those of R. Whether the hold was
still on at that moment does not matter then; it only brings the moment about.

The hold ends by itself soon after whoever does this has died, and the snapshots end with his
sessions.

Who wants to write at that position keeps the feed held (`aligned_and_held`), and has to look at the
hold and at the positions again in the transaction that writes (`sink/gate.enter_held`): he may have
been paused since, and then the hold is over and the feed beyond.
"""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

import psycopg
from msgspec import structs
from psycopg.rows import tuple_row

from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.sink.hold import Stands, stands
from lockgate.endpoints.postgres.source import heartbeat
from lockgate.endpoints.postgres.source.export import export, exported_at_a_position, held_session
from lockgate.endpoints.postgres.source.slot import lsn_text
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import EndpointBusy, LockgateError, Transient
from lockgate.model.ids import FeedId
from lockgate.model.positions import Position
from lockgate.model.value import Value

__all__ = ["Aligned", "HeldFeed", "NotAligned", "aligned", "aligned_and_held"]

_HOLD_S: Final = 30.0
"""A hold lasts so long after it was last asked for."""
_SLOT_S: Final = 10.0
"""So long a transaction at the source may keep its snapshot away. The feed is held meanwhile."""
_POLL_S: Final = 0.05
_BEAT_S: Final = 1.0
_OPERATION: Final = "align a feed"


class NotAligned(Transient):
    """The two sides were not brought to one position in time."""

    code = "not-aligned"


class HeldFeed(Value, frozen=True):
    """A feed that somebody holds, by the name of the hold."""

    feed: FeedId
    hold_id: str
    position: Position


class Aligned(Value, frozen=True):
    """Both sides as of one position, for SET TRANSACTION SNAPSHOT in their databases."""

    position: Position
    source_snapshot: str
    target_snapshot: str
    held: HeldFeed | None = None
    """By which the feed is held for as long as the block lasts, if it is."""


@contextmanager
def aligned(
    source: PostgresUrl,
    target: PostgresUrl,
    feed: FeedId,
    *,
    timeout_s: float = 120.0,
    check: Callable[[], None] = lambda: None,
) -> Iterator[Aligned]:
    """Snapshots of both sides that can be read under while the block lasts; the feed goes on.

    NotAligned when they are not had in time, and EndpointBusy when a transaction that is left open
    at the source is in the way. `check` is called now and then while it waits, and may raise.
    """
    run = _Run(source, target, feed, time.monotonic() + timeout_s, check)
    with ExitStack() as snapshots:
        with PostgresSink(target) as sink, run.released(sink):
            found = run.align(sink, snapshots)
        yield found


@contextmanager
def aligned_and_held(
    source: PostgresUrl,
    target: PostgresUrl,
    feed: FeedId,
    *,
    timeout_s: float = 120.0,
    check: Callable[[], None] = lambda: None,
) -> Iterator[Aligned]:
    """The same, and the feed stays at that position while the block lasts.

    It promises nothing to whoever writes there: see above.
    """
    run = _Run(source, target, feed, time.monotonic() + timeout_s, check)
    with ExitStack() as snapshots, PostgresSink(target) as sink, run.released(sink):
        found = run.align(sink, snapshots)
        with run.kept_up(sink, found.position):
            held = HeldFeed(feed, run.hold_id, found.position)
            yield structs.replace(found, held=held)


class _Run:
    """One alignment."""

    def __init__(
        self,
        source: PostgresUrl,
        target: PostgresUrl,
        feed: FeedId,
        deadline: float,
        check: Callable[[], None],
    ) -> None:
        self._source, self._target, self._feed = source, target, feed
        self._deadline = deadline
        self._check = check
        self.hold_id = f"align {uuid.uuid4().hex}"
        self._held_until_s = 0.0
        self._beats = heartbeat.Heartbeat(source, feed, _BEAT_S)

    def align(self, sink: PostgresSink, snapshots: ExitStack) -> Aligned:
        """Both snapshots, left with the stack; the feed is held."""
        self._await_copies(sink)
        self._hold(sink, None)
        left_s = max(0.1, self._deadline - time.monotonic())
        taken = snapshots.enter_context(
            exported_at_a_position(self._source, self._feed, min(_SLOT_S, left_s))
        )
        self._hold(sink, taken.position)
        at_target = self._await_target(sink, taken.position, snapshots)
        return Aligned(taken.position, taken.snapshot, at_target)

    @contextmanager
    def released(self, sink: PostgresSink) -> Iterator[None]:
        """When the block ends, whatever happens, the feed is not held any more."""
        try:
            yield
        finally:
            with suppress(LockgateError):  # then it ends by itself
                sink.release(self._feed, self.hold_id)
            self._beats.close()

    @contextmanager
    def kept_up(self, sink: PostgresSink, position: Position) -> Iterator[None]:
        """Hold on while the block lasts. A hold that is lost stays lost: the feed is beyond."""
        over = threading.Event()

        def keep() -> None:
            while not over.wait(_HOLD_S / 3):
                with suppress(Transient):
                    sink.hold(self._feed, self.hold_id, position, _HOLD_S)

        def keep_until_lost() -> None:
            with suppress(LockgateError):
                keep()

        thread = threading.Thread(target=keep_until_lost, name="hold", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _await_copies(self, sink: PostgresSink) -> None:
        """Rows that are being copied are newer than their span's position, and it does not move."""
        while True:
            found = sink.stands(self._feed)
            if found is not None and found.copied:
                return
            self._wait(found, None)

    def _hold(self, sink: PostgresSink, upto: Position | None) -> None:
        while True:
            try:
                sink.hold(self._feed, self.hold_id, upto, _HOLD_S)
                self._held_until_s = time.monotonic() + _HOLD_S
                return
            except EndpointBusy:
                # Somebody else holds it, or a batch takes its time. What we hold is held on.
                if time.monotonic() >= self._deadline:
                    raise
                self._check()
                time.sleep(_POLL_S)

    def _await_target(self, sink: PostgresSink, position: Position, snapshots: ExitStack) -> str:
        while True:
            if time.monotonic() >= self._held_until_s - _HOLD_S / 2:
                self._hold(sink, position)
            found = sink.stands(self._feed)
            if found is not None and found.exactly(position):
                snapshot = self._seal(position, snapshots)
                if snapshot is not None:
                    return snapshot
            self._wait(found, position)

    def _seal(self, position: Position, snapshots: ExitStack) -> str | None:
        """A snapshot of the target that shows everything at the position; None if it does not."""
        with ExitStack() as attempt:
            session = attempt.enter_context(held_session(self._target, self._feed))
            with faults(object_=self._target.label, operation=_OPERATION):
                snapshot = export(session)
                found = _stands(session, self._feed)
            if found is None or not found.exactly(position):
                return None
            snapshots.push(attempt.pop_all())
            return snapshot

    def _wait(self, found: Stands | None, position: Position | None) -> None:
        self._check()
        self._beats.tick()
        if time.monotonic() >= self._deadline:
            raise NotAligned(
                f"the feed did not come to one position in time: {_awaited(found, position)}",
                object_=self._feed,
                hint=f"see `lockgate feed status {self._feed}`; then ask again",
                operation=_OPERATION,
            )
        time.sleep(_POLL_S)


def _stands(session: psycopg.Connection, feed: FeedId) -> Stands | None:
    with session.cursor(row_factory=tuple_row) as cursor:
        return stands(cursor, feed)


def _awaited(found: Stands | None, position: Position | None) -> str:
    if found is None:
        return "the target does not know it"
    if not found.copied:
        return "rows are still being copied"
    if position is None or found.least == position:
        return "a batch is under way"
    return f"it stands at {lsn_text(found.least)} and was to come to {lsn_text(position)}"
