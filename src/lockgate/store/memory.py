"""The metastore as a dictionary: the same promises as the SQL one, without the disk.

The simulator runs on it, so it is the plainest possible statement of what a metastore does.
It never fails by itself; whoever wants failures puts them around it.
"""

from collections.abc import Callable

from lockgate.model.batch import (
    Batch,
    Joined,
    Landed,
    Leader,
    LeaseLost,
    Loaded,
    Member,
    Refused,
    Renewed,
)
from lockgate.model.ids import Millis, NodeId, NodeRef
from lockgate.model.records import (
    COORDINATOR,
    DrainRecord,
    Record,
    RecordKey,
    Scope,
    key_of,
    node_scope,
)

__all__ = ["MemoryMetastore", "ScopeRow"]


class ScopeRow:
    """One scope: whose it is, how many batches have landed in it, and what they left."""

    __slots__ = ("fence", "records", "serial")

    def __init__(self) -> None:
        self.fence = 0
        self.serial = 0
        self.records: dict[RecordKey, Record] = {}


class MemoryMetastore:
    """A `core.ports.Metastore` that lives as long as the process."""

    def __init__(self, clock: Callable[[], Millis], lease_ms: int) -> None:
        self._clock = clock
        self._lease_ms = lease_ms
        self.scopes: dict[Scope, ScopeRow] = {}
        self.leases: dict[NodeId, tuple[NodeRef, Millis]] = {}
        """Of every node that ever joined: its newest life, and when that life's lease ends."""
        self.leader: Leader | None = None
        self._leader_until: Millis = 0

    def scope(self, scope: Scope) -> ScopeRow:
        """The scope's row; one that nobody has written stands at fence 0, serial 0."""
        row = self.scopes.get(scope)
        if row is None:
            row = self.scopes[scope] = ScopeRow()
        return row

    def records(self, scope: Scope) -> dict[RecordKey, Record]:
        """What the scope holds right now, to be looked at only."""
        return self.scope(scope).records

    # --- leases -----------------------------------------------------------------------------

    def join(self, node: NodeId, asked_at: Millis) -> Joined:
        """Raise the incarnation of `node` and give it a lease."""
        row = self.scope(node_scope(node))
        row.fence += 1
        ref = NodeRef(node, row.fence)
        self.leases[node] = (ref, self._clock() + self._lease_ms)
        return Joined(ref, asked_at)

    def renew(self, ref: NodeRef, asked_at: Millis) -> Renewed | LeaseLost:
        """Prolong a running lease, elect `ref` if the coordinator's lease has run out."""
        now = self._clock()
        lease = self.leases.get(ref.node)
        if lease is None or lease[0] != ref or lease[1] <= now:
            return LeaseLost(ref)
        until = now + self._lease_ms
        self.leases[ref.node] = (ref, until)
        leader = self.leader
        if leader is None or (leader.ref != ref and self._seat_is_empty(leader, ref, now)):
            row = self.scope(COORDINATOR)
            row.fence += 1
            leader = self.leader = Leader(ref, row.fence)
        if leader.ref == ref:
            self._leader_until = until
        return Renewed(ref, asked_at, self.members(now), leader)

    def _seat_is_empty(self, leader: Leader, ref: NodeRef, now: Millis) -> bool:
        """Its lease has run out, or it was held by a former life of the node that asks."""
        return self._leader_until <= now or leader.ref.node == ref.node

    def members(self, now: Millis) -> tuple[Member, ...]:
        """The nodes whose lease is running, by name."""
        drains = {
            record.node
            for record in self.records(COORDINATOR).values()
            if isinstance(record, DrainRecord)
        }
        return tuple(
            Member(ref, ref in drains)
            for _, (ref, until) in sorted(self.leases.items())
            if until > now
        )

    # --- records ----------------------------------------------------------------------------

    def commit(self, batch: Batch) -> Landed | Refused:
        """Make a batch durable under its fence and serial. A skipped serial is a caller's bug."""
        row = self.scope(batch.scope)
        if batch.fence != row.fence:
            return Refused(batch.scope, batch.serial, row.fence)
        if batch.serial <= row.serial:
            return Landed(batch.scope, batch.serial)
        if batch.serial != row.serial + 1:
            raise ValueError(f"batch {batch.serial} of {batch.scope!r} skips ahead")
        fences: dict[Scope, int] = {}
        for raised in batch.raises:
            if raised.new <= raised.old:
                raise ValueError(f"{raised} does not raise anything")
            if raised.old != fences.get(raised.scope, self.scope(raised.scope).fence):
                return Refused(batch.scope, batch.serial, row.fence)
            fences[raised.scope] = raised.new
        for key in batch.deletes:
            row.records.pop(key, None)
        for record in batch.puts:
            row.records[key_of(record)] = record
        for scope, fence in fences.items():
            self.scope(scope).fence = fence
        row.serial = batch.serial
        return Landed(batch.scope, batch.serial)

    def load(self, scope: Scope) -> Loaded:
        """All records of a scope at one moment."""
        row = self.scope(scope)
        records = tuple(row.records[key] for key in sorted(row.records))
        return Loaded(scope, row.fence, row.serial, records)
