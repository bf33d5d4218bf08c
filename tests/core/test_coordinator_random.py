"""Coordinators against everything at once: lost, late and repeated messages, uncertain commits,
nodes that die, elections in the middle, people who change their minds.

Held to, at every step: epochs rise one by one and each belongs to one owner; nobody is told to
start what is not recorded, nor to stop while he is the recorded owner; no feed is recorded as
without owner unless its owner did what he was asked; nobody is told 'done' before something
landed. Then the world heals, and every feed must get where it was asked to go.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lockgate.core.coordinator.coordinator import Coordinator, CoordinatorState
from lockgate.model.batch import Batch, Landed, NotLanded, Refused, Renewed, Unknown
from lockgate.model.config import CoreConfig, Policy, Timing
from lockgate.model.events import (
    CreateFeed,
    DrainNode,
    MembersSeen,
    MoveMaintainer,
    PauseFeed,
    RemoveFeed,
    ResumeFeed,
    Tick,
)
from lockgate.model.feeds import FeedSpec, FeedState, Goal, Outcome, Trouble
from lockgate.model.ids import Epoch, FeedId, Millis, NodeId, NodeRef, Term
from lockgate.model.instructions import Answer, Commit, Instruction, Load, Send
from lockgate.model.messages import NodeReport, StartMaintainer, StopMaintainer
from lockgate.model.records import COORDINATOR, FeedRecord, feed_scope
from lockgate.model.statuses import MaintainerStatus, Phase
from lockgate.store.memory import MemoryMetastore

TIMING = Timing(silence_ms=4_000, lease_ms=3_000, balance_ms=2_000, backoff_ms_max=2_000)
CONFIG = CoreConfig(TIMING, Policy(attempts_max=3, balance_slack=1))
NAMES = st.sampled_from(["a", "b", "c"])
FEEDS = st.sampled_from(["f", "g"])
SPECS = st.sampled_from([FeedSpec(), FeedSpec(tables=("t",))])
FEED_VERBS = st.one_of(
    st.builds(CreateFeed, st.just(""), FEEDS, SPECS),
    *[st.builds(PauseFeed, st.just(""), FEEDS)] * 3,
    *[st.builds(ResumeFeed, st.just(""), FEEDS)] * 2,
    st.builds(RemoveFeed, st.just(""), FEEDS),
)
NODE_VERBS = st.one_of(
    st.builds(MoveMaintainer, st.just(""), FEEDS, NAMES),
    st.builds(DrainNode, st.just(""), NAMES),
)
RANK = {Goal.RUN: 0, Goal.STOP: 1, Goal.REMOVE: 2}
ENDING = {Goal.STOP: Outcome.STOPPED, Goal.REMOVE: Outcome.REMOVED}


class Hosted:
    """A maintainer as its node sees it."""

    def __init__(self, epoch: Epoch, goal: Goal) -> None:
        self.epoch = epoch
        self.goal = goal
        self.outcome: Outcome | None = None
        self.trouble: Trouble | None = None

    def status(self, feed: FeedId) -> MaintainerStatus:
        phase = Phase.RUNNING if self.goal is Goal.RUN else Phase.CLOSING
        if self.outcome is not None:
            phase = Phase.ENDED
        return MaintainerStatus(feed, self.epoch, phase, outcome=self.outcome, trouble=self.trouble)


class Life:
    """One life of a node, keeping the host's rules."""

    def __init__(self, ref: NodeRef) -> None:
        self.ref = ref
        self.hosted: dict[FeedId, Hosted] = {}
        self.last: dict[FeedId, Epoch] = {}
        self.term = 0
        self.beat = 0

    def take(self, message: StartMaintainer | StopMaintainer) -> None:
        if message.term < self.term:
            return
        if isinstance(message, StopMaintainer):
            self.term = message.term
            here = self.hosted.get(message.feed)
            if here is not None and here.epoch == message.epoch:
                del self.hosted[message.feed]
        elif message.owner == self.ref:
            self.term = message.term
            if message.epoch > self.last.get(message.feed, 0):
                self.last[message.feed] = message.epoch
                self.hosted[message.feed] = Hosted(message.epoch, message.goal)
            else:
                here = self.hosted.get(message.feed)
                if here is not None and here.epoch == message.epoch:
                    here.goal = max(here.goal, message.goal, key=RANK.__getitem__)

    def report(self, term: Term) -> NodeReport:
        self.beat += 1
        statuses = tuple(hosted.status(feed) for feed, hosted in self.hosted.items())
        return NodeReport(self.ref, term, self.beat, statuses, 0)


