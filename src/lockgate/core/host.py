"""The maintainers of one life of a node: who is admitted, who is reported, who is let go.

One slot for each feed that was ever asked for here:

                Start, newer epoch              Start, newer epoch, or Stop of this one
    VACANT ─────────────────────────► OCCUPIED ─────────────────────────────────► LEAVING
       ▲                                  │                                          │
       │                                  └── the same, and it is quiet already ──┐  │
       └──────────────────────────────────────────────────────────────────────────┴──┘
                                                        the last answer it waits for came

An epoch belongs to one maintainer, ever: the slot remembers the last epoch that was started
here and starts only a higher one. A repeated or late `StartMaintainer` so starts nothing.

An ended maintainer stays, and is reported, until the coordinator has said that it took notice:
its outcome is the coordinator's only way to learn that a feed was stopped or removed.

Why LEAVING: both the old and the new maintainer of a feed write one scope of the metastore,
and the answers name the scope and a serial, not the writer. A new maintainer beside an old one
that still waits for an answer could take that answer for its own. So the new one is admitted
when the old one waits for nothing (F7). Nobody waits with it: the start is sent again.

The goal of an epoch only ever goes RUN → STOP → REMOVE. Going back is a new epoch, decided by
the coordinator; so a late message with the former goal can be told from a new wish.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from lockgate.core.machine import Machine, do, ignore, table
from lockgate.model.batch import Landed, Member, NotLanded, Refused, Unknown
from lockgate.model.config import CoreConfig
from lockgate.model.events import MembersSeen, SetGoal, Tick
from lockgate.model.feeds import FeedSpec, Goal
from lockgate.model.ids import Epoch, FeedId, Millis, NodeRef, Term
from lockgate.model.instructions import Instruction
from lockgate.model.messages import Stale, StartMaintainer, StopMaintainer
from lockgate.model.statuses import MaintainerStatus


class HostedMaintainer(Protocol):
    """What the host needs of a maintainer."""

    def handle(self, now: Millis, event: Any) -> list[Instruction]:
        """Take one event."""
        ...

    def status(self) -> MaintainerStatus:
        """What its node reports of it."""
        ...

    @property
    def quiet(self) -> bool:
        """No answer of the metastore to a commit of it is outstanding."""
        ...


MaintainerFactory = Callable[[CoreConfig, FeedId, Epoch, NodeRef, Goal, FeedSpec], HostedMaintainer]

GOAL_RANK = {Goal.RUN: 0, Goal.STOP: 1, Goal.REMOVE: 2}


class SlotState(enum.Enum):
    """See the module's diagram."""

    VACANT = "vacant"
    OCCUPIED = "occupied"
    LEAVING = "leaving"


@dataclass(frozen=True)
class ForMaintainer:
    """Anything that is not for the slot but for whoever sits in it."""

    event: Any


class Slot(Machine):
    """One feed's place on this node: at most one maintainer at any moment."""

    EVENTS = (StartMaintainer, StopMaintainer, ForMaintainer)

    TABLE = table(
        SlotState,
        EVENTS,
        {
            SlotState.VACANT: {
                StartMaintainer: do("_admit_if_newer"),
                StopMaintainer: ignore("nobody is here"),
                ForMaintainer: ignore("whoever it was for has left"),
            },
            SlotState.OCCUPIED: {
                StartMaintainer: do("_on_start_beside"),
                StopMaintainer: do("_on_stop"),
                ForMaintainer: do("_forward"),
            },
            SlotState.LEAVING: {
                StartMaintainer: ignore("sent again until the old one has left"),
                StopMaintainer: ignore("it is leaving already"),
                ForMaintainer: do("_forward_last_answer"),
            },
        },
    )

    def __init__(
        self, config: CoreConfig, me: NodeRef, feed: FeedId, factory: MaintainerFactory
    ) -> None:
        super().__init__(f"slot {me} {feed}", SlotState.VACANT)
        self.feed = feed
        self.maintainer: HostedMaintainer | None = None
        self.last_epoch: Epoch = 0
        """The newest epoch ever started here; the epoch of `maintainer`, when there is one."""
        self.goal = Goal.RUN
        self.members: tuple[Member, ...] = ()
        self._config = config
        self._me = me
        self._factory = factory

    # --- coming -----------------------------------------------------------------------------

    def _admit_if_newer(self, start: StartMaintainer) -> None:
        if self._is_newer(start.epoch):
            self._admit(start)

    def _is_newer(self, epoch: Epoch) -> bool:
        return epoch > self.last_epoch

    def _admit(self, start: StartMaintainer) -> None:
        if self.maintainer is not None:
            raise self.illegal("a maintainer is admitted beside another one")
        self.state = SlotState.OCCUPIED
        self.last_epoch = start.epoch
        self.goal = start.goal
        self.maintainer = self._factory(
            self._config, start.feed, start.epoch, self._me, start.goal, start.spec
        )
        self._tell(MembersSeen(self.members))
        self._tell(Tick())

    def _on_start_beside(self, start: StartMaintainer) -> None:
        if start.epoch == self.last_epoch:
            self._advance_goal(start.goal)
        elif self._is_newer(start.epoch):
            self._dismiss(seen=start.epoch)
            if self.state is SlotState.VACANT:
                self._admit(start)

    def _advance_goal(self, goal: Goal) -> None:
        if GOAL_RANK[goal] > GOAL_RANK[self.goal]:
            self.goal = goal
            self._tell(SetGoal(goal))

    # --- going ------------------------------------------------------------------------------

    def _on_stop(self, stop: StopMaintainer) -> None:
        if stop.epoch == self.last_epoch:
            self._dismiss(seen=stop.epoch + 1)

    def _dismiss(self, seen: Epoch) -> None:
        """End it on the spot: it is told that somebody newer was seen, which is why it goes."""
        assert self.maintainer is not None
        if self.maintainer.status().outcome is None:
            self._tell(Stale(self.feed, self.last_epoch, self._me, seen))
        self.state = SlotState.LEAVING
        self._leave_if_quiet()

    def _leave_if_quiet(self) -> None:
        assert self.maintainer is not None
        if self.maintainer.quiet:
            self.maintainer = None
            self.state = SlotState.VACANT

    # --- sitting ----------------------------------------------------------------------------

    def _forward(self, wrapped: ForMaintainer) -> None:
        self._tell(wrapped.event)

    def _forward_last_answer(self, wrapped: ForMaintainer) -> None:
        """One that is leaving learns how its last commit went, and has no further say."""
        assert self.maintainer is not None
        if isinstance(wrapped.event, Landed | NotLanded | Refused | Unknown):
            self.maintainer.handle(self.now, wrapped.event)
            self._leave_if_quiet()

    def _tell(self, event: Any) -> None:
        assert self.maintainer is not None
        for instruction in self.maintainer.handle(self.now, event):
            self.emit(instruction)


