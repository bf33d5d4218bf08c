"""Diffs as people see them: what was asked for, how far it is, what it found, what is next."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from lockgate.model.diffs import (
    SAMPLES_MAX,
    DiffDocument,
    DiffOrder,
    DiffProgress,
    DiffRecord,
    DiffSample,
    DiffState,
    DiffSummary,
    DiffTable,
    RangeOutcome,
    TableRecord,
)
from lockgate.node.service.positions import parse_lsn
from lockgate.store.diffs import Looked

__all__ = ["document", "resume_command", "summary"]

UNALIGNED: Final = (
    "not aligned: each side was looked at as it was, so whoever writes meanwhile makes differences"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAMED_MAX: Final = 3
_TELLING: Final = 2.0
"""Percent; of less, nobody can tell how long the rest takes."""


def document(looked: Looked) -> DiffDocument:
    """One diff."""
    record, ranges, now_ms = looked
    order = record.order
    found = _by_table(record, ranges)
    tables = tuple(_table(record, each, found[each.table]) for each in record.tables)
    seconds = _seconds(record, now_ms)
    rows = sum(each.rows for each in tables)
    rate = rows / seconds if seconds > 0 else 0.0
    equal = _equal(record, tables)
    positions = _positions(ranges)
    return DiffDocument(
        id=record.id,
        state=record.state,
        equal=equal,
        source=order.source,
        target=order.target,
        tables=tables,
        position=positions[-1] if positions else "",
        seconds=round(seconds, 2),
        rows_per_s=round(rate, 1),
        progress=_progress(record, found, rate),
        feed=order.feed,
        move=order.move,
        repair=order.repair,
        node=_node(record),
        started=_when(record.started_ms),
        error=_error(record),
        notes=_notes(record, positions),
        next_steps=_next_steps(record, equal, tables),
    )


def summary(record: DiffRecord, ranges: Sequence[RangeOutcome], now_ms: int) -> DiffSummary:
    """One of a list. `ranges` are those of a diff that runs; of others the record has the sums."""
    over = record.state is not DiffState.RUNNING
    unequal = record.unequal if over else _unequal(record.order, ranges)
    return DiffSummary(
        id=record.id,
        state=record.state,
        equal=record.equal if over else False if unequal else None,
        source=record.order.source,
        target=record.order.target,
        tables=len(record.tables),
        rows=record.rows if over else sum(each.rows for each in ranges),
        unequal=unequal,
        seconds=round(_seconds(record, now_ms), 2),
        feed=record.order.feed,
        move=record.order.move,
        repair=record.order.repair,
        node=_node(record),
        started=_when(record.started_ms),
        error=_error(record),
    )


def resume_command(record: DiffRecord) -> str:
    """How people have it gone on with."""
    if record.order.move:
        repair = " --repair" if record.order.repair else ""
        return f"lockgate move diff {record.order.move}{repair} --resume"
    return f"lockgate diff resume {record.id}"


# --- inside ---------------------------------------------------------------------------------------


def _by_table(record: DiffRecord, ranges: Iterable[RangeOutcome]) -> dict[str, list[RangeOutcome]]:
    found: dict[str, list[RangeOutcome]] = {each.table: [] for each in record.tables}
    for each in ranges:
        found.setdefault(each.table, []).append(each)
    return found


def _table(record: DiffRecord, table: TableRecord, found: Sequence[RangeOutcome]) -> DiffTable:
    samples: list[DiffSample] = [sample for each in found for sample in each.samples]
    positions = _positions(found)
    trouble = table.trouble or dict(record.failed).get(table.table)
    lacks = [f"the target lacks the column {name}" for name in table.lacks]
    return DiffTable(
        table=table.table,
        rows=sum(each.rows for each in found),
        equal=_table_equal(record.order, table, found),
        missing=sum(each.missing for each in found),
        extra=sum(each.extra for each in found),
        different=sum(each.different for each in found),
        samples=tuple(samples[:SAMPLES_MAX]),
        position=positions[-1] if positions else "",
        target=table.target if table.target != table.table else "",
        repaired=sum(each.repaired for each in found),
        notes=(*lacks, *table.notes, *_left(found)),
        error="" if trouble is None else trouble.what,
    )


def _left(found: Sequence[RangeOutcome]) -> tuple[str, ...]:
    """What a repair has left, and the first reason."""
    rows = sum(each.left for each in found)
    reason = next((each.reason for each in found if each.left and each.reason), "")
    return (f"{rows} rows could not be repaired: {reason or 'they changed again'}",) * bool(rows)


def _unequal(order: DiffOrder, found: Iterable[RangeOutcome]) -> int:
    return sum(each.unequal(order.repair) for each in found)


def _table_equal(
    order: DiffOrder, table: TableRecord, found: Sequence[RangeOutcome]
) -> bool | None:
    if table.lacks or _unequal(order, found):
        return False
    return True if table.ranges and len(found) == table.ranges else None


def _equal(record: DiffRecord, tables: Sequence[DiffTable]) -> bool | None:
    if any(each.equal is False for each in tables):
        return False
    return True if record.state is DiffState.FINISHED else None


def _seconds(record: DiffRecord, now_ms: int) -> float:
    if record.state is not DiffState.RUNNING or record.runner is None or not record.seen_ms:
        return record.seconds
    return record.seconds + max(0, now_ms - record.seen_ms) / 1000


def _progress(
    record: DiffRecord, found: dict[str, list[RangeOutcome]], rate: float
) -> DiffProgress:
    """Totals are the source's estimates, and become exact table by table."""
    done = total = 0
    for table in record.tables:
        some = found[table.table]
        rows = sum(each.rows for each in some)
        done += rows
        total += rows if len(some) >= table.ranges else max(rows, table.rows_estimate)
    if record.state is DiffState.FINISHED:
        return DiffProgress(done, done, 100.0, 0.0)
    percent = 100.0 * done / total if total else 0.0
    known = percent >= _TELLING and record.state is DiffState.RUNNING
    eta_s = (total - done) / rate if rate and known else None
    return DiffProgress(done, total, round(percent, 1), None if eta_s is None else round(eta_s, 1))


