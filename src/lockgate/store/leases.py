"""Leases and the election, inside one transaction of the caller, by the store's clock.

A lease decides nothing about safety: fences do that. It decides who is waited for. So when
the clock jumps, forwards or back, leases may end early, and a lease never lasts longer than
twice its length.

Rows are locked in this order, by everybody: a node's scope, its lease, the coordinator's
lease, the coordinator's scope. The clock is read once what it decides about is locked.
"""

import msgspec
import sqlalchemy as sa

from lockgate.model.batch import Leader, Member
from lockgate.model.errors import StaleOwner
from lockgate.model.ids import Millis, NodeId, NodeRef
from lockgate.model.records import COORDINATOR, KIND_OF, DrainRecord, node_scope
from lockgate.store.batches import stand
from lockgate.store.tables import leader, nodes, records, scopes, upsert
from lockgate.store.transactions import Clock

__all__ = ["join", "leave", "renew", "runs"]

_drain_decoder = msgspec.json.Decoder(DrainRecord)
_DRAIN = KIND_OF[DrainRecord]


def join(
    connection: sa.Connection,
    node: NodeId,
    clock: Clock,
    lease_ms: int,
    address: str = "",
    home: str = "",
) -> NodeRef:
    """Begin a new life of `node`, under a lease. Whatever its last life still writes is refused.

    Raises StaleOwner, with nothing changed, while a process of another home lives under the name:
    the two would end each other's lives again and again. A node that was killed and starts again
    comes from its own home, and waits for nobody.
    """
    scope = node_scope(node)
    ref = NodeRef(node, stand(connection, [scope])[scope].fence + 1)
    last = _locked(connection, node)
    now = clock(connection)
    if home and last is not None and last.home not in {"", home} and runs(last, now):
        raise StaleOwner(
            f"another process runs under the node name {node} from another home",
            object_=node,
            hint="give this node another name with --node, or stop the other one first",
            operation="join the cluster",
        )
    connection.execute(
        sa.update(scopes).where(scopes.c.scope == scope).values(fence=ref.incarnation)
    )
    connection.execute(
        upsert(connection, nodes),
        {
            "node": node,
            "incarnation": ref.incarnation,
            "expires_at": now + lease_ms,
            "length_ms": lease_ms,
            "address": address,
            "home": home,
        },
    )
    return ref


def leave(connection: sa.Connection, ref: NodeRef, clock: Clock) -> bool:
    """End the lease of exactly this life, and its office, so that nobody waits for it.

    True if there was a running one to end; a newer life is not touched. Fences stay where they
    are: they rise with the next life and the next coordinator, as when a lease has run out.
    """
    own = _locked(connection, ref.node)
    if own is None or own.incarnation != ref.incarnation or not runs(own, clock(connection)):
        return False
    # Zero and not now: a clock that is put back must not bring an ended lease to life.
    connection.execute(sa.update(nodes).where(nodes.c.node == ref.node).values(expires_at=0))
    # Also the office that a former life of this node left behind: that life is over, too.
    connection.execute(
        sa.update(leader)
        .where(leader.c.node == ref.node, leader.c.incarnation <= ref.incarnation)
        .values(expires_at=0)
    )
    return True


def renew(
    connection: sa.Connection, ref: NodeRef, clock: Clock, lease_ms: int
) -> tuple[tuple[Member, ...], Leader] | None:
    """Prolong the lease of `ref` and stand for election. None: its lease is lost."""
    own = _locked(connection, ref.node)
    now = clock(connection)
    if own is None or own.incarnation != ref.incarnation or not runs(own, now):
        return None
    connection.execute(
        sa.update(nodes)
        .where(nodes.c.node == ref.node)
        .values(expires_at=now + lease_ms, length_ms=lease_ms)
    )
    leads = _elect(connection, ref, now, lease_ms)
    return _members(connection, now), leads


def _locked(connection: sa.Connection, node: NodeId) -> sa.Row[tuple[object, ...]] | None:
    return connection.execute(
        sa.select(nodes).where(nodes.c.node == node).with_for_update()
    ).one_or_none()


def _elect(connection: sa.Connection, ref: NodeRef, now: Millis, lease_ms: int) -> Leader:
    """The coordinator after `ref` has stood: in office it stays, an empty office it takes.

    A former life of the same node is over, so the office is empty however long its lease runs: a
    lone node that was killed and started again is not kept waiting by itself.
    """
    seat = connection.execute(sa.select(leader)).one()
    holder = Leader(NodeRef(seat.node, seat.incarnation), seat.term)
    if holder.ref.node != ref.node and runs(seat, now):
        return holder
    # Only now the lock: nodes that merely look do not queue up behind each other.
    seat = connection.execute(sa.select(leader).with_for_update()).one()
    holder = Leader(NodeRef(seat.node, seat.incarnation), seat.term)
    if holder.ref != ref:
        if holder.ref.node != ref.node and runs(seat, now):
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
    refs = (NodeRef(row.node, row.incarnation) for row in rows if runs(row, now))
    return tuple(Member(ref, ref in draining) for ref in refs)


def runs(lease: sa.Row[tuple[object, ...]], now: Millis) -> bool:
    """True while the lease runs. One that would end later than it ever could was given before
    the clock was put back: it counts as ended, or its holder would be waited for that long.
    """
    left: int = lease.expires_at - now
    length_ms: int = lease.length_ms
    return left > 0 and (length_ms == 0 or left <= 2 * length_ms)
