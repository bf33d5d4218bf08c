"""What is counted and told of one feed on this node, where it happens.

The engine, its capture and its copy call these as they go. A watch outlives them: a feed that is
paused and resumed has a new engine and the same counts. It is forgotten some time after the feed
has left the node, so that feeds that come and go do not fill the memory.

Of what fails again and again the log has the beginning and the end; the counts have the rest.
"""

import threading
import time
from collections.abc import Collection, Sequence
from typing import Final, Protocol

from lockgate.endpoints.postgres.capture.status import CaptureStatus
from lockgate.endpoints.postgres.source.errors import SlotLost
from lockgate.endpoints.postgres.source.wal import RetainedWal, WalLimits
from lockgate.model.apply import ApplyError
from lockgate.model.errors import LockgateError, StaleOwner
from lockgate.model.ids import FeedId, Token
from lockgate.node.telemetry.counts import ROUND_SECONDS, Histogram, Tally
from lockgate.node.telemetry.lines import Lines
from lockgate.pipeline.copy import CopyOutcome

__all__ = ["FeedWatch", "FeedWatches", "Statistics", "code_of"]

FORGET_S: Final = 3600.0
"""After a feed has left the node; by then every scraper has its last figures."""
BUG: Final = "bug"
"""The code of what is no `LockgateError`."""


class Statistics(Protocol):
    """A capture, as far as it is counted."""

    @property
    def status(self) -> CaptureStatus:
        """Counted from its start."""
        ...