def _positions(ranges: Iterable[RangeOutcome]) -> list[str]:
    """At which ranges were compared, the last one last."""
    return sorted({each.position for each in ranges if each.position}, key=parse_lsn)


def _node(record: DiffRecord) -> str:
    return "" if record.runner is None else record.runner.node


def _error(record: DiffRecord) -> str:
    trouble = record.trouble
    if trouble is None:
        return ""
    return f"{trouble.what} ({trouble.object})" if trouble.object else trouble.what


def _when(at_ms: int) -> str:
    if not at_ms:
        return ""
    moment = _EPOCH + timedelta(milliseconds=at_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z"


def _notes(record: DiffRecord, positions: Sequence[str]) -> tuple[str, ...]:
    notes = []
    if not record.order.feed:
        notes.append(UNALIGNED)
    if len(positions) > 1:
        notes.append(
            f"ranges were compared at {len(positions)} positions, "
            f"{positions[0]} to {positions[-1]}: it was taken up again in between"
        )
    if record.state is DiffState.RUNNING and record.runner is None:
        notes.append("it waits for a node that has room for it")
    return tuple(notes)


def _next_steps(
    record: DiffRecord, equal: bool | None, tables: Sequence[DiffTable]
) -> tuple[str, ...]:
    order = record.order
    if record.state is DiffState.RUNNING:
        return (f"lockgate diff show {record.id}",)
    if record.state is DiffState.FAILED:
        hint = record.trouble.hint if record.trouble is not None else ""
        return (*([hint] if hint else []), f"when that is done: {resume_command(record)}")
    if equal:
        return (f"lockgate move status {order.move}",) if order.move else ()
    if order.move:
        return (f"lockgate move diff {order.move} --repair",)
    if not order.feed:
        return ("have writers rest, or name the feed between the two (--feed), and ask again",)
    wrong = [each.table for each in tables if each.equal is False]
    return (
        *([] if record.lake else [f"lockgate diff run --feed {order.feed} --repair"]),
        *(f"lockgate feed resync {order.feed} {table}" for table in wrong[:_NAMED_MAX]),
    )
