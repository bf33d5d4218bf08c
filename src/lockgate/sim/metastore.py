"""The metastore behind a network: the in-memory store, and everything that can happen to a
question on its way there and to the answer on its way back.

    asked ──► lost                     NotLanded, or Unknown, or nothing but failure
          ──► lands, answer lost       Unknown
          ──► answered Unknown, lands later
          ──► lands, answered late
"""

from collections.abc import Callable
from typing import Any

from lockgate.model.batch import (
    Batch,
    JoinFailed,
    Landed,
    LoadFailed,
    NotLanded,
    Refused,
    Renewed,
    RenewFailed,
    Unknown,
)
from lockgate.model.events import LeaseEvent, StoreEvent
from lockgate.model.ids import Millis, NodeId
from lockgate.model.instructions import Commit, Join, Load, Renew
from lockgate.model.records import COORDINATOR
from lockgate.sim.checkers import Checkers
from lockgate.sim.faults import Faults
from lockgate.sim.loop import Action, Loop
from lockgate.sim.probes import Probe, Probes
from lockgate.store.memory import MemoryMetastore

Answer = Callable[[StoreEvent | LeaseEvent], None]

ASK_MS = (1, 15)
ANSWER_MS = (1, 15)
LATE_MS = (800, 7_000)
SLOW_MS = (200, 5_000)
LATER_MS = (200, 6_000)


class SimMetastore:
    """Asks the store on behalf of nodes, through faults."""

    def __init__(
        self, loop: Loop, faults: Faults, probes: Probes, watch: Checkers, lease_ms: int
    ) -> None:
        self._loop = loop
        self._faults = faults
        self._probes = probes
        self._watch = watch
        self.clock_offset: Millis = 0
        self.down = False
        self.cut: set[NodeId] = set()
        """Nodes that cannot reach the metastore."""
        self.store = MemoryMetastore(lambda: loop.now + self.clock_offset, lease_ms)

    def _ask(self, action: Action, *args: Any) -> None:
        """The question is on its way, which may take so long that the world has changed."""
        late = self._loop.chance(self._faults.late_question)
        if late:
            self._faults.count += 1
        self._loop.after(self._loop.between(*(SLOW_MS if late else ASK_MS)), action, *args)

    def _reply(self, answer: Answer, event: StoreEvent | LeaseEvent) -> None:
        late = self._loop.chance(self._faults.late_answer)
        if late:
            self._faults.count += 1
        self._loop.after(self._loop.between(*(LATE_MS if late else ANSWER_MS)), answer, event)

    def _unreachable(self, node: NodeId) -> bool:
        return self.down or node in self.cut

    def _fails(self, node: NodeId, rate: float) -> bool:
        if self._unreachable(node) or self._loop.chance(rate):
            self._faults.count += 1
            return True
        return False

    # --- leases -----------------------------------------------------------------------------

    def join(self, node: NodeId, join: Join, answer: Answer) -> None:
        """Begin a life; it may have begun although the node hears that it did not."""
        self._ask(self._join, node, join, answer)

    def _join(self, node: NodeId, join: Join, answer: Answer) -> None:
        if self._fails(node, self._faults.lease_failed):
            if not self._unreachable(node) and self._loop.chance(0.5):
                self._watch.joined(self.store.join(join.node, join.asked_at).ref)
                self._probes.hit(Probe.JOIN_ANSWER_LOST)
            self._reply(answer, JoinFailed("no answer"))
            return
        joined = self.store.join(join.node, join.asked_at)
        self._watch.joined(joined.ref)
        self._reply(answer, joined)

    def renew(self, node: NodeId, renew: Renew, answer: Answer) -> None:
        """Prolong a lease; it may be prolonged although the node hears that it is not."""
        self._ask(self._renew, node, renew, answer)

    def _renew(self, node: NodeId, renew: Renew, answer: Answer) -> None:
        fails = self._fails(node, self._faults.lease_failed)
        if fails and (self._unreachable(node) or self._loop.chance(0.5)):
            self._reply(answer, RenewFailed(renew.ref, "no answer"))
            return
        before = self.store.leader
        renewed = self.store.renew(renew.ref, renew.asked_at)
        if isinstance(renewed, Renewed):
            if self.store.leader is not before and self.store.leader is not None:
                self._watch.elected(self.store.leader)
        else:
            self._probes.hit(Probe.LEASE_LOST_TOLD)
        self._reply(answer, RenewFailed(renew.ref, "no answer") if fails else renewed)

    # --- records ----------------------------------------------------------------------------

    def load(self, node: NodeId, load: Load, answer: Answer) -> None:
        """Read a scope."""
        self._ask(self._load, node, load, answer)

    def _load(self, node: NodeId, load: Load, answer: Answer) -> None:
        if self._fails(node, self._faults.load_failed):
            self._probes.hit(Probe.LOAD_FAILED)
            self._reply(answer, LoadFailed(load.scope, "no answer"))
        else:
            self._reply(answer, self.store.load(load.scope))

    def commit(self, node: NodeId, commit: Commit, answer: Answer) -> None:
        """Write a batch."""
        self._ask(self._commit, node, commit.batch, answer)

    def _commit(self, node: NodeId, batch: Batch, answer: Answer) -> None:
        faults = self._faults
        scope, serial = batch.scope, batch.serial
        if self._fails(node, faults.not_landed):
            self._probes.hit(Probe.BATCH_NOT_LANDED)
            self._reply(answer, NotLanded(scope, serial, "no connection"))
        elif self._loop.chance(faults.unknown_lost):
            faults.count += 1
            self._probes.hit(Probe.BATCH_UNKNOWN_LOST)
            self._reply(answer, Unknown(scope, serial, "connection lost"))
        elif self._loop.chance(faults.unknown_landed):
            faults.count += 1
            if isinstance(self._land(batch), Landed):
                self._probes.hit(Probe.BATCH_UNKNOWN_LANDED)
            self._reply(answer, Unknown(scope, serial, "connection lost"))
        elif self._loop.chance(faults.unknown_later):
            faults.count += 1
            self._loop.after(self._loop.between(*LATER_MS), self._land_late, batch)
            self._reply(answer, Unknown(scope, serial, "connection lost"))
        else:
            self._reply(answer, self._land(batch))

    def _land(self, batch: Batch) -> Landed | Refused | NotLanded:
        before = self.store.scope(batch.scope).serial
        outcome = self.store.commit(batch)
        if isinstance(outcome, Landed):
            if self.store.scope(batch.scope).serial != before:
                self._watch.landed(batch)
            else:
                self._probes.hit(Probe.BATCH_REPEATED)
        elif isinstance(outcome, Refused):
            self._probes.hit(Probe.BATCH_REFUSED)
            if batch.scope == COORDINATOR:
                self._probes.hit(Probe.COORDINATOR_REFUSED)
                if batch.raises:
                    self._probes.hit(Probe.EPOCH_RACE_LOST)
        return outcome

    def _land_late(self, batch: Batch) -> None:
        before = self.store.scope(batch.scope).serial
        outcome = self._land(batch)
        if isinstance(outcome, Refused):
            self._probes.hit(Probe.BATCH_LATE_REFUSED)
        elif self.store.scope(batch.scope).serial != before:
            self._probes.hit(Probe.BATCH_LANDED_LATE)
