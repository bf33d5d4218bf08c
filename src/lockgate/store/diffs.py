"""Diffs in the metastore: each as asked for, who works on it, and the ranges that are done.

Who works on a diff has its *attempt*, a number that is raised whenever somebody takes it up. All
that is written carries it and lands only while it is the newest: a node that was paused and wakes
up adds nothing to a diff that another one has taken over. A range is written once; what was found
first stays.

The time that a diff has taken is counted here, from one word of its worker to the next: what lies
between the last word of a dead one and the first of the next is nobody's.

Old ones are forgotten when there are many, the oldest first, never one that runs.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import sqlalchemy as sa

from lockgate.model.diffs import DiffRecord, DiffState, DiffTrouble, RangeOutcome
from lockgate.model.ids import NodeRef
from lockgate.store.tables import diff_ranges, diffs, upsert
from lockgate.store.texts import fits
from lockgate.store.transactions import Alive, Clock, Transactions

__all__ = ["KEPT", "DiffBook", "Looked"]

KEPT: Final = 1000
"""Diffs that are over and remembered."""

_RECORD: Final = msgspec.json.Decoder(DiffRecord)
_RANGE: Final = msgspec.json.Decoder(RangeOutcome)


class Looked(NamedTuple):
    """One diff at one moment."""

    record: DiffRecord
    ranges: list[RangeOutcome]
    now_ms: int
    """By the metastore's clock."""


class DiffBook:
    """All diffs of one metastore."""

    def __init__(self, transactions: Transactions, clock: Clock) -> None:
        self._transactions = transactions
        self._clock = clock

    def begin(self, record: DiffRecord) -> DiffRecord:
        """Write a new diff down, with the time of now. The record as it is kept: where there is one
        of this name, that one."""

        def work(connection: sa.Connection, _: Alive) -> tuple[DiffRecord, bool]:
            found = _read(connection, record.id, lock=True)
            if found is not None:
                return found, False
            kept = msgspec.structs.replace(record, started_ms=self._clock(connection))
            connection.execute(sa.insert(diffs), _row(kept))
            self._trim(connection)
            return kept, True

        with self._transactions.told("record a diff"):
            return self._transactions.write(work)

    def take_up(self, diff: str, seen: DiffRecord, runner: NodeRef | None) -> DiffRecord | None:
        """Make a diff one's own that is as it was `seen`; None when it is not any more. Without a
        runner it is left to whoever has room for it."""

        def work(connection: sa.Connection, _: Alive) -> tuple[DiffRecord | None, bool]:
            found = _read(connection, diff, lock=True)
            if found is None or (found.attempt, found.state) != (seen.attempt, seen.state):
                return None, False
            mine = msgspec.structs.replace(
                found,
                state=DiffState.RUNNING,
                runner=runner,
                attempt=found.attempt + 1,
                seen_ms=self._clock(connection),
                trouble=None,
                failed=(),
            )
            _write(connection, mine)
            return mine, True

        with self._transactions.told("take up a diff"):
            return self._transactions.write(work)

    def call_off(self, diff: str, why: DiffTrouble) -> bool:
        """Nobody is to work on it any more: whoever does loses it. False: it is over already."""

        def work(connection: sa.Connection, _: Alive) -> tuple[bool, bool]:
            found = _read(connection, diff, lock=True)
            if found is None or found.state is not DiffState.RUNNING:
                return False, False
            off = msgspec.structs.replace(
                found, state=DiffState.FAILED, attempt=found.attempt + 1, trouble=why
            )
            _write(connection, self._timed(connection, off, found))
            return True, True

        with self._transactions.told("call off a diff"):
            return self._transactions.write(work)

    def write(self, record: DiffRecord) -> DiffRecord | None:
        """Keep a record as it is now; as it is kept. None: somebody else has taken the diff up."""

        def work(connection: sa.Connection, _: Alive) -> tuple[DiffRecord | None, bool]:
            found = _mine(connection, record)
            if found is None:
                return None, False
            kept = self._timed(connection, record, found)
            _write(connection, kept)
            return kept, True

        with self._transactions.told("record a diff"):
            return self._transactions.write(work)

    def done(self, record: DiffRecord, outcomes: Sequence[RangeOutcome]) -> bool:
        """Keep what came of ranges. False: somebody else has taken the diff up."""
        rows = [
            {"diff": record.id, "table": each.table, "no": each.no, "body": _text(each)}
            for each in outcomes
        ]

        def work(connection: sa.Connection, _: Alive) -> tuple[bool, bool]:
            found = _mine(connection, record)
            if found is None or not rows:
                return found is not None, False
            connection.execute(upsert(connection, diff_ranges, change=False), rows)
            _write(connection, self._timed(connection, found, found))
            return True, True

        with self._transactions.told("record what was compared"):
            return self._transactions.write(work)

    def read(self, diff: str) -> DiffRecord | None:
        """One of them; None when there is none of this name."""
        if not fits(diff):
            return None
        with self._transactions.told("read a diff"):
            return self._transactions.read(lambda connection, _: _read(connection, diff))

    def look(self, diff: str) -> Looked | None:
        """One of them with all that is done of it, at one moment."""
        if not fits(diff):
            return None

        def work(connection: sa.Connection, _: Alive) -> Looked | None:
            record = _read(connection, diff)
            if record is None:
                return None
            return Looked(record, _ranges(connection, diff), self._clock(connection))

        with self._transactions.told("read a diff"):
            return self._transactions.read(work)

    def ranges(self, diff: str) -> list[RangeOutcome]:
        """What is done of a diff, by table and number."""
        with self._transactions.told("read a diff"):
            return self._transactions.read(lambda connection, _: _ranges(connection, diff))

    def all(self) -> list[DiffRecord]:
        """Every diff that is remembered, the newest first."""
        query = sa.select(diffs.c.body).order_by(diffs.c.at.desc(), diffs.c.diff)
        return self._records(query)

    def running(self) -> list[DiffRecord]:
        """Those that are not over, whoever works on them, the oldest first."""
        return self._records(
            sa.select(diffs.c.body)
            .where(diffs.c.state == DiffState.RUNNING.value)
            .order_by(diffs.c.at, diffs.c.diff)
        )

    def _records(self, query: sa.Select[tuple[str]]) -> list[DiffRecord]:
        def work(connection: sa.Connection, _: Alive) -> list[DiffRecord]:
            return [_RECORD.decode(row.body) for row in connection.execute(query)]

        with self._transactions.told("read diffs"):
            return self._transactions.read(work)

    def _timed(
        self, connection: sa.Connection, record: DiffRecord, found: DiffRecord
    ) -> DiffRecord:
        """The record, with the time since its worker was last heard counted as spent on it."""
        now_ms = self._clock(connection)
        since_s = max(0, now_ms - found.seen_ms) / 1000 if found.seen_ms else 0.0
        seconds = round(found.seconds + since_s, 3)
        return msgspec.structs.replace(record, seconds=seconds, seen_ms=now_ms)

    def _trim(self, connection: sa.Connection) -> None:
        query = (
            sa.select(diffs.c.diff)
            .where(diffs.c.state != DiffState.RUNNING.value)
            .order_by(diffs.c.at.desc(), diffs.c.diff)
            .offset(KEPT)
        )
        for diff in connection.execute(query).scalars().all():
            connection.execute(sa.delete(diff_ranges).where(diff_ranges.c.diff == diff))
            connection.execute(sa.delete(diffs).where(diffs.c.diff == diff))