class Captured:
    """All captures of a feed on this node together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._present: Statistics | None = None
        self._before = CaptureStatus()

    def begin(self, run: Statistics) -> None:
        """Another capture, in the place of the present one."""
        with self._lock:
            self._before, self._present = self._sum(), run

    def total(self) -> CaptureStatus:
        """Rows, bytes, segments, transactions and dropped changes of all of them; the rest is of
        the present one."""
        with self._lock:
            return self._sum()

    def _sum(self) -> CaptureStatus:
        if self._present is None:
            return self._before
        now, before = self._present.status, self._before
        return CaptureStatus(
            resolved=now.resolved,
            received=now.received,
            commit_time=now.commit_time,
            received_time=now.received_time,
            rows=before.rows + now.rows,
            bytes=before.bytes + now.bytes,
            segments=before.segments + now.segments,
            transactions=before.transactions + now.transactions,
            dropped=before.dropped + now.dropped,
            buffered_rows=now.buffered_rows,
            buffered_bytes=now.buffered_bytes,
        )


class FeedWatch:
    """One feed on this node. Called from its engine's threads."""

    def __init__(self, feed: FeedId, node: str = "") -> None:
        self.feed = feed
        self.lines = Lines("lockgate.feed", node=node, feed=feed)
        self.applied: Tally[str] = Tally()
        """`rows` (changes that are at the target) and `bytes` (of files read to apply them)."""
        self.rounds = Histogram(ROUND_SECONDS)
        self.errors: Tally[str] = Tally()
        """By code."""
        self.fenced: Tally[str] = Tally()
        """By who was stopped: `request`, `owner`, `dispatcher`, `capture`."""
        self.copied: Tally[str] = Tally()
        """`rows` and `bytes` of finished spans."""
        self.captured = Captured()
        self.retained: RetainedWal | None = None
        """What the source keeps for the feed, at the last look from here."""
        self.wal_limits: WalLimits | None = None
        self.slot = ""
        """What the source says of the slot; empty while that is not known here."""
        self.parked = False
        """Some dispatchers have to try again, and that was told."""

    # --- rounds -----------------------------------------------------------------------------------

    def round_done(self, rows: int, bytes_: int, seconds: float) -> None:
        """A job of Spark came to its end, and so many changes are at the target."""
        self.rounds.observe(seconds)
        self.applied.add("rows", rows)
        self.applied.add("bytes", bytes_)

    def round_broke(self) -> None:
        """A bug ended a round. While the exception is handled."""
        self.lines.bug("a round broke", next="it is tried again; report it with this trace")

    def put_off(self, spans: int, error: BaseException | ApplyError) -> None:
        """So many dispatchers do not go on for now."""
        code = code_of(error)
        if not spans or code == StaleOwner.code:
            return  # who is refused is counted when that is told to the core
        self.errors.add(code)
        if not self.parked:
            self.parked = True
            self.lines.warning(
                "dispatchers cannot go on",
                dispatchers=spans,
                code=code,
                why=error,
                next=getattr(error, "hint", "") or "it is tried again, after growing pauses",
            )

    def goes_on(self) -> None:
        """Nobody is put off any more."""
        if self.parked:
            self.parked = False
            self.lines.info("all dispatchers go on again")

    # --- capture ----------------------------------------------------------------------------------

    def capture_begins(self, run: Statistics, token: Token, attempts: int) -> None:
        """Changes of the source are read from now on, unless that fails once more."""
        self.captured.begin(run)
        if not attempts:
            self.lines.info("capture begins", epoch=token.epoch, token=token)

    def capture_broke(self, error: BaseException, attempts: int, wait_s: float) -> None:
        """It is tried again after a pause."""
        self.errors.add(code_of(error))
        if attempts == 1:
            self.lines.warning(
                "capture broke off",
                code=code_of(error),
                why=error,
                next=f"it is tried again in {wait_s:g} s, then after growing pauses",
            )

    def capture_again(self, since_s: float) -> None:
        """Changes arrive once more."""
        seconds = round(time.monotonic() - since_s, 1)
        self.lines.info("capture goes on", seconds_without=seconds)

    def capture_fenced(self) -> None:
        """The change log belongs to a newer owner."""
        self.fenced.add("capture")
        self.lines.info(
            "capture ended", why="a newer owner has the change log", next="it goes on there"
        )

    def capture_failed(self, error: BaseException) -> None:
        """Waiting does not help: the feed fails."""
        self.errors.add(code_of(error))
        if isinstance(error, SlotLost):
            self.slot = "lost"
        self.lines.error(
            "the source cannot be captured",
            code=code_of(error),
            why=error,
            next=getattr(error, "hint", "") or "see the feed's status",
        )

    def capture_rests(self) -> None:
        """The trigger dispatcher has left: what the source keeps is not known here any more."""
        self.retained = self.wal_limits = None
        self.slot = ""

    def kept(self, retained: RetainedWal, limits: WalLimits) -> None:
        """What the source keeps for the feed, and how much it may be."""
        self.retained = retained
        self.wal_limits = limits
        self.slot = retained.status or "unknown"

    def bug(self, what: str) -> None:
        """Something broke that should not. While the exception is handled."""
        self.errors.add(BUG)
        self.lines.bug(f"{what} broke", next="it is tried again; report it with this trace")

    # --- the first copy ---------------------------------------------------------------------------

    def copy_begins(self, spans: int) -> float:
        """Rows of so many spans are copied; answers when that began."""
        self.lines.info("copy begins", spans=spans)
        return time.monotonic()

    def copy_ended(self, outcomes: Sequence[CopyOutcome], began_s: float) -> None:
        """One run of it is over."""
        rows = sum(each.rows for each in outcomes)
        done = [each for each in outcomes if each.error is None and each.refusal is None]
        self.copied.add("rows", rows)
        self.copied.add("bytes", sum(each.bytes for each in outcomes))
        seconds = time.monotonic() - began_s
        left = len(outcomes) - len(done)
        self.lines.info(
            "copy ended",
            spans=len(done),
            rows=rows,
            seconds=round(seconds, 2),
            rows_per_s=round(rows / max(seconds, 0.001)),
            spans_left=left,
            next="they are tried again from the chunk they came to" if left else "",
        )


class FeedWatches:
    """The watches of a node."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._lock = threading.Lock()
        self._watches: dict[FeedId, FeedWatch] = {}
        self._left_s: dict[FeedId, float] = {}

    def of(self, feed: FeedId) -> FeedWatch:
        """The watch of a feed, the same one each time."""
        with self._lock:
            self._left_s.pop(feed, None)
            if feed not in self._watches:
                self._watches[feed] = FeedWatch(feed, self._node)
            return self._watches[feed]

    def all(self, here: Collection[FeedId], now_s: float) -> dict[FeedId, FeedWatch]:
        """All, by feed; those are forgotten that were not `here` for long."""
        with self._lock:
            for feed in list(self._watches):
                if feed in here:
                    self._left_s.pop(feed, None)
                elif now_s - self._left_s.setdefault(feed, now_s) > FORGET_S:
                    del self._watches[feed], self._left_s[feed]
            return dict(self._watches)


def code_of(error: BaseException | ApplyError) -> str:
    """An error's code, which is one of a closed set."""
    return error.code if isinstance(error, LockgateError | ApplyError) else BUG
