"""The decoder: pgoutput messages in, batches of typed changes out, a whole buffer at a time.

Work per message is done by NumPy and Arrow over all messages at once. Python loops run over
Relation messages, TRUNCATEs, DDL rows and tables: few, however many rows there are.

    kinds of all messages → transactions                              transactions.py
      Relation messages → how each table is read, from where on       catalogue.py
      row messages by table → which are wanted, and their seq
        DDL rows among them → positions                               transactions.py
        or, without any, tables described otherwise than before       following.py
          row messages of one table → batches                         batches.py

What is carried from one buffer to the next: the transaction that is open, the tables, the next
seq. So a transaction may come in any number of buffers, and how it is cut shows nowhere but in
the number of batches.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lockgate.endpoints.postgres.pgoutput import transactions
from lockgate.endpoints.postgres.pgoutput.batches import Changes, Reader
from lockgate.endpoints.postgres.pgoutput.catalogue import Catalogue, Edition, Plan
from lockgate.endpoints.postgres.pgoutput.following import Follow, ShapeChange
from lockgate.endpoints.postgres.pgoutput.loads import Buffer, Bytes, Indexes, Loads
from lockgate.endpoints.postgres.pgoutput.malformed import Malformed
from lockgate.endpoints.postgres.pgoutput.relations import Relation
from lockgate.endpoints.postgres.pgoutput.rows import read_row
from lockgate.endpoints.postgres.pgoutput.transactions import Commit, Open, Scope
from lockgate.model.positions import Position
from lockgate.model.tables import TableName, TableShape

__all__ = ["Decoded", "Decoder", "SchemaRow", "SeenRelation"]

_INSERT, _TRUNCATE, _COMMIT = b"ITC"
_LENGTHS: Final = np.full(256, 2**40)
"""How long a message of each kind is at least. None of an unknown kind is long enough."""
for _kinds, _length in {b"ORYM": 1, b"IUD": 8, b"T": 6, b"B": 21, b"C": 26}.items():
    _LENGTHS[list(_kinds)] = _length

Batch = tuple[TableShape, pa.RecordBatch]


class SchemaRow(NamedTuple):
    """A row of the table in which the source logs its DDL."""

    position: Position
    values: dict[str, str | None]
    """By column, as text."""


class SeenRelation(NamedTuple):
    """A table that the stream describes for the first time, or otherwise than before."""

    position: Position
    """Of the changes that follow."""
    previous: Relation | None
    relation: Relation


class Decoded(NamedTuple):
    """What one buffer held."""

    batches: list[Batch]
    """In the segment schema. A table may have several; `seq` is the order, over all tables."""
    schema_rows: list[SchemaRow]
    shape_changes: list[ShapeChange]
    relations: list[SeenRelation]
    commit: Commit | None
    """The last transaction that ended in this buffer."""
    transactions: int
    """How many ended."""
    open: bool
    """True when a transaction has begun and its end is in a later buffer."""
    rows: int
    """Changes in `batches`."""
    bytes: int
    """Of all messages."""


class _Messages(NamedTuple):
    """One buffer's messages."""

    loads: Loads
    kinds: Bytes
    starts: Indexes
    ends: Indexes

    def bytes_(self, message: int) -> bytes:
        return self.loads.bytes_(int(self.starts[message]), int(self.ends[message]))


class _Places(NamedTuple):
    """For each message of a buffer, where it stands."""

    scope: Scope
    weights: Indexes
    """Changes in it that the feed wants."""
    seqs: Indexes
    """Of the first of them."""
    runs: Indexes
    """DDL runs of its transaction, up to and with this message."""
    positions: Indexes

    def of_run(self, message: int, statement: str) -> Position:
        """Of the DDL run that the message belongs to."""
        position = int(self.positions[message]) - 1
        if self.runs[message] > transactions.RUNS_MAX:
            raise transactions.too_many_runs(statement, position)
        return position

    def changes(self, from_: _Messages, messages: Indexes) -> Changes:
        """The messages as changes, one each."""
        own = self.scope.of[messages]
        return Changes(
            from_.kinds[messages],
            from_.starts[messages],
            from_.ends[messages],
            self.positions[messages],
            self.seqs[messages],
            self.scope.xids[own],
            self.scope.times[own],
        )


