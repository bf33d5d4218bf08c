"""Tables on two servers compared row by row, as Spark tasks.

    survey ── both sides' tables ──► plan: ranges, kept for as long as the diff lasts
    snapshots ── one on each side ──► tasks: ranges, both sides at once ──► outcomes, one by one

Tasks are of about a million rows each, made of ranges of a quarter of that: what is recorded comes
often, and a range that differs is read once more without costing much. Small tables go together in
one task.

What fails and may go better later (a table was rewritten, a connection was lost) is tried again
under new snapshots. What is over is over: outcomes are handed out as they come.

A repair comes between: a range that differs is handed out when its rows are written.

    ranges that differ, some at a time ──► snapshots, the feed held there ──► tasks: compare again,
    write what differs now, look at it ──► the feed goes on ──► the next ones

The feed is held while tasks repair, not while they look for what differs in a whole table. What
the target refuses is tried again when the others are through, as long as that helps; then it is
counted as left.
"""

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final

import msgspec
import psycopg

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.copy.items import CopyTable
from lockgate.endpoints.postgres.copy.plan import plan_edges
from lockgate.endpoints.postgres.diff.items import DiffItem, DiffPart, DiffReceipt, KeySpace
from lockgate.endpoints.postgres.diff.snapshots import Snapshots, apart, level_and_held
from lockgate.endpoints.postgres.diff.survey import Surveyed, survey
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.apply import ApplyError
from lockgate.model.diffs import SAMPLES_MAX, RangeOutcome, TableRecord
from lockgate.model.ids import FeedId
from lockgate.model.selection import TableSelection
from lockgate.pipeline.jobs import run_each
from lockgate.pipeline.session import Spark

__all__ = ["RANGE_ROWS", "DiffRun", "Snapshooter"]

Snapshooter = Callable[[], AbstractContextManager[Snapshots]]

RANGE_ROWS: Final = 250_000
_TASK_ROWS: Final = 1_000_000
_PART_COST_ROWS: Final = 5_000
"""What a range costs besides its rows."""
_ATTEMPTS: Final = 4
_PAUSE_S: Final = 0.5
_HELD_RANGES: Final = 4
"""For each slot: so many ranges are repaired before the feed may go on for a while."""
_REPAIRS: Final = 3
"""So often what was left of a range is tried again, if others have got on meanwhile."""

_RECEIPTS: Final = msgspec.msgpack.Decoder(list[DiffReceipt])

Take = Callable[[Sequence[RangeOutcome]], None]
Range = tuple[str, int]
"""A table's name at the source, and the number of one of its ranges."""


