"""Landing a batch of the change log in a table's ingest: what a task of a lake feed does."""

import time

import msgspec
import numpy as np

from lockgate.endpoints.delta.fenced import TableDead
from lockgate.endpoints.delta.landing import RowMissing, changes_of
from lockgate.endpoints.delta.layered import BatchOvertaken, LayeredTable
from lockgate.endpoints.delta.lookup import look_up
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.keys import whole
from lockgate.endpoints.postgres.sink.log import Log
from lockgate.model.apply import ApplyError, Receipt
from lockgate.model.errors import LockgateError, StaleOwner
from lockgate.model.floors import Refusal
from lockgate.model.ids import SpanId, Token
from lockgate.model.positions import Position
from lockgate.model.tables import TableShape
from lockgate.model.value import Value
from lockgate.store.changelog.reading import read_segments

__all__ = ["LandItem", "land", "land_task"]


class LandItem(Value, frozen=True):
    """The changes of one table from `after` up to `to`."""

    span: SpanId
    token: Token
    after: Position
    to: Position
    place: bytes
    """The incarnation's, on the wire: a secret may be in it."""
    home: str
    shape: TableShape
    """Of all changes in `segments`."""
    segments: tuple[str, ...]


def land(item: LandItem) -> Receipt:
    """Bring the changes into the table's ingest, once. BatchOvertaken: some of them are there."""
    began_s = time.monotonic()
    table = LayeredTable.open(Place.from_wire(item.place), item.home)
    if table.has_landed(item.token, item.to, after=item.after):
        return Receipt(item.span, seconds=time.monotonic() - began_s)
    found = read_segments(item.segments, item.after, item.to)
    seq = np.asarray(whole(found["seq"]), dtype=np.int64)
    log = Log.of(found, item.shape, item.after, item.to)
    schema = table.ingest.schema
    try:
        changes = changes_of(log, seq, schema, lambda keys, columns: look_up(table, keys, columns))
    except RowMissing:
        # Or was it looked up in a later state?
        if table.has_landed(item.token, item.to, after=item.after):
            return Receipt(item.span, seconds=time.monotonic() - began_s)
        raise
    table.land(item.token, changes, item.to, after=item.after)
    table.prune_if_worth(item.token)
    return Receipt(
        item.span,
        rows=changes.num_rows,
        changes=len(log),
        seconds=time.monotonic() - began_s,
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
