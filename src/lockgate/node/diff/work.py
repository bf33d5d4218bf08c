"""One attempt at one diff, from its plan to its end.

    sides ──► plan, written once ──► ranges that are left, each written as it comes ──► over
                 ▲                        │
                 └── a while later ◄──────┴── something failed that may go better later

What was planned stays: ranges mean the same for whoever takes the diff up. Whatever is written
carries the attempt; where it does not land, somebody else has taken the diff up, and this attempt
is over without a word.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final

import msgspec

from lockgate.endpoints.postgres.diff.snapshots import Snapshots
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.apply import ApplyError
from lockgate.model.diffs import DiffRecord, DiffState, DiffTrouble, RangeOutcome, TableRecord
from lockgate.model.errors import LockgateError, MetastoreUnavailable, OutcomeUnknown, Transient
from lockgate.node.diff.sides import DiffSides, Sides
from lockgate.node.feed.context import SparkHandle
from lockgate.node.telemetry.diffs import DiffWatch
from lockgate.node.telemetry.lines import Lines
from lockgate.pipeline.diff import DiffRun
from lockgate.pipeline.jobs import interrupt
from lockgate.pipeline.lake_diff import LakeDiffRun
from lockgate.pipeline.session import Spark
from lockgate.store.diffs import DiffBook

__all__ = ["DiffWork", "tag_of"]

TRIES: Final = 4
"""Failures in a row, with no range compared between them, before a diff is given up."""
PAUSE_S: Final = 1.0

_AGAIN: Final = (Transient, OutcomeUnknown)
"""What may go better later. Nothing here is done twice: ranges are compared, and written once."""


class _Over(Exception):
    """This attempt is to end: it was stopped, or somebody else has taken the diff up."""


def tag_of(diff: str) -> str:
    """Of the diff's Spark jobs."""
    return f"diff {diff}"


