"""The change log's rows in the metastore, fenced by the token of the capture that owns it.

    claim    raise the log's token, which shuts out every lower one; learn where to go on
    append   segments, schema changes and the new resolved position, in one transaction
    shapes   what tables look like where the log ends, as far as appends have said so
    read     what there is after a position
    trim     take out what lies below a position; then the caller deletes the files
    forget   empty the log and leave a tombstone, which only a later epoch opens again

Every writing verb locks the log's row first, so captures that race for one feed take turns.
An `append` whose outcome is unknown is settled by a `claim`: that waits for the row's lock, and
so until the transaction in doubt is over, and then tells whether it moved the log.

A tombstone is a row whose `seq` is SEQ_MAX. It is written before the first row is deleted: from
then on readers see an empty log, and no half of one, however long the deleting takes.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import sqlalchemy as sa

from lockgate.model.errors import DidNotLand, LockgateError, OutcomeUnknown, StaleOwner, Terminal
from lockgate.model.ids import SEQ_MAX, FeedId, Millis, Token
from lockgate.model.positions import ORIGIN, Position
from lockgate.model.tables import TableShape
from lockgate.store.changelog.rows import (
    LogState,
    LogView,
    Naming,
    Retention,
    SchemaChange,
    Segment,
)
from lockgate.store.changelog.steps import (
    ROWS_AT_ONCE,
    as_row,
    as_segment,
    check,
    continues,
    end_within,
    expendable,
    is_tombstone,
    leftovers,
    lock,
    look,
    parts,
    put,
    shape_rows,
    shapes_of,
    size,
    token_of,
    whole_files,
)
from lockgate.store.faults import Fault, Kind, as_error
from lockgate.store.tables import log_shapes, schema_changes, segments, upsert
from lockgate.store.transactions import Alive, Failed, Transactions

__all__ = ["Changelog"]

_T = TypeVar("_T")


class Changelog:
    """The change logs of all feeds of a metastore. Safe to use from many threads."""

    def __init__(
        self, transactions: Transactions, *, now_ms: Callable[[], Millis] | None = None
    ) -> None:
        """`transactions` are those of an open metastore; `now_ms` replaces its clock in tests."""
        self._transactions = transactions
        self._now_ms = now_ms
        self._doubts: set[FeedId] = set()
        """Feeds with an append that may have landed."""
        self._doubts_lock = threading.Lock()

    # --- the owner's verbs ------------------------------------------------------------------

    def claim(self, feed: FeedId, token: Token, start: Position) -> LogState:
        """Make `token` the log's, which may be its own already. A new log begins at `start`.

        Raises StaleOwner when a higher token has been there, and nothing changes then.
        """

        def work(connection: sa.Connection, _: Alive) -> tuple[LogState | None, bool]:
            row = lock(connection, feed, start)
            found = token_of(row)
            if is_tombstone(row):
                if token.epoch <= found.epoch:
                    raise self._stale(feed, token, found)
                if leftovers(connection, feed):
                    return None, False
                # The numbers go on: a file that is left of the former log stays below them.
                state = LogState(start, row.next_seq)
            elif token < found:
                raise self._stale(feed, token, found)
            else:
                state = LogState(row.resolved, row.next_seq)
            put(
                connection,
                feed,
                epoch=token.epoch,
                seq=token.seq,
                incarnation=token.incarnation,
                **({"resolved": start, "floor": start} if is_tombstone(row) else {}),
            )
            return state, True

        while True:
            state = self._write("claim the change log", feed, work)
            if state is not None:
                with self._doubts_lock:
                    self._doubts.discard(feed)
                return state
            self._clear(feed)

    def append(
        self,
        feed: FeedId,
        token: Token,
        added: Sequence[Segment],
        changes: Sequence[SchemaChange],
        resolved: Position,
        next_seq: int,
        shapes: Mapping[int, TableShape] | None = None,
    ) -> None:
        """Make all of this part of the log, or nothing of it.

        `shapes` are tables, by the source's lasting numbers, that look different from now on.
        Raises StaleOwner, DidNotLand, or OutcomeUnknown: then `claim` again, and compare what it
        says with `resolved` and `next_seq`. Under one token, too, only what continues the log
        is taken; what was made for a log that has moved on since is stale.
        """
        check(added, changes, resolved, next_seq)

        def work(connection: sa.Connection, alive: Alive) -> tuple[None, bool]:
            row = lock(connection, feed, ORIGIN)
            if token_of(row) != token:
                raise self._stale(feed, token, token_of(row))
            if not continues(row, added, changes, resolved, next_seq):
                raise self._stale(feed, token, token_of(row))
            now = self._now(connection)
            for part in parts(added):
                connection.execute(sa.insert(segments), [as_row(feed, one, now) for one in part])
                alive()
            for some in parts(changes):
                connection.execute(
                    sa.insert(schema_changes),
                    [{"feed": feed, "position": c.position, "body": c.body} for c in some],
                )
                alive()
            if shapes:
                connection.execute(upsert(connection, log_shapes), shape_rows(feed, shapes))
            put(connection, feed, resolved=resolved, next_seq=next_seq)
            return None, True

        self._write("append to the change log", feed, work)

    def trim(
        self, feed: FeedId, token: Token, below: Position, keep: Retention | None = None
    ) -> list[Segment]:
        """Take out, oldest first, at most `ROWS_AT_ONCE` segments with no change at `below` or
        later, and whole files only; of those, `keep` may keep some. Nobody may ask for what lies
        there any more.

        The segments are out when this returns: now delete their files, and ask again until the
        answer is empty. Raises like `append`.
        """

        def work(connection: sa.Connection, _: Alive) -> tuple[list[Segment], bool]:
            row = lock(connection, feed, ORIGIN)
            if token_of(row) != token:
                raise self._stale(feed, token, token_of(row))
            gone = self._expendable(connection, feed, below, keep)
            if not gone:
                return [], False
            floor = max(row.floor, gone[-1].high)
            connection.execute(
                sa.delete(segments).where(
                    segments.c.feed == feed, segments.c.id.in_([one.id for one in gone])
                )
            )
            connection.execute(
                sa.delete(schema_changes).where(
                    schema_changes.c.feed == feed, schema_changes.c.position <= floor
                )
            )
            put(connection, feed, floor=floor)
            return gone, True

        return self._write("trim the change log", feed, work)

    def _expendable(
        self, connection: sa.Connection, feed: FeedId, below: Position, keep: Retention | None
    ) -> list[Segment]:
        """What a trim may take out. More than usual when less would tear a file apart."""
        limit = ROWS_AT_ONCE
        while True:
            found = connection.execute(
                sa.select(segments)
                .where(segments.c.feed == feed, segments.c.high < below)
                .order_by(segments.c.high, segments.c.id)
                .limit(limit)
            )
            old = gone = [as_segment(one) for one in found]
            if keep is not None:
                gone = expendable(gone, keep, self._now(connection), size(connection, feed))
            gone = whole_files(gone)
            if gone or len(old) < limit:
                return gone
            limit *= 2

    def forget(self, feed: FeedId, token: Token) -> None:
        """Empty the log for good: no owner of this epoch, or of an earlier one, can claim it again.

        Does nothing to a log that is forgotten already. Raises StaleOwner when a higher token has
        been there; after any other error, ask again.
        """

        def work(connection: sa.Connection, _: Alive) -> tuple[None, bool]:
            row = lock(connection, feed, ORIGIN)
            found = token_of(row)
            if is_tombstone(row) and found.epoch == token.epoch:
                return None, False
            if token < found:
                raise self._stale(feed, token, found)
            put(connection, feed, epoch=token.epoch, seq=SEQ_MAX, incarnation=0)
            return None, True

        self._write("forget the change log", feed, work)
        self._clear(feed)

    def _clear(self, feed: FeedId) -> None:
        """Delete what is left of a forgotten log, in bounded transactions."""

        def work(connection: sa.Connection, _: Alive) -> tuple[bool, bool]:
            row = lock(connection, feed, ORIGIN)
            rest = leftovers(connection, feed) if is_tombstone(row) else []
            for table, key, keys in rest:
                connection.execute(sa.delete(table).where(table.c.feed == feed, key.in_(keys)))
            return bool(rest), bool(rest)

        while self._write("forget the change log", feed, work):
            pass

    # --- everybody's verbs ------------------------------------------------------------------

    def read(
        self,
        feed: FeedId,
        after: Position,
        upto: Position | None = None,
        *,
        rows_max: int | None = None,
    ) -> LogView:
        """What the log holds at positions p with `after` < p <= `upto` (or its end).

        With `rows_max` the view ends earlier, where its segments come to about so many rows, but
        never before the end of the first one. A log that nobody claimed ends at 0. Raises
        Terminal when the log has been trimmed beyond `after`.
        """

        def work(connection: sa.Connection, alive: Alive) -> LogView:
            row = look(connection, feed)
            if row is None or is_tombstone(row):
                return LogView(ORIGIN, ORIGIN)
            if after < row.floor:
                raise Terminal(
                    "the change log does not go back that far",
                    object_=feed,
                    hint="copy the table anew, or keep more of the log next time (retention)",
                    operation="read the change log",
                    cause=f"asked for what follows {after}, and it begins after {row.floor}",
                )
            end = row.resolved if upto is None else min(upto, row.resolved)
            if rows_max is not None:
                end = end_within(connection, feed, after, end, rows_max)
            found: list[Segment] = []
            rows = connection.execution_options(yield_per=ROWS_AT_ONCE).execute(
                sa.select(segments)
                .where(segments.c.feed == feed, segments.c.high > after, segments.c.low <= end)
                .order_by(segments.c.id)
            )
            for part in rows.partitions():
                found.extend(map(as_segment, part))
                alive()
            changes = connection.execute(
                sa.select(schema_changes.c.position, schema_changes.c.body)
                .where(
                    schema_changes.c.feed == feed,
                    schema_changes.c.position > after,
                    schema_changes.c.position <= end,
                )
                .order_by(schema_changes.c.position)
            )
            said = tuple(SchemaChange(position, body) for position, body in changes)
            return LogView(row.resolved, end, tuple(found), said)

        return self._read("read the change log", work)

    def shapes(self, feed: FeedId) -> dict[int, TableShape]:
        """The newest shapes that were appended. They stay when the log is trimmed."""

        def work(connection: sa.Connection, _: Alive) -> dict[int, TableShape]:
            row = look(connection, feed)
            if row is None or is_tombstone(row):
                return {}
            return shapes_of(connection, feed)

        return self._read("read the change log", work)

    def naming(self, feed: FeedId, ids: Sequence[int]) -> Naming | None:
        """Which of these segments the log names, and whose it is; None if nobody claimed it."""

        def work(connection: sa.Connection, alive: Alive) -> Naming | None:
            row = look(connection, feed)
            if row is None:
                return None
            paths: dict[int, str] = {}
            for part in parts([] if is_tombstone(row) else ids):
                named = connection.execute(
                    sa.select(segments.c.id, segments.c.path).where(
                        segments.c.feed == feed, segments.c.id.in_(part)
                    )
                )
                paths.update((one.id, one.path) for one in named)
                alive()
            return Naming(token_of(row), row.next_seq, paths)

        return self._read("look into the change log", work)

    # --- what is known when it fails ----------------------------------------------------------

    def _write(
        self,
        operation: str,
        feed: FeedId,
        work: Callable[[sa.Connection, Alive], tuple[_T, bool]],
    ) -> _T:
        try:
            return self._transactions.write(work)
        except Failed as failed:
            fault = failed.fault
            with self._doubts_lock:
                # When an append is in doubt, that a later one failed says nothing about it.
                if not fault.certain:
                    self._doubts.add(feed)
                doubtful = feed in self._doubts
            raise self._error(operation, fault, doubtful=doubtful) from failed

    def _read(self, operation: str, work: Callable[[sa.Connection, Alive], _T]) -> _T:
        try:
            return self._transactions.read(work)
        except Failed as failed:
            raise as_error(failed.fault, self._transactions.label, operation) from failed

    def _error(self, operation: str, fault: Fault, *, doubtful: bool) -> LockgateError:
        label = self._transactions.label
        if doubtful:
            return OutcomeUnknown(
                "it is not known whether the change log was written",
                object_=label,
                hint="claim the log again: where it stands then tells",
                operation=operation,
                cause=fault.why,
            )
        if fault.kind in {Kind.BUSY, Kind.GONE}:
            return DidNotLand(
                "the change log was not written",
                object_=label,
                hint="try again; see that the metastore answers",
                operation=operation,
                cause=fault.why,
            )
        return as_error(fault, label, operation)

    def _stale(self, feed: FeedId, token: Token, found: Token) -> StaleOwner:
        why = (
            "it has moved on under this very token"
            if token == found
            else f"its token is {found}, this owner's is {token}"
        )
        return StaleOwner(
            "the change log is not this owner's (any more)",
            object_=feed,
            hint="nothing was written; whoever owns the feed now goes on",
            cause=why,
        )

    def _now(self, connection: sa.Connection) -> Millis:
        return self._now_ms() if self._now_ms else self._transactions.now_ms(connection)
