"""A feed's place on a node: at most one maintainer at a time, each epoch at most once.

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
when every commit to the scope is answered (F7), by whomever it was asked: a maintainer of a
former life of the node counts as well, so the node keeps that count (`awaits`). No start is
put aside meanwhile: it is sent again.

The goal of an epoch only ever goes RUN → STOP → REMOVE. Going back is a new epoch, decided by
the coordinator; so a late message with the former goal can be told from a new wish.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from lockgate.core.machine import Machine, brief, do, ignore, table
from lockgate.core.maintainer import phases
from lockgate.model.batch import Landed, NotLanded, Refused, Unknown
from lockgate.model.config import CoreConfig
from lockgate.model.events import MembersSeen, SetGoal, Tick
from lockgate.model.feeds import FeedSpec, Goal
from lockgate.model.ids import Epoch, FeedId, Millis, NodeRef
from lockgate.model.instructions import Instruction
from lockgate.model.messages import Stale, StartMaintainer, StopMaintainer
from lockgate.model.records import Scope, feed_scope
from lockgate.model.statuses import MaintainerStatus


class HostedMaintainer(Protocol):
    """What the host needs of a maintainer."""

    def handle(self, now: Millis, event: Any) -> list[Instruction]:
        """Take one event."""
        ...

    def status(self) -> MaintainerStatus:
        """What its node reports of it."""
        ...


MaintainerFactory = Callable[[CoreConfig, FeedId, Epoch, NodeRef, Goal, FeedSpec], HostedMaintainer]
Awaits = Callable[[Scope], bool]
"""Whether a commit to this scope, asked for by this process, is still unanswered."""

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
        self,
        config: CoreConfig,
        me: NodeRef,
        feed: FeedId,
        factory: MaintainerFactory,
        awaits: Awaits,
    ) -> None:
        super().__init__(f"slot {me} {feed}", SlotState.VACANT)
        self.feed = feed
        self.maintainer: HostedMaintainer | None = None
        self.last_epoch: Epoch = 0
        """The newest epoch ever started here; the epoch of `maintainer`, when there is one."""
        self.goal = Goal.RUN
        self.seen = MembersSeen(())
        """The newest view of the cluster."""
        self._config = config
        self._me = me
        self._factory = factory
        self._awaits = awaits

    def _brief(self, event: Any) -> object:
        """What is forwarded is briefed as whoever takes it would."""
        if isinstance(event, ForMaintainer):
            return brief(event.event, phases.BULKY)
        return event

    # --- coming -----------------------------------------------------------------------------

    def _admit_if_newer(self, start: StartMaintainer) -> None:
        if self._is_newer(start.epoch) and self._is_quiet():
            self._admit(start)

    def _is_newer(self, epoch: Epoch) -> bool:
        return epoch > self.last_epoch

    def _is_quiet(self) -> bool:
        """True when nobody's commit to the feed's scope is on its way from here."""
        return not self._awaits(feed_scope(self.feed))

    def _admit(self, start: StartMaintainer) -> None:
        if self.maintainer is not None:
            raise self.illegal("a maintainer is admitted beside another one")
        self.state = SlotState.OCCUPIED
        self.last_epoch = start.epoch
        self.goal = start.goal
        self.maintainer = self._factory(
            self._config, start.feed, start.epoch, self._me, start.goal, start.spec
        )
        self._tell(self.seen)
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
        if self._is_quiet():
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
