"""One node's core: the machines that live on it, and which event is for whom.

    event ──► lease still good? ──no──► StopEverything, drop all that lives here, Join
                    │
                   yes
                    ├── lease answers ────────────────────────────► membership
                    ├── store answers, by scope ──┬─ coordinator ─► coordinator, while elected
                    ├── NodeReport, FeedVerb ─────┘
                    ├── Start/StopMaintainer ─────────────────────► maintainer host
                    ├── replies of nodes, sink, SpanVerb, by feed ► the feed's maintainer
                    └── requests of maintainers, dispatchers ─────► dispatcher manager

Everything but the membership belongs to one *life* of the node and goes with it. What comes
back later for a former life finds nobody.

One thing is kept across lives: how many commits of each scope are still unanswered. An answer
names its scope and a serial, not the writer; so nobody new may write to a scope here before
the answers to his predecessor's commits are all in. He could take one of them for his own.
The same holds for a coordinator of a later term, and, within the host, for a later epoch.

The coordinator talks to its own node as to any other, through `Send`: there is one path.
"""

from collections.abc import Callable
from typing import Any, Protocol

from lockgate.core.coordinator.coordinator import Coordinator, CoordinatorState, Dismissed
from lockgate.core.host import MaintainerHost
from lockgate.core.member import LifeOver, MemberMachine, View
from lockgate.core.routes import ROUTES
from lockgate.core.slot import HostedMaintainer, MaintainerFactory
from lockgate.model.batch import (
    Landed,
    Loaded,
    NotLanded,
    Refused,
    Unknown,
)
from lockgate.model.config import CoreConfig
from lockgate.model.events import (
    DispatcherEvent,
    Event,
    FeedVerb,
    LeaseEvent,
    MembersSeen,
    SinkEvent,
    SpanVerb,
    StoreEvent,
    Tick,
)
from lockgate.model.ids import FeedId, Millis, NodeId, NodeRef, Term
from lockgate.model.instructions import Answer, Commit, Instruction, Send
from lockgate.model.messages import (
    Bootstrap,
    BootstrapReply,
    Close,
    CloseReply,
    Heartbeat,
    HeartbeatReply,
    NodeReport,
    Requests,
    Stale,
    StartMaintainer,
    StopMaintainer,
)
from lockgate.model.records import COORDINATOR, Scope, feed_scope, node_scope

FEED_SCOPE_PREFIX = feed_scope("")


class HostedManager(Protocol):
    """What the node needs of its dispatcher manager."""

    def handle(self, now: Millis, event: Any) -> list[Instruction]:
        """Take one event."""
        ...

    @property
    def dispatchers(self) -> int:
        """How many dispatchers are here."""
        ...

    @property
    def refused(self) -> bool:
        """The metastore refused its journal: this life of the node is over."""
        ...


ManagerFactory = Callable[[CoreConfig, NodeRef], HostedManager]


