"""Landing a batch of the change log in a table's ingest: what a task of a lake feed does.

**Of what the first copy has**, nothing lands. Values that an update left alone are looked up in the
lake, and a copy that has seen what came later does not have them any more: its row is deleted, has
another key, or the key is another row's by now. A copy that was broken off and went on was read
under several snapshots, and which of them has a key, only the source could tell. Then all changes
land, for a row is what its last change says; and where that hangs on a value that may be gone
between two snapshots, the table is to be copied anew (`CopyTorn`).
"""

import time

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.delta.fenced import TableDead
from lockgate.endpoints.delta.landing import RowMissing, changes_of
from lockgate.endpoints.delta.layered import BatchOvertaken, LayeredTable
from lockgate.endpoints.delta.lookup import look_up
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.keys import whole
from lockgate.endpoints.postgres.sink.log import Log, moves_large_values
from lockgate.endpoints.postgres.sink.snapshots import Snapshot
from lockgate.model.apply import ApplyError, Receipt
from lockgate.model.errors import LockgateError, StaleOwner, Transient
from lockgate.model.floors import Refusal
from lockgate.model.ids import SpanId, Token
from lockgate.model.positions import Position
from lockgate.model.tables import TableShape
from lockgate.model.value import Value
from lockgate.store.changelog.reading import read_segments

__all__ = ["CopyTorn", "LandItem", "land", "land_task"]


class CopyTorn(Transient):
    """A value is gone between two snapshots of the first copy: the table is to be copied anew."""

    code = "copy-torn"


class LandItem(Value, frozen=True):
    """The changes of one table from `after` up to `to`."""

    span: SpanId
    token: Token
    after: Position
    to: Position
    place: bytes
    """The incarnation's, on the wire: a secret may be in it."""
    home: str
    """Whose ingest it is (`ingest_of`)."""
    shape: TableShape
    """Of all changes in `segments`."""
    segments: tuple[str, ...]


def land(item: LandItem) -> Receipt:
    """Bring the changes into the table's ingest, once. BatchOvertaken: some of them are there.
    CopyTorn: they cannot be."""
    began_s = time.monotonic()
    table = LayeredTable.open(Place.from_wire(item.place), item.home)
    if table.has_landed(item.token, item.to, after=item.after):
        return Receipt(item.span, seconds=time.monotonic() - began_s)
    found = read_segments(item.segments, item.after, item.to)
    copied = pc.less_equal(found["position"], table.stable.look().settled)
    torn = len(table.snapshots) > 1 and pc.any(copied).as_py()
    if torn and moves_large_values(found.filter(copied), item.shape):
        raise _torn(item)
    if len(table.snapshots) == 1:
        found = _unseen(found, copied, table.snapshots[0])
    seq = np.asarray(whole(found["seq"]), dtype=np.int64)
    log = Log.of(found, item.shape, item.after, item.to)
    schema = table.ingest.schema
    try:
        changes = changes_of(log, seq, schema, lambda keys, columns: look_up(table, keys, columns))
    except RowMissing:
        # Or was it looked up in a later state?
        if table.has_landed(item.token, item.to, after=item.after):
            return Receipt(item.span, seconds=time.monotonic() - began_s)
        if torn:
            raise _torn(item) from None
        raise
    table.land(item.token, changes, item.to, after=item.after)
    table.prune_if_worth(item.token)
    return Receipt(
        item.span,
        rows=changes.num_rows,
        changes=len(log),
        seconds=time.monotonic() - began_s,
    )


def _unseen(found: pa.Table, copied: pa.ChunkedArray, snapshot: str) -> pa.Table:
    """Without the changes that the first copy has."""
    seen = Snapshot.parse(snapshot).sees(np.asarray(whole(found["xid"]), dtype=np.int64))
    return found.filter(pc.invert(pc.and_(copied, pa.array(seen))))


def _torn(item: LandItem) -> CopyTorn:
    return CopyTorn(
        "a value that was not sent again is gone between two snapshots of the first copy",
        object_=str(item.shape.table),
        hint="nothing: the table is copied anew",
        operation="land changes",
    )


def land_task(data: bytes) -> bytes:
    """The same as a task of Spark's."""
    item = msgspec.msgpack.decode(data, type=LandItem)
    try:
        receipt = land(item)
    except (TableDead, BatchOvertaken):
        receipt = Receipt(item.span, refusal=Refusal.MOVED)  # claimed again, it learns of it
    except StaleOwner:
        receipt = Receipt(item.span, refusal=Refusal.NEWER)
    except LockgateError as error:
        receipt = Receipt(item.span, error=ApplyError.of(error, object_=str(item.shape.table)))
    return msgspec.msgpack.encode(receipt)
