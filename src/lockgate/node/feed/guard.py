"""Keeps a feed's capture going: starts it under the trigger's token, begins anew what broke off.

    start(token) ──► capture runs ──► source or metastore away, ──► wait, try again (a warning)
                        │  │          no room for the log
                        │  └────────► a newer owner has the log ──► end, silently
                        └───────────► slot or publication lost, … ─► tell the engine: the feed fails

A full disk does not fail the feed: nothing is acknowledged that has no room, so the source keeps
it, and the limits on what it keeps say when that is no longer good for the source.

Beside it, on a thread of its own, goes the upkeep: heartbeats for an idle source, the watch on
retained WAL, and the removal of segments that nobody needs any more. On another, because it may
take long, what is left to finish after the copy.
"""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from lockgate.endpoints.postgres.capture.status import CaptureStatus
from lockgate.endpoints.postgres.source.errors import SlotLost, WalLimitReached
from lockgate.model.errors import (
    LockgateError,
    OutcomeUnknown,
    StaleOwner,
    StorageFull,
    Transient,
)
from lockgate.model.ids import Token
from lockgate.model.positions import Position
from lockgate.node.feed.running import Parked, backoff_s

if TYPE_CHECKING:
    from lockgate.node.feed.context import FeedContext

QUIET_S = 30.0
"""A capture that ran this long begins with short waits again."""
UPKEEP_S = 5.0
SOON_S = 0.25


class CaptureRun(Protocol):
    """One attempt at capturing."""

    def run(self) -> None:
        """Capture until `stop`; raises what ends it."""
        ...

    def stop(self) -> None:
        """End soon; from another thread."""
        ...

    @property
    def resolved(self) -> Position | None:
        """Up to where the change log is complete; None before it is claimed."""
        ...

    @property
    def status(self) -> CaptureStatus:
        """What it has done."""
        ...


class CaptureGuard:
    """The capture of one feed on this node, while the trigger dispatcher is here."""

    def __init__(
        self,
        context: "FeedContext",
        news: Callable[[], None],
        failed: Callable[[LockgateError], None],
    ) -> None:
        self._context = context
        self._news = news
        self._failed = failed
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False
        self._run: CaptureRun | None = None
        self.trouble: Parked | None = None
        self.upkeep_trouble: Parked | None = None
        """What there is to warn of, although changes are captured."""
        self.finish_trouble: Parked | None = None
        self.retained_bytes: int | None = None
        """Log that the source keeps for the feed, at the last look."""

    @property
    def resolved(self) -> Position | None:
        """Up to where this capture has filled the log; None when it does not run here."""
        run = self._run
        return None if run is None else run.resolved

    @property
    def running(self) -> CaptureRun | None:
        """The present attempt, for its statistics."""
        return self._run

    @property
    def troubles(self) -> list[Parked]:
        """All that there is to warn of."""
        found = (self.trouble, self.upkeep_trouble, self.finish_trouble)
        return [each for each in found if each is not None]

    def start(self, token: Token) -> None:
        """Capture under `token` from now on."""
        self.stop()
        with self._lock:
            if self._closed:
                return
            self._stopping = stopping = threading.Event()
        self.trouble = self.upkeep_trouble = self.finish_trouble = None
        works = {"capture": self._capture, "upkeep": self._upkeep, "finish": self._finish}
        for name, work in works.items():
            thread = threading.Thread(
                target=work,
                args=(token, stopping),
                name=f"{name} {self._context.feed}",
                daemon=True,
            )
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End soon."""
        with self._lock:
            self._stopping.set()
            run, self._run = self._run, None
        self._context.watch.capture_rests()
        if run is not None:
            run.stop()

    def close(self) -> None:
        """End soon, and for good: whoever is about to start it comes too late."""
        with self._lock:
            self._closed = True
        self.stop()

    def join(self, timeout_s: float) -> None:
        """Wait for the threads."""
        for thread in self._threads:
            thread.join(timeout_s)

    # --- capture --------------------------------------------------------------------------------

    def _capture(self, token: Token, stopping: threading.Event) -> None:
        attempts = 0
        while not stopping.is_set():
            began_s = time.monotonic()
            try:
                run = self._context.capture(token, self._captured)
                if not self._begin(run, stopping):
                    return
                self._context.watch.capture_begins(run, token, attempts)
                run.run()
                if stopping.is_set():
                    return
            except StaleOwner:
                self._context.watch.capture_fenced()
                return
            except (Transient, OutcomeUnknown, StorageFull) as error:
                if time.monotonic() - began_s > QUIET_S:
                    attempts = 0
                attempts += 1
                self._wait(error, attempts, stopping)
            except LockgateError as error:
                self._fail(error, stopping)
                return
            except Exception as error:  # a bug: tried again, and seen in the log and the status
                self._context.watch.bug("the capture")
                attempts += 1
                self._wait(error, attempts, stopping)

    def _begin(self, run: CaptureRun, stopping: threading.Event) -> bool:
        """Have `run` known as the one that runs; False when it must not."""
        with self._lock:
            if stopping.is_set():
                return False
            self._run = run
            return True

    def _captured(self) -> None:
        trouble, self.trouble = self.trouble, None
        if trouble is not None:
            self._context.watch.capture_again(trouble.since_s)
        self._news()

    def _fail(self, error: LockgateError, stopping: threading.Event) -> None:
        if not stopping.is_set():
            self._context.watch.capture_failed(error)
            self._failed(error)

    def _wait(self, error: BaseException, attempts: int, stopping: threading.Event) -> None:
        if stopping.is_set():
            return
        wait_s = backoff_s(attempts)
        now_s = time.monotonic()
        since_s = now_s if self.trouble is None else self.trouble.since_s
        hint = getattr(error, "hint", "")
        self._context.watch.capture_broke(error, attempts, wait_s)
        self.trouble = Parked(str(error), hint, attempts, now_s + wait_s, since_s)
        stopping.wait(wait_s)

    # --- upkeep -----------------------------------------------------------------------------------

    def _upkeep(self, token: Token, stopping: threading.Event) -> None:
        while not stopping.wait(UPKEEP_S):
            try:
                finding, self.retained_bytes = self._context.upkeep(token)
                self.upkeep_trouble = Parked(finding.what, finding.hint) if finding.what else None
            except StaleOwner:
                return
            except (SlotLost, WalLimitReached) as error:
                self._fail(error, stopping)
                return
            except LockgateError as error:
                # The capture finds out for itself what it cannot do without.
                self.upkeep_trouble = Parked(str(error), error.hint)
            except Exception:
                self._context.watch.bug("the upkeep")

    # --- after the copy ---------------------------------------------------------------------------

    def _finish(self, token: Token, stopping: threading.Event) -> None:
        wait_s = SOON_S
        while not stopping.wait(wait_s):
            try:
                again_s = self._context.finish(token)
                self.finish_trouble = None
                if again_s is None:
                    return
                wait_s = again_s
            except StaleOwner:
                return
            except LockgateError as error:
                self.finish_trouble = Parked(str(error), error.hint)
                wait_s = UPKEEP_S
            except Exception:
                self._context.watch.bug("the end of the copy")
                wait_s = UPKEEP_S
