"""Batches as SQL: the compare-and-set of `model.batch`, inside one transaction of the caller.

The rows of all scopes that a batch concerns are locked before anything is compared, so what
was compared still holds when the transaction commits. A scope without a row stands at fence 0,
serial 0; its row is made first, because only a row can be locked.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import sqlalchemy as sa

from lockgate.model.batch import Batch, Landed, Loaded, Refused
from lockgate.model.records import Record, Scope, key_of
from lockgate.store.tables import records, scopes, upsert

__all__ = ["FENCE_MAX", "Standing", "load", "stand", "write"]

FENCE_MAX: Final = 2**63 - 1
"""What a row can hold. A fence beyond it is an error: wrapped around, it would let the dead in."""

_ROWS_AT_ONCE: Final = 2_000
"""Rows per round trip: enough to be quick, and a bound on what is held in memory."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)


class Standing(msgspec.Struct):
    """Where a scope stands."""

    fence: int
    serial: int


def stand(connection: sa.Connection, wanted: Iterable[Scope]) -> dict[Scope, Standing]:
    """Lock the rows of these scopes until the transaction ends, making those that are missing."""
    names = sorted(set(wanted))
    found = _locked(connection, names)
    missing = [name for name in names if name not in found]
    if missing:
        # Two may make one row at once; the later waits here, then locks what the earlier left.
        connection.execute(
            upsert(connection, scopes, change=False),
            [{"scope": name, "fence": 0, "serial": 0} for name in missing],
        )
        found |= _locked(connection, missing)
    return found


def _locked(connection: sa.Connection, names: list[Scope]) -> dict[Scope, Standing]:
    found: dict[Scope, Standing] = {}
    for start in range(0, len(names), _ROWS_AT_ONCE):
        rows = connection.execute(
            sa.select(scopes.c.scope, scopes.c.fence, scopes.c.serial)
            .where(scopes.c.scope.in_(names[start : start + _ROWS_AT_ONCE]))
            .order_by(scopes.c.scope)
            .with_for_update()
        )
        found |= {scope: Standing(fence, serial) for scope, fence, serial in rows}
    return found


def write(connection: sa.Connection, batch: Batch) -> tuple[Landed | Refused, bool]:
    """The answer to a batch, and whether the transaction is to be committed for it.

    Raises ValueError, with nothing written, for a batch that no correct writer can send.
    """
    for raised in batch.raises:
        if not raised.old < raised.new <= FENCE_MAX:
            raise ValueError(f"{raised} does not raise a fence within what a fence can be")
    standing = stand(connection, [batch.scope, *(raised.scope for raised in batch.raises)])
    own = standing[batch.scope]
    landed = Landed(batch.scope, batch.serial)
    refused = Refused(batch.scope, batch.serial, own.fence)
    if batch.fence != own.fence:
        return refused, False
    if batch.serial <= own.serial:
        return landed, False
    if batch.serial != own.serial + 1:
        raise ValueError(
            f"batch {batch.serial} of scope {batch.scope!r} skips ahead: {own.serial} landed last"
        )
    # One batch may raise a scope twice, when its writer gathered two hand-overs: each starts
    # from where the one before it left the scope.
    for raised in batch.raises:
        if raised.old != standing[raised.scope].fence:
            return refused, False
        standing[raised.scope].fence = raised.new
    own.serial = batch.serial
    _delete(connection, batch)
    _put(connection, batch)
    connection.execute(
        sa.update(scopes)
        .where(scopes.c.scope == sa.bindparam("of"))
        .values(fence=sa.bindparam("to_fence"), serial=sa.bindparam("to_serial")),
        [
            {"of": scope, "to_fence": row.fence, "to_serial": row.serial}
            for scope, row in standing.items()
        ],
    )
    return landed, True


def _delete(connection: sa.Connection, batch: Batch) -> None:
    statement = sa.delete(records).where(
        records.c.scope == batch.scope,
        records.c.kind == sa.bindparam("of_kind"),
        records.c.id == sa.bindparam("of_id"),
    )
    for start in range(0, len(batch.deletes), _ROWS_AT_ONCE):
        connection.execute(
            statement,
            [
                {"of_kind": key.kind, "of_id": key.id}
                for key in batch.deletes[start : start + _ROWS_AT_ONCE]
            ],
        )


def _put(connection: sa.Connection, batch: Batch) -> None:
    statement = upsert(connection, records)
    scope = batch.scope
    for start in range(0, len(batch.puts), _ROWS_AT_ONCE):
        rows = []
        for record in batch.puts[start : start + _ROWS_AT_ONCE]:
            key = key_of(record)
            body = _encoder.encode(record).decode()
            rows.append({"scope": scope, "kind": key.kind, "id": key.id, "body": body})
        connection.execute(statement, rows)


def load(connection: sa.Connection, scope: Scope, alive: Callable[[], None]) -> Loaded:
    """Everything of one scope, in the order of its keys; rows are decoded as they come in.

    `alive` is called now and then, while rows keep coming. The connection must show one moment.
    """
    row = connection.execute(
        sa.select(scopes.c.fence, scopes.c.serial).where(scopes.c.scope == scope)
    ).one_or_none()
    if row is None:
        return Loaded(scope, 0, 0, ())
    bodies = connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(
        sa.select(records.c.body)
        .where(records.c.scope == scope)
        .order_by(records.c.kind, records.c.id)
    )
    found: list[Record] = []
    decode = _decoder.decode
    for part in bodies.scalars().partitions():
        found.extend(map(decode, part))
        alive()
    return Loaded(scope, row.fence, row.serial, tuple(found))
