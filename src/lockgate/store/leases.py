"""Leases and the election, inside one transaction of the caller, by the store's clock.

A lease decides nothing about safety: fences do that. It decides who is waited for. So when
the clock jumps, forwards or back, leases may end early, and a lease never lasts longer than
twice its length.

Rows are locked in this order, by everybody: a node's scope, its lease, the coordinator's
lease, the coordinator's scope. The clock is read once what it decides about is locked.
"""

from collections.abc import Callable

import msgspec
import sqlalchemy as sa

from lockgate.model.batch import Leader, Member
from lockgate.model.ids import Millis, NodeId, NodeRef
from lockgate.model.records import COORDINATOR, KIND_OF, DrainRecord, node_scope
from lockgate.store.batches import stand
from lockgate.store.tables import leader, nodes, records, scopes, upsert

__all__ = ["Clock", "join", "renew"]

Clock = Callable[[sa.Connection], Millis]

_drain_decoder = msgspec.json.Decoder(DrainRecord)
_DRAIN = KIND_OF[DrainRecord]


def join(connection: sa.Connection, node: NodeId, clock: Clock, lease_ms: int) -> NodeRef:
    """Begin a new life of `node`, under a lease. Whatever its last life still writes is refused."""
    scope = node_scope(node)
    ref = NodeRef(node, stand(connection, [scope])[scope].fence + 1)
    connection.execute(
        sa.update(scopes).where(scopes.c.scope == scope).values(fence=ref.incarnation)
    )
    connection.execute(
        upsert(connection, nodes),
        {
            "node": node,
            "incarnation": ref.incarnation,
            "expires_at": clock(connection) + lease_ms,
            "length_ms": lease_ms,
        },
    )
    return ref


def renew(
    connection: sa.Connection, ref: NodeRef, clock: Clock, lease_ms: int
) -> tuple[tuple[Member, ...], Leader] | None:
    """Prolong the lease of `ref` and stand for election. None: its lease is lost."""
    own = connection.execute(
        sa.select(nodes).where(nodes.c.node == ref.node).with_for_update()
    ).one_or_none()
    now = clock(connection)
    if own is None or own.incarnation != ref.incarnation or not _runs(own, now):
        return None
    connection.execute(
        sa.update(nodes)
        .where(nodes.c.node == ref.node)
        .values(expires_at=now + lease_ms, length_ms=lease_ms)
    )
    leads = _elect(connection, ref, now, lease_ms)
    return _members(connection, now), leads


def _elect(connection: sa.Connection, ref: NodeRef, now: Millis, lease_ms: int) -> Leader:
    """The coordinator after `ref` has stood: in office it stays, an empty office it takes.

    A former life of the same node is over, so the office is empty however long its lease runs: a
    lone node that was killed and started again is not kept waiting by itself.
    """
    seat = connection.execute(sa.select(leader)).one()
    holder = Leader(NodeRef(seat.node, seat.incarnation), seat.term)
    if holder.ref.node != ref.node and _runs(seat, now):
        return holder
    # Only now the lock: nodes that merely look do not queue up behind each other.
    seat = connection.execute(sa.select(leader).with_for_update()).one()
    holder = Leader(NodeRef(seat.node, seat.incarnation), seat.term)
    if holder.ref != ref:
        if holder.ref.node != ref.node and _runs(seat, now):
            return holder
        term = stand(connection, [COORDINATOR])[COORDINATOR].fence + 1
        connection.execute(
            sa.update(scopes).where(scopes.c.scope == COORDINATOR).values(fence=term)
        )
        holder = Leader(ref, term)
    connection.execute(
        sa.update(leader).values(
            node=holder.ref.node,
            incarnation=holder.ref.incarnation,
            term=holder.term,
            expires_at=now + lease_ms,
            length_ms=lease_ms,
        )
    )
    return holder


def _members(connection: sa.Connection, now: Millis) -> tuple[Member, ...]:
    bodies = connection.execute(
        sa.select(records.c.body).where(records.c.scope == COORDINATOR, records.c.kind == _DRAIN)
    ).scalars()
    draining = {_drain_decoder.decode(body).node for body in bodies}
    rows = connection.execute(sa.select(nodes).order_by(nodes.c.node))
    refs = (NodeRef(row.node, row.incarnation) for row in rows if _runs(row, now))
    return tuple(Member(ref, ref in draining) for ref in refs)


def _runs(lease: sa.Row[tuple[object, ...]], now: Millis) -> bool:
    """True while the lease runs. One that would end later than it ever could was given before
    the clock was put back: it counts as ended, or its holder would be waited for that long.
    """
    left: int = lease.expires_at - now
    length_ms: int = lease.length_ms
    return left > 0 and (length_ms == 0 or left <= 2 * length_ms)