def _read(connection: sa.Connection, diff: str, *, lock: bool = False) -> DiffRecord | None:
    query = sa.select(diffs.c.body).where(diffs.c.diff == diff)
    if lock:
        query = query.with_for_update()
    body: str | None = connection.execute(query).scalar_one_or_none()
    return None if body is None else _RECORD.decode(body)


def _ranges(connection: sa.Connection, diff: str) -> list[RangeOutcome]:
    query = (
        sa.select(diff_ranges.c.body)
        .where(diff_ranges.c.diff == diff)
        .order_by(diff_ranges.c.table, diff_ranges.c.no)
    )
    return [_RANGE.decode(body) for body in connection.execute(query).scalars()]


def _mine(connection: sa.Connection, record: DiffRecord) -> DiffRecord | None:
    """The record as it is kept, while it is still this attempt's."""
    found = _read(connection, record.id, lock=True)
    return found if found is not None and found.attempt == record.attempt else None


def _write(connection: sa.Connection, record: DiffRecord) -> None:
    row = _row(record)
    connection.execute(sa.update(diffs).where(diffs.c.diff == record.id).values(row))


def _row(record: DiffRecord) -> dict[str, object]:
    return {
        "diff": record.id,
        "attempt": record.attempt,
        "state": record.state.value,
        "at": record.started_ms,
        "body": _text(record),
    }


def _text(value: DiffRecord | RangeOutcome) -> str:
    return msgspec.json.encode(value).decode()
