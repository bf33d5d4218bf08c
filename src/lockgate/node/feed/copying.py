"""The first copy of the rows, beside the rounds: which spans wait for it, and what came of it.

    begin(span) ──► a copy run on its own thread: all spans that wait, together
                        │ the schema: follow the log up to now, rows or no rows
                        │ a snapshot, taken when nothing has changed since
                        └──► CopyOutcome ──► the engine lets the span into the rounds

A snapshot shows rows as they are now, and the target's table is as it was when the feed began. So
before a span's first chunk is copied it moves on with the log without applying anything, through
barriers too, and its table becomes what the snapshot will see. Nothing is lost: what it passes by
is in the snapshot.

A run takes everything that waits when it begins: small tables go together, big ones in parallel.
Spans that come later wait for the next run. What a run has finished is recorded at the sink chunk
by chunk, so a run that breaks off is taken up at the chunk.
"""

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from lockgate.model.apply import ApplyError
from lockgate.model.errors import LockgateError, Transient
from lockgate.model.feed_status import CopyProgress
from lockgate.model.ids import SpanId
from lockgate.model.positions import Position
from lockgate.node.feed.running import Running
from lockgate.pipeline.copy import CopyOutcome

if TYPE_CHECKING:
    from lockgate.node.feed.context import FeedContext
    from lockgate.node.feed.copies import Copies

RETRY_S = 2.0
POLL_S = 0.05
COMPANY_S = 0.1


def _may_pass(copies: "Copies", one: Running, upto: Position) -> bool:
    return one.ended or copies.may_pass(one, upto)


def _behind(these: list[Running]) -> list[Running]:
    return [one for one in these if not one.ended and one.low < one.advance_to]


class Copying:
    """The copy runs of one feed on this node."""

    def __init__(
        self,
        context: "FeedContext",
        tell: Callable[[CopyOutcome], None],
        wake: Callable[[], None],
    ) -> None:
        self._context = context
        self._tell = tell
        self._wake = wake
        self._lock = threading.Condition()
        self._waiting: dict[SpanId, Running] = {}
        self._under_way: frozenset[SpanId] = frozenset()
        self._ended = False
        self._thread: threading.Thread | None = None
        self.progress = CopyProgress()

    def begin(self, one: Running) -> None:
        """Copy the span's rows, now or once more; until they are there it is in no round."""
        with self._lock:
            self._waiting[one.span] = one
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name=f"copy {self._context.feed}", daemon=True
                )
                self._thread.start()
            self._lock.notify()

    def drop(self, one: Running) -> None:
        """Its dispatcher has ended; a chunk that is under way is the fence's business."""
        with self._lock:
            self._waiting.pop(one.span, None)

    def take_back(self, one: Running) -> bool:
        """Have it wait no more; False: a run has it, or has just had it."""
        with self._lock:
            free = one.span not in self._under_way
            return free and self._waiting.pop(one.span, None) is not None

    def stop(self) -> None:
        """No further run."""
        with self._lock:
            self._ended = True
            self._lock.notify()

    def join(self, timeout_s: float) -> None:
        """Wait for the run that is under way."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        failed = False
        while True:
            with self._lock:
                if failed:
                    self._lock.wait_for(lambda: self._ended, RETRY_S)
                self._lock.wait_for(lambda: self._ended or self._waiting)
                self._wait_for_company()
                if self._ended:
                    return
                batch, self._waiting = list(self._waiting.values()), {}
                self._under_way = frozenset(one.span for one in batch)
            failed = False
            for copied in self._copy(batch):
                failed = failed or copied.error is not None
                self._tell(copied)
            with self._lock:
                self._under_way = frozenset()

    def _wait_for_company(self) -> None:
        """Spans are started one after the other; a run should have all of them."""
        count = 0
        while not self._ended and count < len(self._waiting):
            count = len(self._waiting)
            self._lock.wait(COMPANY_S)

    def _copy(self, batch: list[Running]) -> list[CopyOutcome]:
        copies = self._context.copies
        try:
            failed = self._begin(batch)
            look = copies.look({one.table for one in batch})
            behind = self._follow([one for one in batch if one.span not in failed], failed)
            self._again(behind)
            left_out = failed.keys() | {one.span for one in behind}
            ready = [one for one in batch if not one.ended and one.span not in left_out]
            for one in ready:
                if one.table not in look:
                    failed[one.span] = self._gone(one)
            ready = [one for one in ready if one.span not in failed]
            done = list(failed.values())
            if not self._ended and ready:
                watch = self._context.watch
                began_s = watch.copy_begins(len(ready))
                copied = copies.copy(ready, look, self._report)
                watch.copy_ended(copied, began_s)
                done += copied
            return done
        except LockgateError as error:
            return self._failed(batch, error)
        except Exception as error:
            if self._ended:
                return []
            self._context.watch.bug("the copy")
            why = LockgateError(
                "the copy broke", object_=self._context.feed, hint="it is tried again", cause=error
            )
            return self._failed(batch, why)

    def _begin(self, batch: list[Running]) -> dict[SpanId, CopyOutcome]:
        """Have a run of their own for all; answers whom that failed for."""
        failed: dict[SpanId, CopyOutcome] = {}
        for one in batch:
            try:
                refusal = self._context.copies.begin(one)
            except LockgateError as error:
                failed |= {outcome.span: outcome for outcome in self._failed([one], error)}
                continue
            if refusal is not None:
                failed[one.span] = CopyOutcome(one.span, one.token, refusal=refusal)
        return failed

    def _again(self, these: list[Running]) -> None:
        """They take part in the next run."""
        with self._lock:
            self._waiting |= {one.span: one for one in these if not one.ended}

    def _follow(self, batch: list[Running], failed: dict[SpanId, CopyOutcome]) -> list[Running]:
        """Let spans without rows come to where the log is now; answers who has not come there.

        A schema change that they stand before may concern a span that is not among them: one that
        has failed, or is only waiting for a run. Then a run of all is the only way on.
        """
        copies = self._context.copies
        upto = copies.end_of_log() - 1
        self._wait_until(lambda: copies.is_captured(upto))
        empty: list[Running] = []
        for one in batch:
            try:
                if copies.is_empty(one):
                    empty.append(one)
            except LockgateError as error:
                failed |= {outcome.span: outcome for outcome in self._failed([one], error)}
        for one in empty:
            self._wait_until(functools.partial(_may_pass, copies, one, upto))
            one.advance_to = upto
        self._wake()
        self._wait_until(lambda: bool(failed or self._waiting) or not _behind(empty))
        return _behind(empty)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        while not self._ended and not condition():
            with self._lock:
                self._lock.wait(POLL_S)

    def _gone(self, one: Running) -> CopyOutcome:
        error = Transient(
            "the table is gone at the source",
            object_=one.table,
            hint="if it was dropped or renamed, the feed hears of it where schema changes are "
            "logged; where they are not, leave the table out of the feed",
            operation="copy",
        )
        return CopyOutcome(one.span, one.token, error=ApplyError.of(error))

    def _failed(self, batch: list[Running], error: LockgateError) -> list[CopyOutcome]:
        trouble = ApplyError.of(error)
        return [CopyOutcome(one.span, one.token, error=trouble) for one in batch]

    def _report(self, progress: CopyProgress) -> None:
        self.progress = progress