class Decoder:
    """Decodes the stream of one slot.

    `plan` is asked once per Relation message what the feed wants of that table, None when
    nothing. `ddl_table` is the table in which the source logs its DDL: what is inserted there is
    handed out as it is. `next_seq` is the seq of the first change.

    `follow` is for sources without such a table: what it makes of a table that is described
    otherwise than before takes the place of a row of DDL. It is asked about transactions beyond
    `resolved` only: up to there everything is known.

    After an error the decoder is of no use any more.
    """

    def __init__(
        self,
        ddl_table: TableName,
        plan: Plan,
        next_seq: int,
        *,
        follow: Follow | None = None,
        resolved: Position = 0,
    ) -> None:
        self.next_seq = next_seq
        self._follow = follow
        self._resolved = resolved
        self._catalogue = Catalogue(ddl_table, plan)
        self._open: Open | None = None

    def decode(
        self, buffer: Buffer, starts: npt.NDArray[np.integer], ends: npt.NDArray[np.integer]
    ) -> Decoded:
        """The messages from `starts[i]` to before `ends[i]` of the buffer, in this order.

        The buffer is not kept. It is read in place when at least `loads.SPARE` bytes follow the
        last message, else copied.
        """
        messages = _messages(buffer, starts.astype(np.int64), ends.astype(np.int64))
        scope = transactions.scope(messages.loads, messages.kinds, messages.starts, self._open)
        seen = self._catalogue.learn(*messages)
        parts = list(self._catalogue.rows(*messages[:3]))
        truncations = self._catalogue.truncations(*messages)
        rows = _ddl(messages, parts)
        followed = self._followed(scope, seen)
        ddl = np.union1d(rows, [message for message, _ in followed]).astype(np.int64)
        wanted = [(edition.reader, part) for edition, part in parts if edition.reader]
        places = self._places(scope, wanted, truncations, ddl)

        batches: list[Batch] = []
        for reader, part in wanted:
            changes = places.changes(messages, part)
            batches += [(reader.shape, batch) for batch in reader.batches(messages.loads, changes)]
        for message, readers in truncations:
            batches += _truncations(places.changes(messages, np.array([message])), readers)
        decoded = Decoded(
            batches,
            [self._schema_row(messages, places, message) for message in rows.tolist()],
            [_placed(places, message, change) for message, change in followed],
            [SeenRelation(int(places.positions[at]), was, now) for at, was, now in seen],
            scope.last,
            int((messages.kinds == _COMMIT).sum()),
            scope.open,
            int(places.weights.sum()),
            int((messages.ends - messages.starts).sum()),
        )
        self._carry(places, ddl)
        return decoded

    def _followed(
        self, scope: Scope, seen: list[tuple[int, Relation | None, Relation]]
    ) -> list[tuple[int, ShapeChange]]:
        """The descriptions that change a table, by message; their positions are not known yet."""
        if self._follow is None:
            return []
        found = []
        for message, _, relation in seen:
            if scope.commit_lsns[scope.of[message]] > self._resolved:
                plan = self._catalogue.at(relation.oid, message).plan
                if (change := self._follow(relation, plan)) is not None:
                    found.append((message, ShapeChange(0, relation.oid, *change)))
        return found

    def _places(
        self,
        scope: Scope,
        wanted: list[tuple[Reader, Indexes]],
        truncations: list[tuple[int, list[Reader]]],
        ddl: Indexes,
    ) -> _Places:
        weights = np.zeros(len(scope.of), np.int64)
        for _, part in wanted:
            weights[part] = 1
        for message, readers in truncations:
            weights[message] = len(readers)
        seqs = np.cumsum(weights)
        seqs += self.next_seq - weights
        runs = transactions.runs(weights > 0, ddl, scope, self._open)
        return _Places(scope, weights, seqs, runs, scope.commit_lsns[scope.of] + 2 * runs)

    def _schema_row(self, messages: _Messages, places: _Places, message: int) -> SchemaRow:
        row = messages.bytes_(message)
        edition = self._catalogue.at(int.from_bytes(row[1:5], "big"), message)
        values = read_row(row, edition.relation)
        texts = [value for value in values.values() if value is not None]
        statement = values.get("statement") or "; ".join(texts)
        return SchemaRow(places.of_run(message, statement), values)

    def _carry(self, places: _Places, ddl: Indexes) -> None:
        """Keep what the next buffer needs."""
        self.next_seq += int(places.weights.sum())
        self._catalogue.settle()
        if len(places.runs):
            changes = np.flatnonzero(places.weights)
            self._open = places.scope.rest(self._open, int(places.runs[-1]), changes, ddl)


def _messages(buffer: Buffer, starts: Indexes, ends: Indexes) -> _Messages:
    loads = Loads(buffer, int(ends.max(initial=0)))
    kinds = loads.data[starts]
    short = ends - starts < _LENGTHS[kinds]
    if short.any():
        kind = chr(int(kinds[short][0]))
        raise Malformed(f"a message is of the unknown kind {kind!r}, or cut off")
    return _Messages(loads, kinds, starts, ends)


def _ddl(messages: _Messages, parts: list[tuple[Edition, Indexes]]) -> Indexes:
    """The messages that insert into the table of DDL."""
    found = [part[messages.kinds[part] == _INSERT] for edition, part in parts if edition.is_ddl]
    return np.sort(np.concatenate([np.zeros(0, np.int64), *found]))


def _placed(places: _Places, message: int, change: ShapeChange) -> ShapeChange:
    return change._replace(position=places.of_run(message, change.step.statement))


def _truncations(changes: Changes, readers: list[Reader]) -> list[Batch]:
    """One change per table, all of one message."""
    return [
        (reader.shape, reader.truncations(changes._replace(seqs=changes.seqs + number)))
        for number, reader in enumerate(readers)
    ]