class MaintainerHost:
    """The registry of the maintainers on one life of a node."""

    def __init__(self, config: CoreConfig, me: NodeRef, factory: MaintainerFactory) -> None:
        self.me = me
        self.slots: dict[FeedId, Slot] = {}
        self.term: Term = 0
        """The newest coordinator that was heard here. An older one is not obeyed."""
        self._config = config
        self._factory = factory
        self._members: tuple[Member, ...] = ()

    @property
    def maintainers(self) -> dict[FeedId, HostedMaintainer]:
        """Everybody who is here, the ended ones too."""
        return {
            feed: slot.maintainer
            for feed, slot in self.slots.items()
            if slot.maintainer is not None
        }

    def report(self) -> tuple[MaintainerStatus, ...]:
        """What the node tells the coordinator."""
        return tuple(maintainer.status() for maintainer in self.maintainers.values())

    def epoch_of(self, feed: FeedId) -> Epoch | None:
        """The epoch of the maintainer that is here."""
        slot = self.slots.get(feed)
        return None if slot is None or slot.maintainer is None else slot.last_epoch

    def is_working(self, feed: FeedId) -> bool:
        """True when the feed has a maintainer here that is neither ended nor leaving."""
        slot = self.slots.get(feed)
        if slot is None or slot.maintainer is None or slot.state is not SlotState.OCCUPIED:
            return False
        return slot.maintainer.status().outcome is None

    def start(self, now: Millis, start: StartMaintainer) -> list[Instruction]:
        """Obey the newest coordinator, for this life of the node only."""
        if start.owner != self.me or not self._is_current(start.term):
            return []
        return self._slot(start.feed).handle(now, start)

    def stop(self, now: Millis, stop: StopMaintainer) -> list[Instruction]:
        """Let go of exactly the maintainer that is named."""
        if not self._is_current(stop.term) or stop.feed not in self.slots:
            return []
        return self.slots[stop.feed].handle(now, stop)

    def forward(self, now: Millis, feed: FeedId, event: Any) -> list[Instruction]:
        """Hand an event to the maintainer of `feed`, if one is here."""
        slot = self.slots.get(feed)
        return [] if slot is None else slot.handle(now, ForMaintainer(event))

    def broadcast(self, now: Millis, event: Tick | MembersSeen) -> list[Instruction]:
        """Hand an event to everybody here."""
        if isinstance(event, MembersSeen):
            self._see(event.members)
        out: list[Instruction] = []
        for slot in list(self.slots.values()):
            out += slot.handle(now, ForMaintainer(event))
        return out

    def _see(self, members: tuple[Member, ...]) -> None:
        self._members = members
        for slot in self.slots.values():
            slot.members = members

    def _is_current(self, term: Term) -> bool:
        if term < self.term:
            return False
        self.term = term
        return True

    def _slot(self, feed: FeedId) -> Slot:
        slot = self.slots.get(feed)
        if slot is None:
            slot = self.slots[feed] = Slot(self._config, self.me, feed, self._factory)
            slot.members = self._members
        return slot