class NodeCore:
    """The composition of the machines of one process."""

    def __init__(
        self,
        config: CoreConfig,
        node: NodeId,
        *,
        maintainer: MaintainerFactory | None = None,
        manager: ManagerFactory | None = None,
    ) -> None:
        self.node = node
        self.member = MemberMachine(config, node)
        self.coordinator: Coordinator | None = None
        self.host: MaintainerHost | None = None
        self.manager: HostedManager | None = None
        self._config = config
        self._new_maintainer = maintainer or _maintainer_factory()
        self._new_manager = manager or _manager_factory()
        self._unanswered: dict[Scope, int] = {}
        self._last_term: Term = 0
        """The newest term that this process coordinated; a term is used once."""
        self._beat = 0
        self._now: Millis = 0
        self._put_back: Millis = 0
        """By how much the node's clock was ever put back."""
        self._out: list[Instruction] = []

    # --- looking in -------------------------------------------------------------------------

    @property
    def ref(self) -> NodeRef | None:
        """The present life; None while the node has none."""
        return self.member.ref

    @property
    def now(self) -> Millis:
        """The time by which everything here goes: the node's clock, but never back."""
        return self._now

    @property
    def maintainers(self) -> dict[FeedId, HostedMaintainer]:
        """The maintainers here, the ended ones too, by feed."""
        return {} if self.host is None else self.host.maintainers

    # --- events in, instructions out --------------------------------------------------------

    def handle(self, now: Millis, event: Event) -> list[Instruction]:
        """Take one event; give back what is to be done about it, in this order.

        A clock that is put back would freeze everything that waits for a time: for the core,
        time only goes on.
        """
        if now + self._put_back < self._now:
            self._put_back = self._now - now
        self._now = now + self._put_back
        self._fence_if_expired()
        method: Callable[[Any], None] = getattr(self, ROUTES[type(event)])
        method(event)
        self._fence_if_refused()
        self._drop_deposed_coordinator()
        out, self._out = self._out, []
        self._count_commits(out)
        return out

    def _on_tick(self, tick: Tick) -> None:
        self._follow_membership(tick)
        self._open_manager()
        self._follow_leader()
        if self.manager is not None:
            self._out += self.manager.handle(self._now, tick)
        if self.host is not None:
            self._out += self.host.broadcast(self._now, tick)
        if self.coordinator is not None:
            self._out += self.coordinator.handle(self._now, tick)
        self._report()

    def _report(self) -> None:
        """Tell the coordinator who lives here. Not before the node knows it itself."""
        leader = self.member.view.leader
        if leader is None or self.ref is None or self.host is None or self.manager is None:
            return
        self._beat += 1
        here = (self.host.report(), self.manager.dispatchers, self._is_draining())
        self._out.append(
            Send(leader.ref.node, NodeReport(self.ref, leader.term, self._beat, *here))
        )

    def _is_draining(self) -> bool:
        """The metastore says that this life is to be emptied."""
        members = self.member.view.members
        return any(member.ref == self.ref and member.draining for member in members)

    # --- lives ------------------------------------------------------------------------------

    def _fence_if_expired(self) -> None:
        """Before anything else: a process that was paused does nothing in its old life (F12)."""
        if self.member.expired(self._now):
            self._follow_membership(LifeOver("the lease ran out"))

    def _fence_if_refused(self) -> None:
        """Another life of this node has begun elsewhere; nothing said in this event may go out."""
        if self.manager is not None and self.manager.refused:
            answers = [said for said in self._out if isinstance(said, Answer)]
            self._out = []
            self._follow_membership(LifeOver("the metastore knows a newer life of this node"))
            self._out += answers

    def _on_lease(self, event: LeaseEvent) -> None:
        self._follow_membership(event)

    def _follow_membership(self, event: Tick | LeaseEvent | LifeOver) -> None:
        """Let the membership take the event, then be what it says that this node is."""
        ref, view = self.member.ref, self.member.view
        self._out += self.member.handle(self._now, event)
        if self.member.ref != ref:
            self._drop_life()
            self._begin_life()
        if self.member.view is not view:
            self._on_view(self.member.view)

    def _drop_life(self) -> None:
        self._dismiss_coordinator()
        if self.host is not None:
            self._out += self.host.end(self._now)
        self.host = None
        self.manager = None

    def _begin_life(self) -> None:
        if self.ref is not None:
            self.host = MaintainerHost(self._config, self.ref, self._new_maintainer, self._awaits)
            self._open_manager()

    def _open_manager(self) -> None:
        if self.ref is None or self.manager is not None or self._awaits(node_scope(self.node)):
            return
        self.manager = self._new_manager(self._config, self.ref)

    # --- the cluster ------------------------------------------------------------------------

    def _on_view(self, view: View) -> None:
        self._follow_leader()
        seen = MembersSeen(view.members, view.asked_at)
        if self.host is not None:
            self._out += self.host.broadcast(self._now, seen)
        if self.coordinator is not None:
            self._out += self.coordinator.handle(self._now, seen)

    def _follow_leader(self) -> None:
        """Coordinate exactly while the metastore names this life, under the term it names."""
        leader = self.member.view.leader
        elected = leader is not None and leader.ref == self.ref
        if self.coordinator is not None and not (
            leader is not None and elected and leader.term == self.coordinator.term
        ):
            self._dismiss_coordinator()
        if leader is not None and elected and self._may_begin_term(leader.term):
            self._begin_term(leader.term)

    def _may_begin_term(self, term: Term) -> bool:
        return term > self._last_term and not self._awaits(COORDINATOR)

    def _begin_term(self, term: Term) -> None:
        assert self.ref is not None
        self._last_term = term
        self.coordinator = Coordinator(self._config, self.ref, term)
        self._out += self.coordinator.handle(self._now, MembersSeen(self.member.view.members))
        self._out += self.coordinator.handle(self._now, Tick())

    def _dismiss_coordinator(self) -> None:
        if self.coordinator is not None:
            self._out += self.coordinator.handle(self._now, Dismissed())
            self.coordinator = None

    def _drop_deposed_coordinator(self) -> None:
        if self.coordinator is not None and self.coordinator.state is CoordinatorState.DEPOSED:
            self.coordinator = None

    # --- the metastore ----------------------------------------------------------------------

    def _on_commit_answer(self, answer: Landed | Refused | NotLanded | Unknown) -> None:
        self._unanswered[answer.scope] = max(0, self._unanswered.get(answer.scope, 0) - 1)
        self._on_store(answer)

    def _on_loaded(self, loaded: Loaded) -> None:
        """Readings are not counted as commits are: one that a former owner asked for is known by
        its fence, and the present owner, who asked too, waits for his own."""
        if loaded.fence >= self._fence_here(loaded.scope):
            self._on_store(loaded)

    def _fence_here(self, scope: Scope) -> int:
        """The fence under which somebody here owns the scope; 0 when nobody does."""
        if scope == COORDINATOR:
            return 0 if self.coordinator is None else self.coordinator.term
        if scope == node_scope(self.node):
            return 0 if self.ref is None else self.ref.incarnation
        if self.host is None:
            return 0
        return self.host.epoch_of(scope.removeprefix(FEED_SCOPE_PREFIX)) or 0

    def _on_store(self, event: StoreEvent) -> None:
        if event.scope == COORDINATOR:
            if self.coordinator is not None:
                self._out += self.coordinator.handle(self._now, event)
        elif event.scope == node_scope(self.node):
            if self.manager is not None:
                self._out += self.manager.handle(self._now, event)
        elif self.host is not None:
            feed = event.scope.removeprefix(FEED_SCOPE_PREFIX)
            self._out += self.host.forward(self._now, feed, event)

    def _count_commits(self, out: list[Instruction]) -> None:
        for instruction in out:
            if isinstance(instruction, Commit):
                scope = instruction.batch.scope
                self._unanswered[scope] = self._unanswered.get(scope, 0) + 1

    def _awaits(self, scope: Scope) -> bool:
        """True while a commit to the scope, by whomever here, is unanswered."""
        return self._unanswered.get(scope, 0) > 0

    # --- maintainers ------------------------------------------------------------------------

    def _on_start_maintainer(self, start: StartMaintainer) -> None:
        if self.host is not None:
            self._out += self.host.start(self._now, start)

    def _on_stop_maintainer(self, stop: StopMaintainer) -> None:
        if self.host is not None:
            self._out += self.host.stop(self._now, stop)

    def _on_reply(self, reply: BootstrapReply | Heartbeat | CloseReply | Stale) -> None:
        if self.host is not None:
            self._out += self.host.forward(self._now, reply.feed, reply)

    def _on_sink(self, event: SinkEvent) -> None:
        if self.host is not None and self.host.epoch_of(event.feed) == event.token.epoch:
            self._out += self.host.forward(self._now, event.feed, event)

    def _on_span_verb(self, verb: SpanVerb) -> None:
        if self.host is not None and self.host.is_working(verb.feed):
            self._out += self.host.forward(self._now, verb.feed, verb)
            return
        self._out.append(
            Answer(
                verb.request,
                "not-owner",
                "the feed's maintainer is not on this node",
                "ask the node that owns the feed",
            )
        )

    # --- dispatchers ------------------------------------------------------------------------

    def _on_request(self, request: Bootstrap | Requests | HeartbeatReply | Close) -> None:
        if self.manager is not None:
            self._out += self.manager.handle(self._now, request)

    def _on_dispatcher(self, event: DispatcherEvent) -> None:
        """Dispatchers of a former life were stopped with it; what they still say is not news."""
        if self.manager is None or self.ref is None:
            return
        if event.token.incarnation == self.ref.incarnation:
            self._out += self.manager.handle(self._now, event)

    # --- the coordinator --------------------------------------------------------------------

    def _on_node_report(self, report: NodeReport) -> None:
        if self.coordinator is not None:
            self._out += self.coordinator.handle(self._now, report)

    def _on_feed_verb(self, verb: FeedVerb) -> None:
        if self.coordinator is not None:
            self._out += self.coordinator.handle(self._now, verb)
            return
        leader = self.member.view.leader
        hint = "ask again in a moment" if leader is None else f"ask node {leader.ref.node}"
        self._out.append(
            Answer(verb.request, "not-coordinator", "this node is not the coordinator", hint)
        )


def _maintainer_factory() -> MaintainerFactory:
    from lockgate.core.maintainer.maintainer import Maintainer

    return Maintainer


def _manager_factory() -> ManagerFactory:
    from lockgate.core.dispatchers.manager import DispatcherManager

    return DispatcherManager
