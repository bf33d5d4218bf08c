"""Make the rows of a range at the target what the source has: a Spark task's whole work.

    differences, under both snapshots ──► batches of some thousand, each a transaction at the target
        enter      the feed stands at the snapshots' position, and nobody moves it now
        hold       the target's rows as they are
        rows       the source's rows, piped into a temporary table
        delete, update, insert; then look at what still differs; commit

**A feed goes on writing, and must not be written over.** What the source had at position R may
be written only to a target that stands at R. So the feed is held there while tasks work, and every
transaction of theirs looks for itself, with the rows of the fence locked, whether it still is
(`sink/gate.enter_held`). Whoever was paused, and wakes up when the hold is over and the feed has
moved on, writes nothing: `HoldLost`. Rows and position stay together; what the feed applies next
builds on the rows of R.

**Without a feed** nothing says of which moment a row is. Then the target's rows are locked first
and the source's are read after that, as they are now: what is written was the source's row at a
moment in the transaction. Nor does anything fence it from a move, so the guards of one hold it up
like anybody: what it meets one at is left as it is, counted, and said why.

The source's rows are read in the session that has found the differences. It has the table locked,
and before anything is committed it makes sure that the table was not rewritten since the snapshot,
to which it would look empty: that would be repaired by deleting everything.

As in the sink, foreign keys and ordinary triggers do not act where the role may say so. Where they
do act, no row is deleted to be inserted again, for that could cascade. What the target refuses
is left as it is, counted, and said why; the other batches go on. What was in the way may be gone
then (a unique value that an extra row had, in a range that comes later), so whoever runs this may
run it again.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Final

import msgspec
import psycopg

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.copy.formats import binary_forms, same_forms
from lockgate.endpoints.postgres.copy.pipe import SourceError, pipe
from lockgate.endpoints.postgres.copy.snapshot import SOURCE_OPTIONS
from lockgate.endpoints.postgres.diff.finding import Difference, differences
from lockgate.endpoints.postgres.diff.items import DiffItem, DiffPart, DiffReceipt
from lockgate.endpoints.postgres.diff.repair_statements import Keyed, Keyless
from lockgate.endpoints.postgres.diff.sessions import Sides
from lockgate.endpoints.postgres.diff.statements import OPTIONS
from lockgate.endpoints.postgres.faults import fault, faults
from lockgate.endpoints.postgres.sink.apply import quieten
from lockgate.endpoints.postgres.sink.gate import Refused, enter_held
from lockgate.endpoints.postgres.sink.joins import joined
from lockgate.endpoints.postgres.sink.refused import about_data
from lockgate.endpoints.postgres.sink.session import open_session
from lockgate.endpoints.postgres.sink.target import Target, inspect
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.apply import ApplyError
from lockgate.model.diffs import RangeOutcome, RowKind
from lockgate.model.errors import Conflict, DataRefused, LockgateError, Transient
from lockgate.model.floors import Refusal
from lockgate.model.tables import Column, TableShape

__all__ = ["HoldLost", "repair_task"]

_BATCH: Final = 10_000
"""Rows that one transaction repairs, at most."""
_OPERATION: Final = "repair"
_BEGIN: Final = "SET LOCAL client_min_messages = error"
"""The first statement of a transaction: nothing else is to be read between rows that are piped."""
_GUARDED: Final = "LK"
"""How the SQLSTATEs of guards begin (`cutover/triggers`)."""
_TAKEN: Final = (psycopg.errors.UniqueViolation, psycopg.errors.ExclusionViolation)


class HoldLost(Transient):
    """The feed is not held where it was: it may have gone on, and nothing was written."""

    code = "hold-lost"


def repair_task(data: bytes) -> bytes:
    """The work function: an item's bytes in, a list of receipts out, as of `diff_task`.

    The outcomes say what differed under these snapshots, how much was written, and what is left.
    """
    item = msgspec.msgpack.decode(data, type=DiffItem)
    with Sides(item) as sides:
        return msgspec.msgpack.encode([_receipt(sides, item, part) for part in item.parts])


def _receipt(sides: Sides, item: DiffItem, part: DiffPart) -> DiffReceipt:
    table, no = part.table.source.table.id, part.space.no
    try:
        with _Session(item, sides, part) as session:
            return DiffReceipt(table, no, _repaired(session, sides, item, part))
    except LockgateError as error:
        sides.close()
        return DiffReceipt(table, no, error=ApplyError.of(error))


def _repaired(session: "_Session", sides: Sides, item: DiffItem, part: DiffPart) -> RangeOutcome:
    counts = dict.fromkeys(RowKind, 0)
    written = left = 0
    reason = ""
    found = differences(sides, part, item.seed)
    while batch := list(islice(found, _BATCH)):
        for each in batch:
            counts[each.kind] += each.count
        try:
            done, remaining = session.repair(batch)
            written, left = written + done, left + remaining
        except DataRefused as refused:
            left += sum(each.count for each in batch)
            reason = reason or str(refused)
    return RangeOutcome(
        part.table.source.table.id,
        part.space.no,
        0,
        counts[RowKind.MISSING],
        counts[RowKind.EXTRA],
        counts[RowKind.DIFFERENT],
        repaired=written,
        left=left,
        reason=reason,
    )


class _Session:
    """The sessions that repair one range: one writes at the target; one reads the source."""

    def __init__(self, item: DiffItem, sides: Sides, part: DiffPart) -> None:
        self._held = item.held
        self._seed = item.seed
        self._sides = sides
        self._part = part
        self._source = PostgresUrl.from_wire(item.source)
        self._target = PostgresUrl.from_wire(item.target)
        self._about = f"{part.table.target.table}, {self._target.label}"
        self._writing: psycopg.Connection | None = None
        self._now: psycopg.Connection | None = None
        """Reads the source as it is, where no snapshot is to be kept to."""
        self._binary: bool | None = None

    def __enter__(self) -> "_Session":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def repair(self, batch: Sequence[Difference]) -> tuple[int, int]:
        """One transaction: how many rows it wrote or deleted, and how many differ still.

        DataRefused when the target takes one of them in no way; then it has changed nothing.
        """
        with self._transaction() as connection:
            quiet = quieten(connection)
            table = self._part.table
            columns = tuple(Column(name, "") for name in table.names)
            shape = TableShape(table.target.table, columns, table.key)
            target = inspect(connection, table.target.table, shape)
            if table.key:
                return self._keyed(connection, target, batch, quiet)
            return self._keyless(connection, target, batch)

    # --- the two kinds of tables ------------------------------------------------------------------

    def _keyed(
        self,
        connection: psycopg.Connection,
        target: Target,
        batch: Sequence[Difference],
        quiet: bool,
    ) -> tuple[int, int]:
        made = Keyed(self._part, self._seed, batch)
        connection.execute(made.hold(target, lock=self._held is None))
        self._fetch(connection, made)
        plain = not target.rewrites
        if not plain and not quiet:
            raise DataRefused(
                "a column takes a value only in a new row, and rows may not be made anew",
                object_=self._about,
                hint="let the role that the URL names set session_replication_role",
                operation=_OPERATION,
            )
        written = 0
        with joined(connection, len(batch), target.rows, ordered=True):
            try:
                with connection.transaction():
                    written = self._write(connection, made, target, plain=plain)
            except _TAKEN:
                # Unique values may only have come in an unlucky order; written anew they have none.
                if not plain or not quiet:
                    raise
                written = self._write(connection, made, target, plain=False)
        return written, self._remaining(connection, made)

    def _write(
        self, connection: psycopg.Connection, made: Keyed, target: Target, *, plain: bool
    ) -> int:
        steps = (
            (
                made.delete(different=False),
                made.update(target),
                made.insert(target, different=False),
            )
            if plain
            else (
                made.delete(different=True),
                made.insert(target, different=True),
                made.insert(target, different=False),
            )
        )
        counts = [connection.execute(step).rowcount for step in steps]
        # Written anew, a row is deleted and inserted: that is one row.
        return sum(counts) if plain else counts[0] + counts[2]

    def _keyless(
        self, connection: psycopg.Connection, target: Target, batch: Sequence[Difference]
    ) -> tuple[int, int]:
        made = Keyless(self._part, self._seed, batch)
        if self._held is None:
            connection.execute(made.lock())
        connection.execute(made.hold())
        self._fetch(connection, made)
        written = connection.execute(made.delete()).rowcount
        written += connection.execute(made.insert(target)).rowcount
        return written, self._remaining(connection, made)

    def _fetch(self, connection: psycopg.Connection, made: Keyed | Keyless) -> None:
        """The source's rows, as they should be at the target."""
        connection.execute(made.make_rows())
        source = self._sides.source.session if self._held is not None else self._reading_now()
        if self._binary is None:
            self._binary = self._same_forms(source, connection)
        pipe(source, made.copy_out(self._binary), connection, made.copy_in(self._binary))
        self._sides.check(self._part.table)

    def _remaining(self, connection: psycopg.Connection, made: Keyed | Keyless) -> int:
        row = connection.execute(made.remaining()).fetchone()
        assert row is not None
        return int(row[0])

    # --- sessions ---------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection]:
        """One at the target, behind the fence. What goes wrong comes out as errors of ours."""
        try:
            connection = self._open()
            with self._errors():
                connection.execute(_BEGIN)
                self._enter(connection)
                yield connection
                connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
            with faults(object_=self._about, operation=_OPERATION, committing=True):
                connection.commit()
        except BaseException:
            # A pipe that broke has closed both; and what is half done is not to be built on.
            self._close()
            self._sides.close()
            raise

    def _enter(self, connection: psycopg.Connection) -> None:
        held = self._held
        if held is None:
            return
        source = self._part.table.source.table.id
        try:
            with connection.cursor() as cursor:
                enter_held(cursor, held.feed, source, held.hold_id, held.position)
        except Refused as refused:
            if refused.refusal is Refusal.GONE:
                raise Conflict(
                    "the feed does not write this table, so nothing says of which position it is",
                    object_=self._about,
                    hint="repair it without naming a feed, while nobody writes it",
                    operation=_OPERATION,
                ) from refused
            raise HoldLost(
                "the feed is not held any more where the rows were read",
                object_=self._about,
                hint="it is tried again, at another position",
                operation=_OPERATION,
                cause=refused.refusal.value,
            ) from refused

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except SourceError as error:
            about = f"{self._part.table.source.table}, {self._source.label}"
            raise fault(error.error, object_=about, operation=_OPERATION) from error
        except psycopg.Error as error:
            if (error.sqlstate or "").startswith(_GUARDED):
                raise DataRefused(
                    "a move has the table, and nobody but its feed may write to it here",
                    object_=self._about,
                    hint="repair it with the move's feed: lockgate move diff MOVE --repair",
                    operation=_OPERATION,
                    cause=error.diag.message_primary,
                ) from error
            found = fault(error, object_=self._about, operation=_OPERATION)
            if about_data(error) and not isinstance(found, DataRefused):
                found = DataRefused(
                    found.what,
                    object_=found.object,
                    hint=found.hint,
                    operation=_OPERATION,
                    cause=found.cause,
                )
            raise found from error

    def _open(self) -> psycopg.Connection:
        if self._writing is None:
            held = self._held
            feed = held.feed if held is not None else "diff"
            self._writing = open_session(self._target, feed, "repair", applies=held is not None)
        return self._writing

    def _reading_now(self) -> psycopg.Connection:
        if self._now is None:
            options = {
                **SOURCE_OPTIONS,
                **OPTIONS,
                "default_transaction_isolation": "read committed",
            }
            self._now = connect(self._source, purpose="diff repair", options=options)
            self._now.execute(_BEGIN)
        return self._now

    def _same_forms(self, source: psycopg.Connection, target: psycopg.Connection) -> bool:
        table = self._part.table
        here, there = table.source.table, table.target.table
        return same_forms(
            binary_forms(source, [here])[here],
            binary_forms(target, [there])[there],
            table.names,
            [column.name for column in table.source.columns if column.mask is not None],
        )

    def _close(self) -> None:
        for connection in (self._writing, self._now):
            if connection is not None:
                with suppress(psycopg.Error):
                    connection.close()
        self._writing = self._now = None
