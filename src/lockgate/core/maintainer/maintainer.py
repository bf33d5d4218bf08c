"""The maintainer: owns one feed under one epoch, and is the only one to decide about it.

    LOADING ──intent read──► BOOTSTRAPPING ──nodes answered, or hung──► RUNNING
       │                          │                                       │
       │ goal: stop, remove       │ goal changed                          │ goal changed
       ▼                          ▼                                       ▼
    CLOSING ◄─────────────────────┴───────────────────────────────────────┘
       │ no node has anything of the feed left
       ▼
    REVOKING ──tokens void at the sink──► FORGETTING ──records gone──► ENDED
                      (goal stop: straight to ENDED)

    a refused write, or a node that has seen a newer owner: ENDED, from everywhere

It joins two halves of the truth: the intent that former owners made durable, and what the nodes
report. It does not wait for a hung node: what was recorded there is placed anew under a higher
token, and the sink's fence does the rest.
"""

from typing import Any

from lockgate.core.machine import Machine
from lockgate.core.maintainer import phases
from lockgate.core.maintainer.barrier import Barrier
from lockgate.core.maintainer.checkpoint import Checkpoint
from lockgate.core.maintainer.intake import Intake
from lockgate.core.maintainer.intent import Intent
from lockgate.core.maintainer.nodes import NodeState, NodeTable, NodeView
from lockgate.core.maintainer.operating import Operating
from lockgate.core.maintainer.reach import Reach
from lockgate.core.maintainer.refusals import explain
from lockgate.core.maintainer.scheduler import Scheduler
from lockgate.core.maintainer.spans import SpanTable
from lockgate.core.maintainer.wishes import MergeWish, MoveWish, SplitWish
from lockgate.core.operators.base import Operator
from lockgate.core.writer import Writer
from lockgate.model.batch import Loaded, Refused
from lockgate.model.config import CoreConfig
from lockgate.model.events import (
    MembersSeen,
    MergeSpans,
    MoveSpan,
    SetGoal,
    SinkClosed,
    SplitSpan,
    Tick,
)
from lockgate.model.feeds import FeedSpec, Goal, Outcome
from lockgate.model.ids import Epoch, FeedId, Millis, NodeRef, OperatorId, Seq, Token
from lockgate.model.instructions import CloseSink, Instruction, Load, Send
from lockgate.model.messages import (
    Bootstrap,
    BootstrapReply,
    Close,
    CloseReply,
    Heartbeat,
    HeartbeatReply,
    Stale,
)
from lockgate.model.records import feed_scope
from lockgate.model.statuses import MaintainerStatus, Phase