class DiffRun:
    """One attempt at a diff.

    With `repair`, rows of the target that differ are made what the source has. `feed` is the one
    between the two, which is held then for as long as that takes; empty where there is none.
    `check` is called now and then while somebody waits for it, and may raise.
    """

    def __init__(
        self,
        spark: Spark,
        source: PostgresUrl,
        target: PostgresUrl,
        wanted: Sequence[TableSelection],
        *,
        seed: int,
        tag: str,
        range_rows: int = RANGE_ROWS,
        repair: bool = False,
        feed: FeedId = "",
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._spark = spark
        self._source = source
        self._target = target
        self._wanted = {each.table.id: each for each in wanted}
        self._seed = seed
        self._tag = tag
        self._range_rows = range_rows
        self._repair = repair
        self._feed = feed
        self._check = check

    def plan(self) -> tuple[TableRecord, ...]:
        """How every table is cut."""
        found = survey(self._source, self._target, list(self._wanted.values()))
        with connect(self._source, purpose="diff plan", autocommit=True) as connection:
            return tuple(self._record(connection, each) for each in found)

    def compare(
        self,
        tables: Sequence[TableRecord],
        done: Collection[tuple[str, int]],
        snapshots: Snapshooter,
        take: Take,
    ) -> dict[str, ApplyError]:
        """Compare every range that is not `done`, and hand over what came of each.

        Answers why a table could not be compared to its end; the others are through then. Raises
        what concerns all of them.
        """
        left = {
            (table.table, no): table
            for table in tables
            for no in range(table.ranges)
            if (table.table, no) not in done
        }
        found: dict[Range, RangeOutcome] = {}
        errors: dict[Range, ApplyError] = {}
        for attempt in range(_ATTEMPTS):
            if not left:
                break
            if attempt:
                time.sleep(_PAUSE_S * 2**attempt)
            errors = self._attempt(left, found, snapshots, take)
            errors |= self._repaired(left, found, take)
            if not any(error.retryable for error in errors.values()):
                break
        return {table: error for (table, _), error in errors.items()}

    # --- planning ---------------------------------------------------------------------------------

    def _record(self, connection: psycopg.Connection, each: Surveyed) -> TableRecord:
        selection = each.selection
        record = TableRecord(
            selection.table.id,
            selection.target.id,
            lacks=each.lacks,
            notes=(*each.notes, *self._notes(each)),
            trouble=each.trouble,
        )
        table = each.table
        if table is None:
            return record
        record = msgspec.structs.replace(
            record, key=table.key, columns=table.names, rows_estimate=each.size.rows
        )
        if not each.ordered:
            # Every share is a pass over the whole table: only as many as run at once.
            count = math.ceil(each.size.rows / self._range_rows) if table.key else 1
            shares = max(1, min(count, self._spark.slots))
            return msgspec.structs.replace(record, hashed=shares)
        cut = CopyTable(
            source=table.source.table,
            target=table.target.table,
            columns=(),
            key=table.source.key,
            partitioned=table.source.partitioned,
        )
        edges = plan_edges(
            connection,
            cut,
            each.size,
            chunk_rows=self._range_rows,
            slots=self._spark.slots,
        )
        cuts = tuple(low for low, _ in edges if low is not None)
        return msgspec.structs.replace(record, edges=cuts)

    def _notes(self, each: Surveyed) -> list[str]:
        """What is to be known of a table's repair."""
        if not self._repair or each.table is None:
            return []
        notes = []
        if not self._feed:
            notes.append(
                "no feed is held for the repair: rows become what the source has when each is "
                "written"
            )
        if each.lacks:
            notes.append(
                f"not repaired, for the target has no such column: {', '.join(each.lacks)}"
            )
        return notes

    # --- running ----------------------------------------------------------------------------------

    def _attempt(
        self,
        left: dict[Range, TableRecord],
        found: dict[Range, RangeOutcome],
        snapshots: Snapshooter,
        take: Take,
    ) -> dict[Range, ApplyError]:
        """Compare all that is left once. Answers what is wrong with what could not be compared.

        What is to be repaired stays among what is left, with what was found of it.
        """
        # Before the snapshots: what is rewritten after this look is noticed.
        parts, errors = self._parts([each for each in left if each not in found], left)
        if not parts:
            return errors
        with snapshots() as held:
            items = [self._item(held, pack) for pack in self._packs(parts, left)]

            def take_one(_: int, receipt: bytes) -> None:
                outcomes = []
                for each in _RECEIPTS.decode(receipt):
                    if each.outcome is None:
                        assert each.error is not None
                        errors[each.table, each.no] = each.error
                        continue
                    outcome = msgspec.structs.replace(each.outcome, position=held.position)
                    if self._repair and outcome.differing:
                        found[each.table, each.no] = outcome
                        continue
                    outcomes.append(outcome)
                    del left[each.table, each.no]
                take(outcomes)

            run_each(self._spark, "diff", items, self._tag, take_one)
        return errors

    def _parts(
        self, wanted: Sequence[Range], records: Mapping[Range, TableRecord]
    ) -> tuple[list[DiffPart], dict[Range, ApplyError]]:
        """These ranges as they are to be read now, or why they cannot be."""
        surveyed = self._surveyed({table for table, _ in wanted})
        errors: dict[Range, ApplyError] = {}
        parts: list[DiffPart] = []
        for name, no in wanted:
            seen = surveyed[name]
            if seen.table is None or not _same(records[name, no], seen):
                errors[name, no] = _changed(name)
                continue
            parts.append(DiffPart(seen.table, _space(records[name, no], no)))
        return parts, errors

    # --- repairing --------------------------------------------------------------------------------

    def _repaired(
        self,
        left: dict[Range, TableRecord],
        found: dict[Range, RangeOutcome],
        take: Take,
    ) -> dict[Range, ApplyError]:
        """Write what differs in these ranges, and hand them over.

        Answers what is wrong with those that could not be repaired; they stay.
        """
        if not found:
            return {}
        errors: dict[Range, ApplyError] = {}
        step = _HELD_RANGES * self._spark.slots
        waiting = list(found)
        for _ in range(_REPAIRS):
            written = 0
            for first in range(0, len(waiting), step):
                written += self._repair_some(waiting[first : first + step], left, found, errors)
            over = [each for each in waiting if each not in errors and not found[each].left]
            take([self._taken(each, left, found) for each in over])
            waiting = [each for each in waiting if each in found and each not in errors]
            if not waiting or not written:
                break
        take([self._taken(each, left, found) for each in waiting])
        return errors

    def _taken(
        self, each: Range, left: dict[Range, TableRecord], found: dict[Range, RangeOutcome]
    ) -> RangeOutcome:
        del left[each]
        return found.pop(each)

    def _repair_some(
        self,
        wanted: Sequence[Range],
        left: Mapping[Range, TableRecord],
        found: dict[Range, RangeOutcome],
        errors: dict[Range, ApplyError],
    ) -> int:
        """How many rows were written."""
        parts, failed = self._parts(wanted, left)
        errors |= failed
        if not parts:
            return 0
        written = 0
        with self._held() as held:
            items = [self._item(held, [part]) for part in parts]

            def take_one(_: int, receipt: bytes) -> None:
                nonlocal written
                [each] = _RECEIPTS.decode(receipt)
                place = each.table, each.no
                if each.outcome is None:
                    assert each.error is not None
                    errors[place] = each.error
                    return
                done = each.outcome
                written += done.repaired
                found[place] = msgspec.structs.replace(
                    found[place],
                    repaired=found[place].repaired + done.repaired,
                    left=done.left,
                    reason=done.reason,
                )

            run_each(self._spark, "repair", items, self._tag, take_one)
        return written

    def _held(self) -> AbstractContextManager[Snapshots]:
        if not self._feed:
            return apart(self._source, self._target)
        return level_and_held(self._source, self._target, self._feed, self._check)

    # --- items ------------------------------------------------------------------------------------

    def _surveyed(self, names: Collection[str]) -> Mapping[str, Surveyed]:
        wanted = [self._wanted[name] for name in sorted(names)]
        found = survey(self._source, self._target, wanted)
        return {each.selection.table.id: each for each in found}

    def _item(self, held: Snapshots, parts: Sequence[DiffPart]) -> bytes:
        item = DiffItem(
            self._source.to_wire(),
            self._target.to_wire(),
            held.source,
            held.target,
            self._seed,
            SAMPLES_MAX,
            tuple(parts),
            held.held,
        )
        return msgspec.msgpack.encode(item)

    def _packs(
        self, parts: Sequence[DiffPart], left: Mapping[Range, TableRecord]
    ) -> list[list[DiffPart]]:
        """Heavy parts first; light ones together, so that each task is worth it."""

        def weight(part: DiffPart) -> float:
            record = left[part.table.source.table.id, part.space.no]
            passes = 1 if record.hashed else record.ranges
            return _PART_COST_ROWS + record.rows_estimate / passes

        ordered = sorted(parts, key=weight, reverse=True)
        enough = min(_TASK_ROWS, sum(map(weight, ordered)) / (4 * self._spark.slots))
        packs: list[list[DiffPart]] = []
        load = enough
        for part in ordered:
            if load + weight(part) > enough:
                packs.append([])
                load = 0.0
            packs[-1].append(part)
            load += weight(part)
        return packs


def _space(record: TableRecord, no: int) -> KeySpace:
    if record.hashed:
        return KeySpace(no, share=no, shares=record.hashed)
    edges = (None, *record.edges, None)
    return KeySpace(no, edges[no], edges[no + 1])


def _same(record: TableRecord, found: Surveyed) -> bool:
    """Does a range still mean what it meant when it was planned?"""
    assert found.table is not None
    if record.columns != found.table.names or record.key != found.table.key:
        return False
    return bool(record.hashed) or found.ordered


def _changed(name: str) -> ApplyError:
    return ApplyError(
        code="table-changed",
        what="the table is not what it was when the diff was planned",
        object=name,
        hint="run the diff anew",
        retryable=False,
    )
