"""The maintainers of one life of a node, a slot for each feed that was ever asked for here.

    StartMaintainer ──► meant for this life? from the newest coordinator? ──► the feed's slot
    StopMaintainer  ──► from the newest coordinator? ───────────────────────► the feed's slot
    anything else for a maintainer ─────────────────────────────────────────► the feed's slot

Who is admitted and who has to leave is decided in the slot (`core.slot`); here is what holds
for all of them: a coordinator that was replaced is not obeyed, for its idea of who owns what
is older than what this node was told already.
"""

from typing import Any

from lockgate.core.slot import (
    Awaits,
    ForMaintainer,
    HostedMaintainer,
    MaintainerFactory,
    Slot,
    SlotState,
)
from lockgate.model.config import CoreConfig
from lockgate.model.events import MembersSeen, Tick
from lockgate.model.ids import Epoch, FeedId, Millis, NodeRef, Term
from lockgate.model.instructions import Answer, Instruction
from lockgate.model.messages import Stale, StartMaintainer, StopMaintainer
from lockgate.model.statuses import MaintainerStatus


class MaintainerHost:
    """The registry of the maintainers on one life of a node."""

    def __init__(
        self, config: CoreConfig, me: NodeRef, factory: MaintainerFactory, awaits: Awaits
    ) -> None:
        self.me = me
        self.slots: dict[FeedId, Slot] = {}
        self.term: Term = 0
        """The newest coordinator that was heard here. An older one is not obeyed."""
        self._config = config
        self._factory = factory
        self._awaits = awaits
        self._seen = MembersSeen(())

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
            self._see(event)
        out: list[Instruction] = []
        for slot in list(self.slots.values()):
            out += slot.handle(now, ForMaintainer(event))
        return out

    def end(self, now: Millis) -> list[Instruction]:
        """This life is over: nothing more is done; people who wait for an answer get one."""
        out: list[Instruction] = []
        for slot in self.slots.values():
            if slot.maintainer is not None:
                stale = Stale(slot.feed, slot.last_epoch, self.me, slot.last_epoch + 1)
                out += slot.maintainer.handle(now, stale)
        return [said for said in out if isinstance(said, Answer)]

    def _see(self, seen: MembersSeen) -> None:
        self._seen = seen
        for slot in self.slots.values():
            slot.seen = seen

    def _is_current(self, term: Term) -> bool:
        if term < self.term:
            return False
        self.term = term
        return True

    def _slot(self, feed: FeedId) -> Slot:
        slot = self.slots.get(feed)
        if slot is None:
            slot = self.slots[feed] = Slot(self._config, self.me, feed, self._factory, self._awaits)
            slot.seen = self._seen
        return slot