class Maintainer(Machine):
    """The owner of one feed."""

    EVENTS = phases.EVENTS
    TABLE = phases.TABLE
    BULKY = phases.BULKY

    def __init__(
        self,
        config: CoreConfig,
        feed: FeedId,
        epoch: Epoch,
        me: NodeRef,
        goal: Goal,
        spec: FeedSpec,
    ) -> None:
        super().__init__(f"maintainer of {feed} at epoch {epoch}", Phase.LOADING)
        self.config = config
        self.feed = feed
        self.epoch = epoch
        self.me = me
        self.goal = goal
        self.spec = spec
        self.outcome: Outcome | None = None
        self.spans = SpanTable()
        self.nodes = NodeTable()
        self.operating = Operating(config, epoch, self.spans, self.nodes, self._tell_person)
        self.reach = Reach(feed, epoch, me, self.spans, self.nodes, self.operating)
        self.scheduler = Scheduler(config, self.spans, self.nodes, self.operating)
        self.barrier = Barrier(feed, self.reach, self.operating)
        self.intake = Intake(config, self.spans, self.operating, self.barrier, self.reach)
        self.progress = Checkpoint(self.spans, self.barrier)
        self.intent = Intent(self.spans, self.operating, self.barrier, self.progress, self.reach)
        self._asked_at: Millis | None = None
        self._began_at: Millis | None = None
        self._view_is_own = False
        """The members are known by an answer to a question of this maintainer's time."""
        self._settle_at: Millis = 0
        self._settled: dict[NodeRef, Seq] = {}

    # --- what others see --------------------------------------------------------------------

    @property
    def operators(self) -> dict[OperatorId, Operator]:
        """The operators in flight."""
        return self.operating.operators

    def status(self) -> MaintainerStatus:
        """What the coordinator is told."""
        checkpoint = self.progress.value
        return MaintainerStatus(
            self.feed,
            self.epoch,
            self._phase(),
            checkpoint,
            spans=len(self.spans),
            operators=len(self.operators),
            finished=self.spec.until is not None and checkpoint >= self.spec.until,
            trouble=self.intake.trouble,
            outcome=self.outcome,
        )

    def _phase(self) -> Phase:
        assert isinstance(self.state, Phase)
        return self.state

    def handle(self, now: Millis, event: Any) -> list[Instruction]:
        """See `Machine.handle`."""
        self.reach.now = now
        return super().handle(now, event)

    # --- loading ----------------------------------------------------------------------------

    def _load(self, _: Tick) -> None:
        if self._is_due():
            self.emit(Load(feed_scope(self.feed)))

    def _is_due(self) -> bool:
        """Whether to ask again for what was not answered; asking is noted."""
        asked_at = self._asked_at
        if asked_at is not None and self.now - asked_at < self.config.timing.resend_ms:
            return False
        self._asked_at = self.now
        return True

    def _take_intent(self, loaded: Loaded) -> None:
        if loaded.fence < self.epoch:
            return  # a late answer to the question of a former owner; ours is still to come
        if loaded.fence > self.epoch:
            self._end(Outcome.STALE)
            return
        self.reach.writer = Writer(
            loaded.scope,
            self.epoch,
            loaded.serial,
            records_max=self.config.policy.batch_records_max,
            retry_ms=self.config.timing.resend_ms,
        )
        self.intent.take_over(loaded.records)
        if self.goal is not Goal.RUN:
            self._begin_closing()
            return
        if not self.intent.is_conceived:
            self.intent.conceive(self.spec)
        self.state = Phase.BOOTSTRAPPING
        self._settle_at = self.now + self.config.timing.bootstrap_wait_ms

    # --- bootstrapping ----------------------------------------------------------------------

    def _members(self, seen: MembersSeen) -> None:
        if self._began_at is None:
            self._began_at = self.now
        self._view_is_own = seen.asked_at is None or seen.asked_at >= self._began_at
        for ref in self.nodes.update(seen.members, self.now):
            self._lose(ref)

    def _ask_nodes(self) -> None:
        """A bootstrap to every member that has not answered one, now and then."""
        due = self.now - self.config.timing.resend_ms
        for view in self.nodes.waiting():
            if view.asked_at is None or view.asked_at <= due:
                view.asked_at = self.now
                self.emit(Send(view.ref.node, Bootstrap(self.feed, self.epoch, self.me)))

    def _bootstrap_reply(self, reply: BootstrapReply) -> None:
        """The first answer of a life of a node counts; repeated and late ones change nothing."""
        view = self._view_of(reply)
        if view is None or view.state is NodeState.READY:
            return
        view.state = NodeState.READY
        view.heard_at = self.now
        for status in reply.statuses:
            self.intake.take(self.now, reply.node, status)

    def _view_of(self, message: BootstrapReply | Heartbeat | CloseReply) -> NodeView | None:
        return self.nodes.get(message.node) if message.epoch == self.epoch else None

    def _tick_bootstrapping(self, _: Tick) -> None:
        self._ask_nodes()
        answered = self.nodes.all() and not self.nodes.waiting()
        if answered or (self.nodes.hosts() and self.now >= self._settle_at):
            self._settle_bootstrap()

    def _settle_bootstrap(self) -> None:
        """Whatever was recorded and not reported is nowhere: it will be placed anew."""
        self.state = Phase.RUNNING
        for span in list(self.spans.all()):
            if span.node is not None and span.stage is None:
                self.spans.lose(span.id)

    # --- running ----------------------------------------------------------------------------

    def _heartbeat(self, beat: Heartbeat) -> None:
        view = self._view_of(beat)
        if view is None or view.state is not NodeState.READY or beat.beat <= view.beat:
            return
        view.beat = beat.beat
        view.heard_at = self.now
        for status in beat.statuses:
            self.intake.take(self.now, beat.node, status)
        if beat.full:
            self.intake.miss(beat)

    def _tick_running(self, _: Tick) -> None:
        self._ask_nodes()
        for ref in self.nodes.fall_silent(self.now, self.config.timing.silence_ms):
            self._lose(ref)
        self.operating.tick(self.now)
        self.barrier.handle(self.now, Tick())
        self.scheduler.balance(self.now)
        self.operating.begin_wishes(self.now, self.reach)
        record = self.progress.advance()
        if record is not None:
            self.reach.record(puts=(record,))
        self._tell_settled()

    def _lose(self, ref: NodeRef) -> None:
        """A life of a node has ended, or it is silent: nothing there is ours any more."""
        if self.state not in (Phase.BOOTSTRAPPING, Phase.RUNNING):
            return
        self.operating.lost(self.now, ref)
        for span in self.spans.on_node(ref):
            if self.operating.holder(span.id) is None:
                self.spans.lose(span.id)
        self._settled.pop(ref, None)

    def _tell_settled(self) -> None:
        """Let nodes forget what guards against requests that are not under way any more."""
        settled = self.operating.least_seq(self.reach.seq + 1)
        for view in self.nodes.all():
            if view.state is NodeState.READY and self._settled.get(view.ref, 0) < settled:
                self._settled[view.ref] = settled
                reply = HeartbeatReply(
                    self.feed, self.epoch, self.me, view.ref.incarnation, settled
                )
                self.emit(Send(view.ref.node, reply))

    # --- people -----------------------------------------------------------------------------

    def _wish_move(self, verb: MoveSpan) -> None:
        self.operating.wish(MoveWish(verb.span, verb.node, verb.request))

    def _wish_split(self, verb: SplitSpan) -> None:
        self.operating.wish(SplitWish(verb.span, verb.points, verb.request))

    def _wish_merge(self, verb: MergeSpans) -> None:
        self.operating.wish(MergeWish(verb.spans, verb.request))

    def _not_yet(self, verb: Any) -> None:
        self._tell_person(verb.request, "not-running")

    def _tell_person(self, request: str, code: str) -> None:
        if request:
            self.emit(explain(request, code, self.feed))

    # --- closing ----------------------------------------------------------------------------

    def _note_goal(self, event: SetGoal) -> None:
        if self.goal is not Goal.REMOVE:
            self.goal = event.goal

    def _new_goal(self, event: SetGoal) -> None:
        self._note_goal(event)
        if self.goal is not Goal.RUN:
            self._begin_closing()

    def _begin_closing(self) -> None:
        self.state = Phase.CLOSING
        self.intent.abandon_operators()

    def _tick_closing(self, _: Tick) -> None:
        """Every member has to confirm. A hung one is waited for: its lease ends, or it answers.

        Who is a member was asked after this owner began: a node that joined before that, and
        was given something by a former owner, is among them.
        """
        due = self.now - self.config.timing.resend_ms
        members = self.nodes.all()
        waiting = [view for view in members if not view.closed]
        for view in waiting:
            if view.asked_at is None or view.asked_at <= due:
                view.asked_at = self.now
                close = Close(self.feed, self.epoch, self.me, view.ref.incarnation)
                self.emit(Send(view.ref.node, close))
        if members and not waiting and self._view_is_own:
            self.state = Phase.REVOKING
            self._asked_at = None
            self._revoke(Tick())

    def _close_reply(self, reply: CloseReply) -> None:
        view = self._view_of(reply)
        if view is not None:
            view.closed = True

    def _revoke(self, _: Tick) -> None:
        if not self._is_due():
            return
        self.emit(CloseSink(self.feed, self._closing_token(), self.goal is Goal.REMOVE))

    def _closing_token(self) -> Token:
        return self.reach.closing_token(forget=self.goal is Goal.REMOVE)

    def _revoked(self, event: SinkClosed) -> None:
        if event.token != self._closing_token():
            return
        if self.goal is not Goal.REMOVE:
            self._end(Outcome.STOPPED)
            return
        self.state = Phase.FORGETTING
        self.intent.forget()
        self.reach.record(then=lambda: self._end(Outcome.REMOVED))

    # --- the end ----------------------------------------------------------------------------

    def _answered(self, answer: Any) -> None:
        if self.reach.writer is not None:
            self.reach.writer.answered(self.now, answer)

    def _end_refused(self, _: Refused) -> None:
        self._end(Outcome.STALE)

    def _stale(self, stale: Stale) -> None:
        """A node has seen a newer owner. An answer to somebody else's request is not for us."""
        if stale.epoch == self.epoch:
            self._end(Outcome.STALE)

    def _stale_closing(self, stale: Stale) -> None:
        """Late requests of our own meet our own tombstone; only a newer owner counts."""
        if stale.epoch == self.epoch and stale.seen > self.epoch:
            self._end(Outcome.STALE)

    def _end(self, outcome: Outcome) -> None:
        self.state = Phase.ENDED
        self.outcome = outcome
        self.operating.abandon("owner-lost")

    # --- after every event ------------------------------------------------------------------

    def settle(self) -> None:
        """Place what is absent, write, send what was asked. An ended one does neither."""
        if self.state is Phase.ENDED:
            return
        if self.state is Phase.RUNNING:
            self.scheduler.place_absent(self.now, self.reach, self.progress.born)
        if self.reach.writer is not None:
            commit = self.reach.writer.flush(self.now)
            if commit is not None:
                self.emit(commit)
        for send in self.reach.take_asks(self.config.policy.requests_max):
            self.emit(send)