class Cluster(RuleBasedStateMachine):
    """Two or three nodes, one true coordinator, and some that do not know they are not."""

    def __init__(self) -> None:
        super().__init__()
        self.now: Millis = 1_000
        self.store = MemoryMetastore(lambda: self.now, TIMING.lease_ms)
        self.lives: dict[NodeId, Life] = {}
        self.coordinators: list[Coordinator] = []
        self.asked_commits: list[tuple[Coordinator, Batch]] = []
        self.late_batches: list[Batch] = []
        self.messages: list[tuple[NodeId, Any]] = []
        self.reports: list[NodeReport] = []
        self.owners: dict[tuple[FeedId, Epoch], NodeRef] = {}
        self.epochs: dict[FeedId, Epoch] = {}
        self.done: set[tuple[FeedId, Epoch]] = set()
        """Epochs whose maintainer has stopped or removed the feed, as it was asked."""
        self.asked_at: dict[str, int] = {}
        self.requests = 0

    @initialize()
    def begin(self) -> None:
        for name in ("a", "b", "c"):
            self.lives[name] = Life(self.store.join(name, self.now).ref)
        self.elect("a")
        for feed in ("f", "g"):
            self.ask(self.coordinators[-1], CreateFeed("", feed, FeedSpec()))
        self.calm(3)

    # --- what the world does ----------------------------------------------------------------

    def give(self, coordinator: Coordinator, event: Any) -> None:
        self.take(coordinator, coordinator.handle(self.now, event))

    def take(self, coordinator: Coordinator, out: list[Instruction]) -> None:
        for instruction in out:
            if isinstance(instruction, Load):
                self.give(coordinator, self.store.load(instruction.scope))
            elif isinstance(instruction, Commit):
                self.asked_commits.append((coordinator, instruction.batch))
            elif isinstance(instruction, Send):
                self.check_message(coordinator, instruction.message)
                self.messages.append((instruction.to, instruction.message))
            elif isinstance(instruction, Answer):
                self.check_answer(instruction)

    def check_message(self, coordinator: Coordinator, message: Any) -> None:
        if isinstance(message, StartMaintainer):
            assert self.store.scope(feed_scope(message.feed)).fence >= message.epoch
            assert self.owners[message.feed, message.epoch] == message.owner
        elif self.store.scope(COORDINATOR).fence == coordinator.term:
            record = self.record(message.feed)
            if record is not None and record.owner is not None:
                assert record.epoch != message.epoch

    def check_answer(self, answer: Answer) -> None:
        asked_at = self.asked_at.pop(answer.request)
        if not answer.code:
            assert self.store.scope(COORDINATOR).serial > asked_at

    def commit(self, batch: Batch) -> Landed | Refused | NotLanded:
        answer = self.store.commit(batch)
        for record in self.store.records(COORDINATOR).values():
            if isinstance(record, FeedRecord):
                self.check_record(record)
        return answer

    def check_record(self, record: FeedRecord) -> None:
        former = self.epochs.get(record.feed, 0)
        assert record.epoch in {former, former + 1}
        assert record.epoch == self.store.scope(feed_scope(record.feed)).fence
        self.epochs[record.feed] = record.epoch
        if record.owner is not None:
            known = self.owners.setdefault((record.feed, record.epoch), record.owner)
            assert known == record.owner
        elif (record.feed, record.epoch) in self.owners:
            assert (record.feed, record.epoch) in self.done

    def record(self, feed: FeedId) -> FeedRecord | None:
        for record in self.store.records(COORDINATOR).values():
            if isinstance(record, FeedRecord) and record.feed == feed:
                return record
        return None

    def elect(self, name: NodeId) -> None:
        self.store.leader = None
        renewed = self.store.renew(self.lives[name].ref, self.now)
        assert isinstance(renewed, Renewed)
        assert renewed.leader is not None
        coordinator = Coordinator(CONFIG, self.lives[name].ref, renewed.leader.term)
        self.coordinators = [*self.coordinators[-2:], coordinator]
        self.give(coordinator, MembersSeen(renewed.members))
        self.give(coordinator, Tick())

    def renew_all(self) -> None:
        for life in self.lives.values():
            self.store.leases[life.ref.node] = (life.ref, self.now + TIMING.lease_ms)

    # --- rules ------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([500, 500, 1_000, 4_000]))
    def time(self, ms: Millis) -> None:
        self.now += ms
        self.renew_all()
        for coordinator in self.coordinators:
            self.give(coordinator, Tick())

    @rule(rounds=st.integers(1, 3))
    def calm(self, rounds: int) -> None:
        """For a while everything arrives, so that the next disturbance meets a running world."""
        for _ in range(rounds):
            self.calm_round()

    @rule()
    def members(self) -> None:
        for coordinator in self.coordinators:
            self.give(coordinator, MembersSeen(self.store.members(self.now)))

    @rule(name=NAMES)
    def restart(self, name: NodeId) -> None:
        self.lives[name] = Life(self.store.join(name, self.now).ref)

    @rule(name=NAMES)
    def election(self, name: NodeId) -> None:
        self.elect(name)

    @rule(
        data=st.data(),
        how=st.sampled_from(["land", "land", "land", "not", "lost", "late", "unanswered"]),
    )
    def answer(self, data: st.DataObject, how: str) -> None:
        if not self.asked_commits:
            return
        index = data.draw(st.integers(0, len(self.asked_commits) - 1))
        coordinator, batch = self.asked_commits.pop(index)
        if how == "land":
            self.give(coordinator, self.commit(batch))
        elif how == "not":
            self.give(coordinator, NotLanded(batch.scope, batch.serial))
        else:
            if how == "lost":
                self.commit(batch)
            elif how == "late":
                self.late_batches.append(batch)
            self.give(coordinator, Unknown(batch.scope, batch.serial))

    @rule(data=st.data())
    def late_commit(self, data: st.DataObject) -> None:
        if self.late_batches:
            index = data.draw(st.integers(0, len(self.late_batches) - 1))
            self.commit(self.late_batches.pop(index))

    @rule(data=st.data(), again=st.booleans())
    def deliver(self, data: st.DataObject, again: bool) -> None:
        if self.messages:
            index = data.draw(st.integers(0, len(self.messages) - 1))
            to, message = self.messages[index] if again else self.messages.pop(index)
            self.lives[to].take(message)

    @rule(name=NAMES, data=st.data())
    def report(self, name: NodeId, data: st.DataObject) -> None:
        term = data.draw(st.sampled_from([c.term for c in self.coordinators]))
        self.reports.append(self.lives[name].report(term))

    @rule(data=st.data(), again=st.booleans())
    def hear(self, data: st.DataObject, again: bool) -> None:
        if self.reports:
            index = data.draw(st.integers(0, len(self.reports) - 1))
            report = self.reports[index] if again else self.reports.pop(index)
            for coordinator in self.coordinators:
                self.give(coordinator, report)

    @rule(name=NAMES, feed=FEEDS, what=st.sampled_from(["end", "stale", "trouble"]))
    def maintainer(self, name: NodeId, feed: FeedId, what: str) -> None:
        hosted = self.lives[name].hosted.get(feed)
        if hosted is None or hosted.outcome is not None:
            return
        if what == "stale":
            hosted.outcome = Outcome.STALE
        elif what == "trouble":
            hosted.trouble = Trouble("broken", retryable=True)
        else:
            self.end(feed, hosted)

    def end(self, feed: FeedId, hosted: Hosted) -> None:
        """A maintainer that was told to does what it was told."""
        if hosted.outcome is None and hosted.goal in ENDING:
            hosted.outcome = ENDING[hosted.goal]
            self.done.add((feed, hosted.epoch))

    @rule(verb=FEED_VERBS)
    def person(self, verb: Any) -> None:
        self.ask(self.coordinators[-1], verb)

    @rule(verb=FEED_VERBS | NODE_VERBS, data=st.data())
    def person_at_anyone(self, verb: Any, data: st.DataObject) -> None:
        self.ask(data.draw(st.sampled_from(self.coordinators)), verb)

    def ask(self, coordinator: Coordinator, verb: Any) -> None:
        self.requests += 1
        request = f"r{self.requests}"
        self.asked_at[request] = self.store.scope(COORDINATOR).serial
        self.give(coordinator, verb.__replace__(request=request))

    @invariant()
    def whoever_hosts_was_recorded(self) -> None:
        for life in self.lives.values():
            for feed, hosted in life.hosted.items():
                assert self.owners[feed, hosted.epoch] == life.ref

    # --- the healed world -------------------------------------------------------------------

    def teardown(self) -> None:
        if not self.lives:
            return
        self.asked_commits.clear()
        self.messages.clear()
        self.reports.clear()
        self.renew_all()
        drained = {r.node for r in self.store.records(COORDINATOR).values() if hasattr(r, "node")}
        if {life.ref for life in self.lives.values()} <= drained:
            self.restart("b")
        self.elect("b")
        for _ in range(60):
            self.healthy_round()
        self.check_healed()

    def healthy_round(self) -> None:
        for life in self.lives.values():
            for feed, hosted in life.hosted.items():
                hosted.trouble = None
                self.end(feed, hosted)
        self.calm_round()

    def calm_round(self) -> None:
        """One tick of the true coordinator; whatever is asked for now is done now."""
        coordinator = self.coordinators[-1]
        self.now += TIMING.tick_ms
        self.renew_all()
        commits, self.asked_commits = self.asked_commits, []
        messages, self.messages = self.messages, []
        for asker, batch in commits:
            self.give(asker, self.commit(batch))
        self.give(coordinator, MembersSeen(self.store.members(self.now)))
        self.give(coordinator, Tick())
        for life in self.lives.values():
            self.give(coordinator, life.report(coordinator.term))
        while self.asked_commits or self.messages:
            while self.asked_commits:
                asker, batch = self.asked_commits.pop(0)
                self.give(asker, self.commit(batch))
            while self.messages:
                to, message = self.messages.pop(0)
                self.lives[to].take(message)
        self.messages = messages

    def check_healed(self) -> None:
        coordinator = self.coordinators[-1]
        assert coordinator.state is CoordinatorState.ACTIVE
        recorded: dict[FeedId, FeedRecord] = dict(coordinator.book.durable)
        for feed, record in recorded.items():
            assert coordinator.book.settled(feed)
            if record.goal is Goal.RUN:
                assert record.owner is not None
                assert self.lives[record.owner.node].ref == record.owner
                assert self.lives[record.owner.node].hosted[feed].epoch == record.epoch
            else:
                assert record.owner is None
                assert record.goal is not Goal.REMOVE or record.state is FeedState.REMOVED
        for life in self.lives.values():
            for feed in life.hosted:
                assert recorded[feed].owner == life.ref


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=120, stateful_step_count=60, deadline=None)