class DiffWork:
    """One diff on a thread of its own."""

    def __init__(
        self,
        record: DiffRecord,
        book: DiffBook,
        sides: DiffSides,
        spark: SparkHandle,
        watch: DiffWatch,
        ended: Callable[[DiffRecord], None],
        lines: Lines,
    ) -> None:
        """`record` is this attempt's own. `ended` is told of a diff that is over."""
        self.record = record
        self._book = book
        self._sides = sides
        self._spark = spark
        self._watch = watch
        self._ended = ended
        self._lines = lines
        self._stopped = threading.Event()
        self._heard = False
        """A range came since the last failure."""
        self._thread = threading.Thread(target=self._run, name=f"diff {record.id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """At once, without waiting for it: nothing more is written from here on, and its Spark
        jobs are interrupted by somebody who may wait."""
        if not self._stopped.is_set():
            self._stopped.set()
            threading.Thread(target=self._interrupt, name="diff stop", daemon=True).start()

    def join(self, timeout_s: float) -> bool:
        """True when nothing of it runs any more."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _interrupt(self) -> None:
        """Again and again: it may be about to submit a job."""
        while self._thread.is_alive():
            spark = self._spark.running()
            if spark is not None:
                interrupt(spark, tag_of(self.record.id), 1.0)
            self._thread.join(0.2)

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._over(self._compared())
        except _Over:
            self._watch.left()
        except Exception as error:
            self._lines.bug("a diff broke", diff=self.record.id, next="it can be resumed")
            what = f"it broke: {type(error).__name__}"
            self._give_up(DiffTrouble("bug", what, self.record.id, "see the node's log"))

    def _compared(self) -> DiffRecord:
        """The record of a diff that is over, one way or another."""
        tries = 0
        while True:
            self._heard = False
            try:
                return self._tried()
            except LockgateError as error:
                self._check()
                if not isinstance(error, MetastoreUnavailable):
                    tries = 1 if self._heard else tries + 1
                if not isinstance(error, _AGAIN) or tries >= TRIES:
                    self._lines.warning(
                        "a diff failed", diff=self.record.id, why=error, next=error.hint
                    )
                    return msgspec.structs.replace(
                        self.record, state=DiffState.FAILED, trouble=_trouble(error)
                    )
                self._lines.info("a diff is tried again", diff=self.record.id, why=error)
            self._stopped.wait(PAUSE_S * 2**tries)
            self._check()

    def _tried(self) -> DiffRecord:
        order = self.record.order
        sides = self._sides.of(order)
        with self._spark.using() as spark:
            run = self._diff_run(spark, sides)
            self._plan(run)
            here = {each.table.id for each in sides.tables}
            tables = [each for each in self.record.tables if each.table in here]
            done = {(each.table, each.no) for each in self._book.ranges(self.record.id)}

            def snapshots() -> AbstractContextManager[Snapshots]:
                self._check()
                return sides.snapshots(self._check)

            errors = run.compare(tables, done, snapshots, self._take)
        failed = [(table, _trouble(error)) for table, error in errors.items()]
        failed += [
            (each.table, _gone(each))
            for each in self.record.tables
            if each.table not in here and each.trouble is None
        ]
        failed += [(each.table, each.trouble) for each in self.record.tables if each.trouble]
        return _ended(self.record, failed)

    def _diff_run(self, spark: Spark, sides: Sides) -> DiffRun | LakeDiffRun:
        record, (source, target, tables, _) = self.record, sides
        order, tag = record.order, tag_of(record.id)
        if isinstance(source, PostgresUrl) and isinstance(target, PostgresUrl):
            return DiffRun(
                spark,
                source,
                target,
                tables,
                seed=record.seed,
                tag=tag,
                repair=order.repair,
                feed=order.feed,
                check=self._check,
            )
        return LakeDiffRun(
            spark,
            source,
            target,
            tables,
            seed=record.seed,
            tag=tag,
            repair=order.repair,
            feed=order.feed,
            check=self._check,
        )

    def _plan(self, run: DiffRun | LakeDiffRun) -> None:
        """Cut the tables, unless an earlier attempt has. What could not be cut then is tried
        again."""
        known = {each.table: each for each in self.record.tables if each.trouble is None}
        if self.record.tables and len(known) == len(self.record.tables):
            return
        planned = run.plan()
        names = {each.table for each in planned}
        tables = [known.get(each.table, each) for each in planned]
        tables += [each for name, each in known.items() if name not in names]
        self._write(msgspec.structs.replace(self.record, tables=tuple(tables)))

    def _take(self, outcomes: Sequence[RangeOutcome]) -> None:
        self._check()
        if not self._book.done(self.record, outcomes):
            raise _Over
        self._heard |= bool(outcomes)
        self._watch.compared(outcomes)

    def _check(self) -> None:
        if self._stopped.is_set():
            raise _Over

    # --- its end ----------------------------------------------------------------------------------

    def _over(self, record: DiffRecord) -> None:
        """Write the end, however long the metastore takes; without a lease somebody else will."""
        while True:
            self._check()
            try:
                self._write(_summed(record, self._book.ranges(record.id)))
                break
            except _AGAIN as error:
                self._lines.info("the end of a diff is not recorded yet", why=error)
            self._stopped.wait(PAUSE_S)
        self._watch.ended(self.record)
        self._ended(self.record)

    def _give_up(self, trouble: DiffTrouble) -> None:
        failed = msgspec.structs.replace(self.record, state=DiffState.FAILED, trouble=trouble)
        try:
            self._over(failed)
        except Exception:  # nobody is left to tell; the runner takes it up again
            self._lines.bug("the end of a diff cannot be recorded", diff=self.record.id)

    def _write(self, record: DiffRecord) -> None:
        kept = self._book.write(record)
        if kept is None:
            raise _Over
        self.record = kept


def _ended(record: DiffRecord, failed: Sequence[tuple[str, DiffTrouble]]) -> DiffRecord:
    if not failed:
        return msgspec.structs.replace(record, state=DiffState.FINISHED)
    table, first = failed[0]
    what = f"{len(failed)} of {len(record.tables)} tables could not be compared: {first.what}"
    return msgspec.structs.replace(
        record,
        state=DiffState.FAILED,
        trouble=DiffTrouble(first.code, what, first.object or table, first.hint),
        failed=tuple(failed),
    )


def _summed(record: DiffRecord, ranges: Sequence[RangeOutcome]) -> DiffRecord:
    """With what lists show of it."""
    unequal = sum(each.unequal(record.order.repair) for each in ranges)
    lacking = any(each.lacks for each in record.tables)
    equal: bool | None = None
    if unequal or lacking:
        equal = False
    elif record.state is DiffState.FINISHED:
        equal = True
    rows = sum(each.rows for each in ranges)
    return msgspec.structs.replace(record, rows=rows, unequal=unequal, equal=equal)


def _trouble(error: LockgateError | ApplyError) -> DiffTrouble:
    cause = error.cause_line if isinstance(error, LockgateError) else error.cause.partition("\n")[0]
    what = f"{error.what}: {cause}" if cause else error.what
    return DiffTrouble(error.code, what, error.object, error.hint)


def _gone(table: TableRecord) -> DiffTrouble:
    return DiffTrouble(
        "object-missing", "the table is not there any more", table.table, "run the diff anew"
    )
