"""A bench for one coordinator: a real metastore, nodes that say what the test has them say."""

from collections.abc import Iterable
from typing import Any

from lockgate.core.coordinator.coordinator import Coordinator, CoordinatorState
from lockgate.model.batch import Batch, NotLanded, Refused, Renewed, Unknown
from lockgate.model.config import CoreConfig
from lockgate.model.events import CreateFeed, MembersSeen, Tick
from lockgate.model.feeds import FeedSpec
from lockgate.model.ids import Epoch, FeedId, Millis, NodeId, NodeRef
from lockgate.model.instructions import Answer, Commit, Instruction, Load, Send
from lockgate.model.messages import NodeReport, StartMaintainer, StopMaintainer
from lockgate.model.records import COORDINATOR, DrainRecord, FeedRecord, RecordKey
from lockgate.model.statuses import MaintainerStatus, Phase
from lockgate.store.memory import MemoryMetastore

TABLES = FeedSpec(tables=("orders",))


def status(
    feed: FeedId, epoch: Epoch, phase: Phase = Phase.RUNNING, **more: Any
) -> MaintainerStatus:
    """What a node says of a maintainer."""
    return MaintainerStatus(feed, epoch, phase, **more)


class Bench:
    """Drives a coordinator by hand. Commits land at once unless `hold` is set."""

    def __init__(self, *names: NodeId, config: CoreConfig | None = None) -> None:
        self.config = config or CoreConfig()
        self.now: Millis = 1_000
        self.store = MemoryMetastore(lambda: self.now, self.config.timing.lease_ms)
        self.refs: dict[NodeId, NodeRef] = {}
        self.beats: dict[NodeId, int] = {}
        self.hold = False
        self.held: list[Batch] = []
        self.sent: list[Send] = []
        self.answers: dict[str, Answer] = {}
        self.said: dict[NodeId, tuple[tuple[MaintainerStatus, ...], int]] = {}
        for name in names:
            self.join(name)
        self.elect(names[0])

    # --- the cluster ------------------------------------------------------------------------

    def join(self, name: NodeId) -> NodeRef:
        """A (new) life of a node. It has nothing and says so."""
        self.refs[name] = self.store.join(name, self.now).ref
        self.said[name] = ((), 0)
        return self.refs[name]

    def die(self, name: NodeId) -> None:
        """The node's lease has run out."""
        ref, _ = self.store.leases[name]
        self.store.leases[name] = (ref, self.now)
        self.said.pop(name)

    def elect(self, name: NodeId) -> None:
        """Have this node elected; its coordinator loads on its first tick."""
        self.store.leader = None
        renewed = self.store.renew(self.refs[name], self.now)
        assert isinstance(renewed, Renewed)
        assert renewed.leader is not None
        self.coordinator = Coordinator(self.config, self.refs[name], renewed.leader.term)
        self.see_members()
        self.handle(Tick())

    def see_members(self) -> None:
        self.handle(MembersSeen(self.store.members(self.now)))

    def pass_time(self, ms: Millis, *, quiet: Iterable[NodeId] = ()) -> None:
        """Ticks and reports as in life; nodes renew; those in `quiet` say nothing."""
        end = self.now + ms
        while self.now < end:
            self.now += self.config.timing.tick_ms
            for name in self.said:
                self.store.renew(self.refs[name], self.now)
            self.see_members()
            self.handle(Tick())
            for name, (statuses, dispatchers) in list(self.said.items()):
                if name not in quiet:
                    self.report(name, *statuses, dispatchers=dispatchers)

    def says(self, name: NodeId, *statuses: MaintainerStatus, dispatchers: int = 0) -> None:
        """From now on the node reports this."""
        self.said[name] = (statuses, dispatchers)

    def report(
        self,
        name: NodeId,
        *statuses: MaintainerStatus,
        dispatchers: int = 0,
        beat: int = 0,
        draining: bool | None = None,
    ) -> None:
        """One report, now. It knows whether it is draining, if nothing else is said."""
        self.beats[name] = beat or self.beats.get(name, 0) + 1
        ref, members = self.refs[name], self.store.members(self.now)
        if draining is None:
            draining = any(member.ref == ref and member.draining for member in members)
        term, beat = self.coordinator.term, self.beats[name]
        self.handle(NodeReport(ref, term, beat, statuses, dispatchers, draining))

    # --- events -----------------------------------------------------------------------------

    def handle(self, event: Any) -> list[Instruction]:
        out = self.coordinator.handle(self.now, event)
        for instruction in out:
            self.carry_out(instruction)
        return out

    def carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, Load):
            self.handle(self.store.load(instruction.scope))
        elif isinstance(instruction, Commit):
            self.held.append(instruction.batch)
            if not self.hold:
                self.land()
        elif isinstance(instruction, Send):
            self.sent.append(instruction)
        elif isinstance(instruction, Answer):
            self.answers[instruction.request] = instruction

    def land(self) -> None:
        """Carry out the commit that was asked for last, and answer."""
        self.handle(self.store.commit(self.held.pop()))

    def answer_unknown(self, *, landed: bool) -> None:
        """The answer is lost on its way back, or the question was on its way there."""
        batch = self.held.pop()
        if landed:
            self.store.commit(batch)
        self.handle(Unknown(batch.scope, batch.serial))

    def answer_not_landed(self) -> None:
        batch = self.held.pop()
        self.handle(NotLanded(batch.scope, batch.serial))

    def answer_refused(self, fence: int) -> None:
        batch = self.held.pop()
        self.handle(Refused(batch.scope, batch.serial, fence))

    # --- looking ----------------------------------------------------------------------------

    def create(self, feed: FeedId, spec: FeedSpec = TABLES) -> None:
        self.handle(CreateFeed(f"create {feed}", feed, spec))

    def record(self, feed: FeedId) -> FeedRecord:
        """What is durable of a feed."""
        found = self.store.records(COORDINATOR)[RecordKey("feed", feed)]
        assert isinstance(found, FeedRecord)
        return found

    def drain(self, node: NodeId) -> DrainRecord | None:
        found = self.store.records(COORDINATOR).get(RecordKey("drain", node))
        assert found is None or isinstance(found, DrainRecord)
        return found

    def fence(self, feed: FeedId) -> Epoch:
        return self.store.scope(f"feed:{feed}").fence

    def owner(self, feed: FeedId) -> NodeId:
        owner = self.record(feed).owner
        assert owner is not None
        return owner.node

    def take_starts(self) -> list[StartMaintainer]:
        """The starts that were sent since the last look."""
        sent, self.sent = self.sent, []
        taken: list[StartMaintainer] = []
        for send in sent:
            if isinstance(send.message, StartMaintainer):
                taken.append(send.message)
            else:
                self.sent.append(send)
        return taken

    def take_stops(self) -> list[tuple[NodeId, StopMaintainer]]:
        sent, self.sent = self.sent, []
        taken: list[tuple[NodeId, StopMaintainer]] = []
        for send in sent:
            if isinstance(send.message, StopMaintainer):
                taken.append((send.to, send.message))
            else:
                self.sent.append(send)
        return taken

    @property
    def active(self) -> bool:
        return self.coordinator.state is CoordinatorState.ACTIVE
