"""A node's membership: which life it lives, and until when it may believe that it lives.

              Join                       Joined
    JOINING ────────► (metastore) ──────────────────► MEMBER ──┐ Renew every renew_ms
       ▲  ▲ asked again when it failed,                 │   ▲──┘ Renewed: the deadline moves
       │  └ or when its answer came too late            │
       └────────────────────────────────────────────────┘
         deadline passed, LeaseLost, or dismissed: StopEverything, then Join

A life is a `NodeRef`: the node's name and an incarnation that the metastore gives out and
never gives twice. The lease that goes with it is counted here from the moment the question
was *asked*, by the node's own clock; the metastore counts it from the moment it answered,
which is later. So a node believes in its lease for less time than everybody else does.

The deadline is looked at before anything else is done with any event (see `core.node`): a
process that was paused for an hour wakes up with an event in its hand, and the first thing it
does is to stop. That is for quickness only. What makes a paused node harmless is the fence at
the sink and in the metastore.

Why a lost life is not taken up again: others have placed its work elsewhere by then, and
requests meant for it are still on their way. A new incarnation makes them refusable.
"""

import enum
from dataclasses import dataclass

from lockgate.core.machine import Machine, do, ignore, table
from lockgate.model.batch import (
    Joined,
    JoinFailed,
    Leader,
    LeaseLost,
    Member,
    Renewed,
    RenewFailed,
)
from lockgate.model.config import CoreConfig
from lockgate.model.events import Tick
from lockgate.model.ids import Incarnation, Millis, NodeId, NodeRef
from lockgate.model.instructions import Join, Renew, StopEverything


class MemberState(enum.Enum):
    """See the module's diagram."""

    JOINING = "joining"
    MEMBER = "member"


@dataclass(frozen=True)
class LifeOver:
    """From the node to its membership: this life must end, whatever the lease says."""

    why: str


@dataclass(frozen=True)
class View:
    """The cluster, by the metastore's word at one moment."""

    members: tuple[Member, ...] = ()
    leader: Leader | None = None
    asked_at: Millis = 0


class MemberMachine(Machine):
    """Keeps the lease of one process, through as many lives as it takes."""

    EVENTS = (Tick, Joined, JoinFailed, Renewed, RenewFailed, LeaseLost, LifeOver)

    TABLE = table(
        MemberState,
        EVENTS,
        {
            MemberState.JOINING: {
                Tick: do("_ask_to_join_if_due"),
                Joined: do("_on_joined"),
                JoinFailed: do("_on_join_failed"),
                Renewed: ignore("an answer to a life that is over"),
                RenewFailed: ignore("an answer to a life that is over"),
                LeaseLost: ignore("that life is over already"),
                LifeOver: ignore("there is no life to end"),
            },
            MemberState.MEMBER: {
                Tick: do("_on_tick"),
                Joined: ignore("an answer to a question that was given up; this life is newer"),
                JoinFailed: ignore("an answer to a question that was given up"),
                Renewed: do("_on_renewed"),
                RenewFailed: do("_on_renew_failed"),
                LeaseLost: do("_on_lease_lost"),
                LifeOver: do("_on_life_over"),
            },
        },
    )

    def __init__(self, config: CoreConfig, node: NodeId) -> None:
        super().__init__(f"member {node}", MemberState.JOINING)
        self.node = node
        self.ref: NodeRef | None = None
        """This life; None while there is none."""
        self.view = View()
        """A new object with every answer that was newer than the last."""
        self.deadline: Millis = 0
        """The end of the lease, by the node's own clock. Means something in MEMBER only."""
        self._timing = config.timing
        self._last_incarnation: Incarnation = 0
        self._join_asked_at: Millis | None = None
        self._join_again_at: Millis = 0
        self._confirmed_at: Millis = 0
        """When the newest question was asked that was answered with a lease."""
        self._renew_asked_at: Millis = 0
        self._renew_again_at: Millis = 0

    def expired(self, now: Millis) -> bool:
        """True when this life must not do anything more."""
        return self.state is MemberState.MEMBER and now >= self.deadline

    # --- joining ----------------------------------------------------------------------------

    def _ask_to_join_if_due(self, _: Tick) -> None:
        if self._join_asked_at is None or self.now >= self._join_again_at:
            self._ask_to_join()

    def _ask_to_join(self) -> None:
        """Ask for a new life. Until a lease_ms later its answer can still be of use.

        Asking sooner would void the life that the first question may just have been given.
        """
        self._join_asked_at = self.now
        self._join_again_at = self.now + self._timing.lease_ms
        self.emit(Join(self.node, self.now))

    def _on_join_failed(self, _: JoinFailed) -> None:
        self._join_again_at = min(self._join_again_at, self.now + self._timing.resend_ms)

    def _on_joined(self, joined: Joined) -> None:
        if joined.asked_at != self._join_asked_at or not self._is_newer_life(joined.ref):
            return
        if self.now >= joined.asked_at + self._timing.lease_ms:
            self._ask_to_join()
            return
        self._begin_life(joined.ref, joined.asked_at)

    def _is_newer_life(self, ref: NodeRef) -> bool:
        return ref.node == self.node and ref.incarnation > self._last_incarnation

    def _begin_life(self, ref: NodeRef, asked_at: Millis) -> None:
        self.state = MemberState.MEMBER
        self.ref = ref
        self._last_incarnation = ref.incarnation
        self._join_asked_at = None
        self._confirm(asked_at)
        self._ask_to_renew()

    # --- keeping the lease ------------------------------------------------------------------

    def _on_tick(self, _: Tick) -> None:
        if self.expired(self.now):
            self._end_life()
        elif self._renew_is_due():
            self._ask_to_renew()

    def _renew_is_due(self) -> bool:
        """A clock that went back says nothing about when the last question was asked."""
        return self.now >= self._renew_again_at or self.now < self._renew_asked_at

    def _ask_to_renew(self) -> None:
        assert self.ref is not None
        self._renew_asked_at = self.now
        self._renew_again_at = self.now + self._timing.renew_ms
        self.emit(Renew(self.ref, self.now))

    def _on_renewed(self, renewed: Renewed) -> None:
        """Answers may overtake each other; only one to a newer question tells something new."""
        if renewed.ref != self.ref or renewed.asked_at < self._confirmed_at:
            return
        self._confirm(renewed.asked_at)
        self.view = View(renewed.members, renewed.leader, renewed.asked_at)

    def _confirm(self, asked_at: Millis) -> None:
        self._confirmed_at = asked_at
        self.deadline = asked_at + self._timing.lease_ms

    def _on_renew_failed(self, failed: RenewFailed) -> None:
        if failed.ref == self.ref:
            self._renew_again_at = min(self._renew_again_at, self.now + self._timing.resend_ms)

    # --- losing it --------------------------------------------------------------------------

    def _on_lease_lost(self, lost: LeaseLost) -> None:
        if lost.ref == self.ref:
            self._end_life()

    def _on_life_over(self, _: LifeOver) -> None:
        self._end_life()

    def _end_life(self) -> None:
        """Stop first, then everything else: whatever ran here may belong to others by now."""
        assert self.ref is not None
        self.emit(StopEverything(self.ref))
        self.state = MemberState.JOINING
        self.ref = None
        self.view = View()
        self._ask_to_join()
